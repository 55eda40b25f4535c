"""Arrival processes against theory. Bounds are five standard errors: each holds for all but one seed in a million."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from servetwin.streams import Streams
from servetwin.units import PS_PER_S
from servetwin.workload.arrivals import Arrivals
from servetwin.workload.process import ArrivalProcess

ADAPTER: TypeAdapter[ArrivalProcess] = TypeAdapter(Arrivals)
SEEDS = range(4)


def take(content: dict[str, Any], number: int | None, seed: int = 0) -> list[int]:
    times = ADAPTER.validate_python(content).times(Streams(seed).generator("arrivals"))
    return list(islice(times, number))


@pytest.mark.parametrize("seed", SEEDS)
def test_poisson_gaps_are_exponential(seed: int) -> None:
    number, rate = 40_000, 8.0
    gaps = np.diff(np.array(take({"rate_per_s": rate}, number, seed)) / PS_PER_S, prepend=0.0) * rate
    assert abs(gaps.mean() - 1) < 5 / np.sqrt(number)
    assert abs((gaps**2).mean() - 2) < 5 * np.sqrt(20 / number)  # Var(X²) = 24 − 4
    for point in (0.1, 0.7, 2.0):  # the distribution itself, not just two moments
        expected = np.exp(-point)
        assert abs((gaps > point).mean() - expected) < 5 * np.sqrt(expected * (1 - expected) / number)
    neighbours = np.corrcoef(gaps[:-1], gaps[1:])[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(number)


@pytest.mark.parametrize("cv", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_gamma_gaps_have_the_given_variation(cv: float, seed: int) -> None:
    number, rate = 60_000, 5.0
    times = take({"process": "gamma", "rate_per_s": rate, "cv": cv}, number, seed)
    gaps = np.diff(np.array(times) / PS_PER_S, prepend=0.0) * rate
    assert abs(gaps.mean() - 1) < 5 * cv / np.sqrt(number)
    # The fourth central moment of a gamma variable of mean 1 is 3 cv⁴ + 6 cv⁶.
    error = np.sqrt((2 * cv**4 + 6 * cv**6) / number)
    assert abs(((gaps - 1) ** 2).mean() - cv**2) < 5 * error


def test_constant_rate_keeps_equal_gaps_without_drift() -> None:
    times = take({"process": "constant", "rate_per_s": 3}, 30_001)
    assert times[0] == 0
    assert times[3] == PS_PER_S
    assert times[-1] == 10_000 * PS_PER_S


def test_bursts_come_together_and_again() -> None:
    times = take({"process": "bursts", "size": 3, "interval_s": 0.5}, 7)
    assert times == [0, 0, 0, PS_PER_S // 2, PS_PER_S // 2, PS_PER_S // 2, PS_PER_S]


def test_a_burst_without_an_interval_comes_once() -> None:
    process = ADAPTER.validate_python({"process": "bursts", "size": 4})
    assert process.finite
    assert take({"process": "bursts", "size": 4}, None) == [0] * 4


@pytest.mark.parametrize("seed", SEEDS)
def test_on_off_switches_the_rate(seed: int) -> None:
    cycles, on, off = 400, 10.0, 30.0
    content = {"process": "on-off", "rate_per_s": 20, "on_s": on, "off_s": off, "off_rate_per_s": 1}
    number = int(cycles * (20 * on + 1 * off) * 1.1)
    times = np.array(take(content, number, seed)) / PS_PER_S
    times = times[times < cycles * (on + off)]
    busy = (times % (on + off) < on).sum()
    assert abs(busy - cycles * 20 * on) < 5 * np.sqrt(cycles * 20 * on)
    assert abs(len(times) - busy - cycles * off) < 5 * np.sqrt(cycles * off)


def test_nobody_comes_while_off() -> None:
    content = {"process": "on-off", "rate_per_s": 50, "on_s": 1, "off_s": 9}
    times = np.array(take(content, 5_000)) / PS_PER_S
    assert (times % 10 <= 1).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_stages_have_their_own_rates_and_end(seed: int) -> None:
    stages = [{"rate_per_s": r, "duration_s": d} for r, d in ((5, 600), (0, 100), (10, 600))]
    content = {"process": "staged", "stages": stages}
    times = np.array(take(content, None, seed)) / PS_PER_S
    assert ADAPTER.validate_python(content).finite
    counts = np.histogram(times, [0, 600, 700, 1300])[0]
    assert counts.sum() == len(times)
    assert counts[1] == 0
    assert abs(counts[0] - 3000) < 5 * np.sqrt(3000)
    assert abs(counts[2] - 6000) < 5 * np.sqrt(6000)
    assert counts[0] != 3000 or counts[2] != 6000, "a Poisson count is hardly ever its mean twice"


def test_exact_counts_send_exactly_rate_times_duration() -> None:
    stages = [{"rate_per_s": 5, "duration_s": 600}, {"rate_per_s": 10, "duration_s": 600}]
    content = {"process": "staged", "stages": stages, "exact_counts": True}
    times = np.array(take(content, None)) / PS_PER_S
    assert np.histogram(times, [0, 600, 1200])[0].tolist() == [3000, 6000]
    assert (np.diff(times) >= 0).all()
    gaps = np.diff(times[:3000])
    assert 0.9 < gaps.std() / gaps.mean() < 1.1, "the instants are random, not regular"


def test_a_higher_rate_squeezes_the_same_draws() -> None:
    slow = take({"rate_per_s": 2}, 3_000)
    fast = take({"rate_per_s": 4}, 3_000)
    assert fast == pytest.approx([time / 2 for time in slow], rel=1e-9, abs=3_000)


def test_closed_loop_starts_every_client_once() -> None:
    content = {"process": "closed-loop", "concurrency": 4}
    assert take(content, None) == [0, 0, 0, 0]
    content["ramp_s"] = 2
    assert take(content, None) == [0, PS_PER_S // 2, PS_PER_S, 3 * PS_PER_S // 2]


@pytest.mark.parametrize(
    "content",
    [
        {"rate_per_s": 1e-9},
        {"rate_per_s": 1e9},
        {"process": "gamma", "rate_per_s": 1e-9, "cv": 30},
        {"process": "bursts", "size": 2, "interval_s": 1e-300},
    ],
)
def test_extreme_rates_stay_ordered_and_finite(content: dict[str, Any]) -> None:
    times = take(content, 3_000)
    assert len(times) == 3_000
    assert times == sorted(times)
    assert times[-1] > times[0] >= 0


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"rate_per_s": 0}, "rate_per_s"),
        ({"rate_per_s": -1}, "rate_per_s"),
        ({"rate_per_s": float("nan")}, "rate_per_s"),
        ({"rate_per_s": float("inf")}, "rate_per_s"),
        ({"rate_per_s": "8"}, "rate_per_s"),
        ({"rate_per_s": True}, "rate_per_s"),
        ({"rate_per_s": None}, "rate_per_s"),
        ({}, "rate_per_s"),
        ({"rate_per_s": 8, "ratee": 3}, "ratee"),
        ({"process": "possion", "rate_per_s": 8}, "possion"),
        ({"process": "gamma", "rate_per_s": 8}, "cv"),
        ({"process": "gamma", "rate_per_s": 8, "cv": 0}, "cv"),
        ({"process": "bursts", "size": 2.5}, "size"),
        ({"process": "bursts", "size": True}, "size"),
        ({"process": "bursts", "size": 0}, "size"),
        ({"process": "staged", "stages": []}, "stages"),
        ({"process": "staged", "stages": [{"rate_per_s": 0, "duration_s": 1}]}, "at least one stage"),
        ({"process": "staged", "stages": [{"rate_per_s": 1, "duration_s": 0}]}, "duration_s"),
        ({"process": "on-off", "rate_per_s": 1e-9, "on_s": 1, "off_s": 1}, "average"),
        ({"process": "closed-loop", "concurrency": 0}, "concurrency"),
        ({"process": "closed-loop", "concurrency": 1, "think_time_s": -1}, "think_time_s"),
        ({"process": "closed-loop", "concurrency": 1, "rate_per_s": 1}, "rate_per_s"),
        (7, "dictionary"),
    ],
)
def test_mistakes_are_refused_by_name(content: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ADAPTER.validate_python(content)
