import random

import numpy as np
import pytest
from tests.unit.results.building import Run, Step, finish, meta, random_runs, record

from servetwin.results import Recorder
from servetwin.results.gaps import GapSet
from servetwin.units import PS_PER_MS

PERCENTS = (0, 1, 25, 50, 90, 95, 99, 99.9, 100)


def brute(runs, extra=(), after=0):
    """Every gap on its own."""
    gaps = [gap for number, gap in enumerate(extra) if EXTRA_STARTS[number] >= after]
    for run in runs:
        for step in run.steps():
            if step.start >= after:
                gaps += [step.gap] * step.weight
    return gaps


#: When the last steps of the extra gaps began.
EXTRA_STARTS = [7 * number**6 for number in range(40)]


def gap_set(runs, extra=(), flush_every=0, **options):
    recorder = Recorder(meta(4))
    record(recorder, runs, flush_every)
    for start, gap in zip(EXTRA_STARTS, extra, strict=False):
        recorder.gap(gap, start)
    segments = finish(recorder, 10**18).segments
    return GapSet(segments.store, segments.extra_gaps, **options)


def check(found, gaps):
    assert found.count == len(gaps)
    assert found.total_ps == sum(gaps)
    milliseconds = np.array(gaps, np.int64) / PS_PER_MS
    assert found.mean_ms() == sum(gaps) / (len(gaps) * PS_PER_MS)
    assert found.maximum_ms() == milliseconds.max()
    assert found.percentiles_ms(PERCENTS) == np.percentile(milliseconds, PERCENTS).tolist()
    ordered = sorted(gaps)
    for rank in {0, len(gaps) // 3, len(gaps) // 2, len(gaps) - 1}:
        assert found.order_statistic(rank) == ordered[rank]


@pytest.mark.parametrize("scale", [10, 1000, PS_PER_MS])
@pytest.mark.parametrize("seed", range(6))
def test_statistics_equal_those_of_the_gaps_one_by_one(seed, scale):
    rng = random.Random(seed)
    runs = random_runs(rng, 4, rng.choice((1, 2, 300)), scale)
    if not any(run.step.weight for run in runs):
        pytest.skip("no gaps at all")
    for run in runs:
        run.step.weight = rng.choice((0, 1, run.step.decodes))
    runs[0].step.weight = 1
    extra = [rng.randrange(100 * scale) for _ in range(rng.choice((0, 3)))]
    check(gap_set(runs, extra, rng.choice((0, 1, 7))), brute(runs, extra))


@pytest.mark.parametrize("most", [1, 50])
def test_narrowing_down_without_room_to_write_values_down_is_as_exact(most):
    runs = random_runs(random.Random(11), 2, 60)
    check(gap_set(runs, most_expanded=most), brute(runs))


def test_equal_gaps_millions_of_times_over_need_no_room():
    run = Run(Step(0, 0, 7_000_000_000, 7_000_000_000, weight=256), count=1_000_000)
    found = gap_set([run], most_expanded=1)
    assert found.count == 256_000_000
    assert found.percentiles_ms((50, 99)) == [7.0, 7.0]
    assert found.mean_ms() == 7.0


def test_gaps_that_shrink_are_counted_like_any_other():
    runs = [Run(Step(0, 0, 10**9, 2 * 10**9, weight=3), count=50, growth=-(10**6))]
    check(gap_set(runs), brute(runs))


def test_gaps_of_a_week_and_of_a_picosecond():
    gaps = [1, 2, 3, 604_800 * 10**12, 2**53 + 1, 2**53 + 3, 9 * 10**18]
    found = gap_set([], gaps)
    assert [found.order_statistic(rank) for rank in range(len(gaps))] == sorted(gaps)


@pytest.mark.parametrize("seed", range(8))
def test_gaps_of_steps_that_start_too_early_are_left_out(seed):
    rng = random.Random(seed)
    runs = random_runs(rng, 3, 40)
    starts = [step.start for run in runs for step in run.steps()]
    for after in (rng.choice(starts), rng.choice(starts) + 1, rng.randrange(1, max(starts))):
        check(gap_set(runs, after_ps=after), brute(runs, after=after))


def test_no_gaps_no_statistics():
    found = gap_set([])
    assert found.mean_ms() is None and found.maximum_ms() is None
    assert found.percentiles_ms((50, 99)) == [None, None]


def test_the_drawn_distribution_is_close_to_the_real_one():
    runs = random_runs(random.Random(2), 2, 200)
    gaps = np.sort(np.array(brute(runs)) / PS_PER_MS)
    edges, share = gap_set(runs).distribution()
    assert np.all(np.diff(edges) > 0) and np.all(np.diff(share) >= 0) and share[-1] == 1.0
    real = np.searchsorted(gaps, edges, side="right") / len(gaps)
    assert np.abs(real - share).max() < 0.005
