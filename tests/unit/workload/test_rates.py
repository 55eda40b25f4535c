"""Rates that change with time, against theory. Bounds are five standard errors."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from servetwin.streams import Streams
from servetwin.units import PS_PER_S
from servetwin.workload.arrivals import AllAtOnce, Arrivals, Poisson
from servetwin.workload.process import ArrivalProcess

ADAPTER: TypeAdapter[ArrivalProcess] = TypeAdapter(Arrivals)
SEEDS = range(3)


def take(content: dict[str, Any], number: int | None, seed: int = 0) -> list[int]:
    times = ADAPTER.validate_python(content).times(Streams(seed).generator("arrivals"))
    return list(islice(times, number))


def stages(*rows: tuple[float, float | None, float], **more: Any) -> dict[str, Any]:
    parts = [{"rate_per_s": start, "end_rate_per_s": end, "duration_s": length} for start, end, length in rows]
    return {"process": "staged", "stages": parts, **more}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("start", "end"), [(2.0, 12.0), (12.0, 2.0), (0.0, 14.0), (14.0, 0.0)])
def test_a_ramp_follows_its_line(start: float, end: float, seed: int) -> None:
    """Seven a second on average over 1,000 s; a quarter of the time has the area of a trapezium."""
    times = np.array(take(stages((start, end, 1000)), None, seed)) / PS_PER_S
    counts = np.histogram(times, np.linspace(0, 1000, 5))[0]
    assert counts.sum() == len(times), "nobody comes after the last stage"
    edges = start + (end - start) * np.linspace(0, 1, 5)
    expected = (edges[:-1] + edges[1:]) / 2 * 250
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    assert (np.diff(times) >= 0).all()


def test_a_level_ramp_is_a_stage() -> None:
    assert take(stages((5, 5, 300)), None) == take(stages((5, None, 300)), None)


def test_a_ramp_in_steps_is_the_same_ramp() -> None:
    """The arrivals are the inverse of the integrated rate, wherever its course is cut in two."""
    whole, halves = take(stages((2, 12, 1000)), None), take(stages((2, 7, 500), (7, 12, 500)), None)
    assert len(whole) == len(halves)
    assert np.abs(np.array(whole) - np.array(halves)).max() < 1_000_000  # a microsecond of rounding


def test_exact_counts_of_a_ramp() -> None:
    times = np.array(take(stages((0, 20, 500), (20, None, 100), (20, 0, 500), exact_counts=True), None)) / PS_PER_S
    counts = np.histogram(times, [0, 250, 500, 600, 850, 1100])[0]
    assert (counts[:2].sum(), counts[2], counts[3:].sum()) == (5000, 2000, 5000)
    # The first half of a ramp from 0 has a quarter of its arrivals: binomial, standard error √(5000·3/16).
    assert abs(counts[0] - 1250) < 5 * np.sqrt(5000 * 3 / 16)
    assert abs(counts[4] - 1250) < 5 * np.sqrt(5000 * 3 / 16)


@pytest.mark.parametrize("exact", [False, True])
def test_stages_repeat(exact: bool) -> None:
    content = stages((10, None, 60), (0, None, 40), repeat=True, exact_counts=exact)
    assert not ADAPTER.validate_python(content).finite
    times = np.array(take(content, 6_000)) / PS_PER_S
    assert (times % 100 <= 60 + 1e-9).all()
    assert times[-1] == pytest.approx(1000, abs=60)
    if exact:
        assert np.histogram(times, np.arange(0, 1001, 100))[0].tolist() == [600] * 10


@pytest.mark.parametrize("seed", SEEDS)
def test_a_day_swings_like_a_cosine(seed: int) -> None:
    mean, swing, period, peak, days = 3.0, 0.6, 2000.0, 700.0, 20
    content = {"process": "diurnal", "rate_per_s": mean, "swing": swing, "period_s": period, "peak_s": peak}
    times = np.array(take(content, round(mean * period * (days + 1)), seed)) / PS_PER_S
    assert (np.diff(times) >= 0).all()
    times = times[times < days * period]
    edges = np.linspace(0, period, 9)
    turn = 2 * np.pi / period
    integral = mean * (edges + swing / turn * np.sin(turn * (edges - peak)))
    expected = days * np.diff(integral)
    counts = np.histogram(times % period, edges)[0]
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    assert counts.argmax() in (2, 3), "the peak is at 700 s"
    # Hand over to the next period without a seam: gaps, stretched by the rate, stay exponential.
    work = mean * (times + swing / turn * (np.sin(turn * (times - peak)) + np.sin(turn * peak)))
    gaps = np.diff(work)
    assert abs(gaps.mean() - 1) < 5 / np.sqrt(len(gaps))
    assert abs((gaps**2).mean() - 2) < 5 * np.sqrt(20 / len(gaps))


def test_the_deepest_night_and_the_longest_run_stay_ordered() -> None:
    content = {"process": "diurnal", "rate_per_s": 1e-3, "swing": 1.0, "period_s": 10, "peak_s": 123_456}
    times = take(content, 3_000)
    assert times == sorted(times)
    assert times[-1] / PS_PER_S == pytest.approx(3_000_000, rel=0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_phases_make_a_modulated_process(seed: int) -> None:
    """An interrupted Poisson process is a renewal process with hyperexponential gaps (Kuczura 1973).

    With rate λ while on, and phases that end at rates a (on) and b (off), its gaps have the mean (a + b)/(λ b) and the
    squared coefficient of variation 1 + 2 λ a/(a + b)².
    """
    rate, on, off = 20.0, 2.0, 3.0
    content = {"process": "on-off", "rate_per_s": rate, "on_s": on, "off_s": off, "phases": "exponential"}
    times = np.array(take(content, 200_000, seed)) / PS_PER_S
    gaps = np.diff(times)
    a, b = 1 / on, 1 / off
    mean, square = (a + b) / (rate * b), 1 + 2 * rate * a / (a + b) ** 2
    assert gaps.mean() == pytest.approx(mean, rel=5 * np.sqrt(square / len(gaps)))
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(square, rel=0.05)


def test_random_phases_leave_the_other_draws_alone() -> None:
    """The arrivals are the same amounts of work: only the phases between them move."""
    fixed = {"process": "on-off", "rate_per_s": 5, "on_s": 10, "off_s": 10, "off_rate_per_s": 5}
    assert take(fixed, 2_000) == pytest.approx(take({**fixed, "phases": "exponential"}, 2_000), abs=2_000_000)


@pytest.mark.parametrize("cv", [0.1, 0.57735026])
def test_uniform_gaps_have_the_given_variation(cv: float) -> None:
    gaps = np.diff(take({"process": "uniform", "rate_per_s": 4, "cv": cv}, 60_000), prepend=0) / PS_PER_S * 4
    assert abs(gaps.mean() - 1) < 5 * cv / np.sqrt(60_000)
    assert gaps.std() == pytest.approx(cv, rel=0.02)
    assert gaps.min() >= max(0.0, 1 - np.sqrt(3) * cv - 1e-9)
    assert gaps.max() <= 1 + np.sqrt(3) * cv + 1e-9


def test_an_infinite_rate_is_all_at_once() -> None:
    for content in ({"rate_per_s": "inf"}, {"process": "poisson", "rate_per_s": "inf"}, {"process": "all-at-once"}):
        process = ADAPTER.validate_python(content)
        assert process == AllAtOnce(process="all-at-once")
        assert take(content, 5) == [0] * 5
        assert not process.finite
    assert isinstance(ADAPTER.validate_python({"rate_per_s": 1}), Poisson)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"process": "gamma", "rate_per_s": "inf", "cv": 1}, "rate_per_s"),
        ({"process": "all-at-once", "rate_per_s": 3}, "rate_per_s"),
        ({"process": "gamma", "rate_per_s": 3, "cv": 1e-300}, "cv"),
        ({"process": "uniform", "rate_per_s": 3}, "cv"),
        ({"process": "uniform", "rate_per_s": 3, "cv": 0.6}, "cv"),
        ({"process": "uniform", "rate_per_s": 3, "cv": 0}, "cv"),
        ({"process": "diurnal", "rate_per_s": 3}, "swing"),
        ({"process": "diurnal", "rate_per_s": 3, "swing": 1.1}, "swing"),
        ({"process": "diurnal", "rate_per_s": 3, "swing": 0}, "swing"),
        ({"process": "diurnal", "rate_per_s": 3, "swing": 0.5, "period_s": 0}, "period_s"),
        ({"process": "diurnal", "rate_per_s": 3, "swing": 0.5, "peak_s": -1}, "peak_s"),
        ({"process": "diurnal", "rate_per_s": 1e-9, "swing": 0.5, "period_s": 1}, "average"),
        ({"process": "on-off", "rate_per_s": 3, "on_s": 1, "off_s": 1, "phases": "random"}, "phases"),
        (stages((0, 0, 5)), "at least one stage"),
        (stages((1, -1, 5)), "end_rate_per_s"),
        (stages((1, float("nan"), 5)), "end_rate_per_s"),
        (stages((1e-8, None, 5), repeat=True), "average"),
        (stages((0.05, None, 5), repeat=True, exact_counts=True), "down to 0"),
        (stages((1, 1e9, 1000), exact_counts=True), "100,000,000"),
        (stages((1, None, 5), repeat="yes"), "repeat"),
    ],
)
def test_mistakes_are_refused_by_name(content: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ADAPTER.validate_python(content)
