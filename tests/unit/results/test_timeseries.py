import random

import numpy as np
import pytest
from tests.unit.results.building import Run, Step, finish, meta, random_request, random_runs, record, toy_run

from servetwin.request import COMPLETED, OUTCOMES, UNFINISHED, Request
from servetwin.results import Recorder
from servetwin.results.steps import steps_until
from servetwin.results.timeseries import MOST_INTERVALS, MOST_ROWS, round_width
from servetwin.units import PS_PER_MS, PS_PER_S

KV = 430_000


def brute(runs, requests, replicas, width, horizon):
    """Step by step and request by request, in Python integers."""
    number = -(-horizon // width)
    names = ("busy", "steps", "tokens", "prefill", "emitted", "ended", "compute", "held", "running", "waiting",
             "arrivals", "completed", "drafted", "accepted")  # fmt: skip
    sums = [[dict.fromkeys(names, 0) for _ in range(number)] for _ in range(replicas)]

    def overlaps(begin, end):
        for place in range(begin // width, number):
            if place * width >= end:
                return
            yield place, min(end, (place + 1) * width) - max(begin, place * width)

    for run in runs:
        for step in run.steps():
            end = step.start + step.duration
            cell = sums[step.replica][(end - 1) // width]
            cell["steps"] += 1
            cell["tokens"] += step.tokens
            cell["prefill"] += step.prefill
            cell["emitted"] += step.emitted
            cell["ended"] += step.duration
            cell["compute"] += step.compute
            cell["drafted"] += step.drafted
            cell["accepted"] += step.accepted
            for place, time in overlaps(step.start, end):
                sums[step.replica][place]["busy"] += time
                sums[step.replica][place]["held"] += time * step.held
    for one in requests:
        if one.replica < 0:
            continue
        sums[one.replica][min(one.arrival_ps // width, number - 1)]["arrivals"] += 1
        if one.outcome == COMPLETED:
            sums[one.replica][min((one.last_token_ps - 1) // width, number - 1)]["completed"] += 1
        if one.queued_ps >= 0:
            for place, time in overlaps(one.queued_ps, one.scheduled_ps if one.scheduled_ps >= 0 else horizon):
                sums[one.replica][place]["waiting"] += time
        if one.scheduled_ps >= 0:
            for place, time in overlaps(one.scheduled_ps, one.last_token_ps if one.last_token_ps >= 0 else horizon):
                sums[one.replica][place]["running"] += time
    return sums


@pytest.mark.parametrize("seed", range(6))
def test_every_interval_equals_the_sum_over_steps_and_requests(seed):
    rng = random.Random(seed)
    replicas = rng.choice((1, 3))
    runs = random_runs(rng, replicas, rng.choice((3, 60)), rng.choice((PS_PER_MS, 20 * PS_PER_MS)))
    requests = [random_request(rng, identity, replicas, rng.choice(OUTCOMES)) for identity in range(100)]
    for one in requests[:10]:
        if one.replica >= 0 and one.outcome == UNFINISHED:
            one.scheduled_ps = one.prefill_done_ps = one.first_token_ps = -1
    recorder = Recorder(meta(replicas))
    record(recorder, runs, rng.choice((0, 9)))
    for one in requests:
        recorder.finished(one)
    series = finish(recorder, 40 * PS_PER_S).series
    expected = brute(runs, requests, replicas, series.width_ps, series.horizon_ps)
    for replica in range(replicas):
        found = series.replica_columns(replica, KV)
        for place, cell in enumerate(expected[replica]):
            length = int(found["end_ps"][place] - found["start_ps"][place])
            exact = {"steps": "steps", "tokens": "tokens", "prefill_tokens": "prefill", "output_tokens": "emitted",
                     "arrivals": "arrivals", "completed": "completed", "drafted_tokens": "drafted",
                     "accepted_tokens": "accepted"}  # fmt: skip
            for column, name in exact.items():
                assert found[column][place] == cell[name], column
            assert found["utilisation"][place] == cell["busy"] / length
            # Floats made from exact sums: equal up to their own rounding.
            assert found["kv_use"][place] == pytest.approx(cell["held"] / (length * KV), rel=1e-15)
            assert found["running"][place] == pytest.approx(cell["running"] / length, rel=1e-15)
            assert found["waiting"][place] == pytest.approx(cell["waiting"] / length, rel=1e-15)
            if cell["ended"]:
                assert found["compute_bound"][place] == pytest.approx(cell["compute"] / cell["ended"], rel=1e-15)
            else:
                assert np.isnan(found["compute_bound"][place])
        assert series.held_token_ps(replica) == sum(cell["held"] for cell in expected[replica])


def plain_mean(choices, begin, end, horizon):
    """The mean over the picoseconds in which a choice stands, choice by choice."""
    ends = [time for time, _ in choices[1:]] + [horizon]
    weights = [(max(min(after, end) - max(time, begin), 0), k) for (time, k), after in zip(choices, ends, strict=True)]
    covered = sum(weight for weight, _ in weights)
    return sum(weight * k for weight, k in weights) / covered if covered else None


@pytest.mark.parametrize("seed", range(6))
def test_choices_are_averaged_over_the_time_in_which_they_stand(seed):
    rng = random.Random(seed)
    recorder = Recorder(meta(3))
    horizon = rng.choice((40 * PS_PER_S, 10**15 + 7))
    choices = {0: [], 2: []}
    for replica, mine in choices.items():
        times = sorted(rng.randrange(horizon) for _ in range(rng.choice((1, 5, 500))))
        if rng.random() < 0.5:
            times += times[-1:]  # two at the same instant: the later one stands
        for time in times:
            mine.append((time, rng.randrange(17)))
            recorder.choice(replica, *mine[-1])
    series = finish(recorder, horizon).series
    for replica in range(3):
        found = series.replica_columns(replica, KV)
        for begin, end, k in zip(*(found[name].tolist() for name in ("start_ps", "end_ps", "k")), strict=True):
            expected = plain_mean(choices[replica], begin, end, horizon) if replica in choices else None
            assert np.isnan(k) if expected is None else k == pytest.approx(expected, rel=1e-14)


def test_a_choice_after_the_end_says_nothing():
    recorder = Recorder(meta())
    recorder.choice(0, 0, 3)
    recorder.choice(0, 2 * PS_PER_S, 0)
    assert set(finish(recorder, PS_PER_S).series.replica_columns(0, KV)["k"].tolist()) == {3.0}


def test_a_step_longer_than_many_intervals_fills_them_all():
    recorder = Recorder(meta())
    record(recorder, [Run(Step(0, 0, 1000 * PS_PER_MS, 0, held=43_000))])
    series = finish(recorder, 1000 * PS_PER_MS).series
    found = series.replica_columns(0, KV)
    assert found["utilisation"].tolist() == [1.0] * series.intervals
    assert found["kv_use"].tolist() == [0.1] * series.intervals
    assert found["steps"].sum() == 1 and found["steps"][-1] == 1


@pytest.mark.parametrize(
    ("horizon", "most", "width"),
    [(1, 2000, 1), (2000, 2000, 1), (2001, 2000, 2), (9_999, 2000, 5), (10_001, 2000, 10), (10**15, 2000, 5 * 10**11)],
)
def test_widths_are_round_and_just_wide_enough(horizon, most, width):
    assert round_width(horizon, most) == width


def test_the_number_of_rows_is_bounded():
    many = Recorder(meta(256))
    series = finish(many, 12_345 * PS_PER_MS).series
    assert series.intervals * 256 <= MOST_ROWS
    assert finish(Recorder(meta()), 12_345 * PS_PER_MS).series.intervals <= MOST_INTERVALS


def test_little_s_law_holds_on_the_sample_path():
    """The time average of running requests times the horizon is the sum of their times in service."""
    result = toy_run(300)
    series, table = result.series, result.table
    found = series.replica_columns(0, KV)
    lengths = found["end_ps"] - found["start_ps"]
    for state, begin, end in (("waiting", "queued_ps", "scheduled_ps"), ("running", "scheduled_ps", "last_token_ps")):
        integral = float((found[state] * lengths).sum())
        # Tokens become visible after the last step, so a request may outlive the horizon by a few microseconds.
        stays = np.minimum(table.column(end), series.horizon_ps) - table.column(begin)
        assert integral == pytest.approx(float(stays.sum()), rel=1e-12)


def test_sums_of_a_long_overload_do_not_overflow():
    """2,000 requests that wait for a year each in the same interval: beyond 64 bits."""
    year = 365 * 86_400 * PS_PER_S // 10
    recorder = Recorder(meta())
    for identity in range(2000):
        request = Request(identity, 0, 1, 1)
        request.replica, request.routed_ps, request.queued_ps = 0, 0, 0
        recorder.finished(request)
    series = finish(recorder, year).series
    assert series.replica_columns(0, KV)["waiting"].tolist() == [2000.0] * series.intervals


@pytest.mark.parametrize("seed", range(5))
def test_steps_until_an_instant(seed):
    rng = random.Random(seed)
    first, growth, count = rng.randrange(1, 50), rng.randrange(5), rng.randrange(1, 60)
    ends = [first * k + growth * k * (k - 1) // 2 for k in range(1, count + 1)]
    for elapsed in range(ends[-1] + 3):
        assert steps_until(elapsed, count, first, growth) == sum(end <= elapsed for end in ends)
