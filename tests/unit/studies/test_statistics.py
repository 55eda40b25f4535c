"""Intervals must cover what they claim to, on processes whose mean is known."""

from __future__ import annotations

from math import inf, isnan, nan, sqrt

import numpy as np
import numpy.typing as npt
import pytest

from servetwin.studies.statistics import Interval, batch_means, mean_interval, paired_estimate, warmup

Array = npt.NDArray[np.float64]


def ar1(generator: np.random.Generator, number: int, phi: float, mean: float, start: float | None = None) -> Array:
    """x[n] = phi x[n − 1] + e[n], around ``mean``; stationary from the first one unless ``start`` is given."""
    noise = generator.standard_normal(number)
    x = np.empty(number)
    last = generator.standard_normal() / sqrt(1 - phi**2) if start is None else start - mean
    for index in range(number):
        last = phi * last + noise[index]
        x[index] = last
    return x + mean


def waits(generator: np.random.Generator, number: int, load: float) -> Array:
    """Waiting times of an M/M/1 queue with services of mean 1 that starts empty, by Lindley's recursion."""
    walk = np.concatenate(
        [[0.0], np.cumsum(generator.exponential(1, number) - generator.exponential(1 / load, number))]
    )
    waited: Array = walk - np.minimum.accumulate(walk)
    return waited


def coverage(intervals: list[Interval], truth: float) -> float:
    return sum(one.low <= truth <= one.high for one in intervals) / len(intervals)


def within_chance(share: float, expected: float, number: int) -> bool:
    """Whether a share of ``number`` trials is one that chance gives, all but once in 10,000 times."""
    return abs(share - expected) <= 3.9 * sqrt(expected * (1 - expected) / number)


def test_the_interval_worked_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, standard deviation 1, t(2; 0.975) = 4.30265.
    found = paired_estimate([10, 20, 30], [11, 22, 33]).interval()
    assert found.estimate == 2
    assert found.half_width == pytest.approx(4.302653 / sqrt(3), rel=1e-6)
    assert not found.excludes_zero
    assert paired_estimate([11, 22, 33], [10, 20, 30]).interval() == pytest.approx((-2, -found.high, -found.low))


def test_a_wider_level_gives_a_wider_interval() -> None:
    narrow, wide = (paired_estimate([0, 0, 0, 0], [1, 2, 3, 4]).interval(level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_pairs_with_nan_are_left_out() -> None:
    assert paired_estimate([1, nan, 3, 4], [2, 5, nan, 6]).interval() == paired_estimate([1, 4], [2, 6]).interval()


def test_one_pair_tells_a_difference_and_nothing_of_its_error() -> None:
    assert paired_estimate([1.0], [3.5]).interval() == (2.5, -inf, inf)
    none = paired_estimate([nan], [3.5]).interval()
    assert isnan(none.estimate)
    assert (none.low, none.high) == (-inf, inf)
    assert batch_means([2.0]) == (2.0, -inf, inf)


def test_equal_differences_have_no_error() -> None:
    assert paired_estimate([1, 2, 4], [1, 2, 4]).interval() == (0, 0, 0)
    assert not paired_estimate([1, 2, 4], [1, 2, 4]).interval().excludes_zero
    assert paired_estimate([1, 2, 4], [2, 3, 5]).interval().excludes_zero


@pytest.mark.parametrize("level", [0, 1, -1, nan])
def test_a_level_is_a_fraction(level: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval([1, 2], level)


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values cannot be paired with 3"):
        paired_estimate([1, 2], [1, 2, 3]).interval()
    with pytest.raises(ValueError, match="two batches"):
        batch_means([1, 2], batches=1)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("number", [3, 10])
def test_paired_differences_cover_at_their_level(level: float, number: int) -> None:
    generator = np.random.default_rng(1)
    trials = 2000
    common = generator.standard_normal((trials, number)) * 100
    a, b = (
        common + generator.standard_normal((trials, number)),
        common + 3 + generator.standard_normal((trials, number)),
    )
    found = [paired_estimate(one, other).interval(level) for one, other in zip(a, b, strict=True)]
    assert within_chance(coverage(found, 3), level, trials)


def test_common_random_numbers_make_the_interval_narrow() -> None:
    generator = np.random.default_rng(2)
    common = generator.standard_normal(50) * 100
    a, b = common + generator.standard_normal(50), common + 3 + generator.standard_normal(50)
    paired, unpaired = paired_estimate(a, b).interval(), paired_estimate(a, generator.permutation(b)).interval()
    assert paired.excludes_zero
    assert not unpaired.excludes_zero
    assert paired.half_width < unpaired.half_width / 20


@pytest.mark.parametrize("phi", [0.0, 0.9, -0.5])
def test_batch_means_cover_an_autoregressive_process(phi: float) -> None:
    generator = np.random.default_rng(3)
    trials = 300
    series = [ar1(generator, 4000, phi, 7) for _ in range(trials)]
    assert within_chance(coverage([batch_means(one) for one in series], 7), 0.95, trials)
    if phi == 0.9:
        # As if they were independent: the interval is sqrt((1 + phi) / (1 − phi)) = 4.4 times too narrow.
        assert coverage([mean_interval(one) for one in series], 7) < 0.5


def test_batch_means_cover_waiting_times() -> None:
    generator = np.random.default_rng(4)
    trials, load = 300, 0.5
    series = [waits(generator, 20_000, load)[1000:] for _ in range(trials)]
    assert within_chance(coverage([batch_means(one) for one in series], load / (1 - load)), 0.95, trials)


def test_what_does_not_divide_is_in_no_batch_but_in_the_mean() -> None:
    found = batch_means([1000, 1, 2, 3, 4], batches=2)
    assert found.estimate == 202
    assert found.half_width == pytest.approx(mean_interval([1.5, 3.5]).half_width)
    assert batch_means([1, 2, 3], batches=20) == pytest.approx(mean_interval([1, 2, 3]))
    assert batch_means([1, nan, 2, 3], batches=20) == pytest.approx(mean_interval([1, 2, 3]))


def test_a_settled_process_has_hardly_a_warmup() -> None:
    generator = np.random.default_rng(5)
    cuts = [warmup(ar1(generator, 2000, 0.5, 7)) for _ in range(100)]
    assert np.median(cuts) < 200


def test_the_warmup_ends_where_the_process_has_settled() -> None:
    # The start is 1,000 standard deviations away and decays by 0.95 an observation: 1/e in 20, gone after some 150.
    generator = np.random.default_rng(6)
    cuts = [warmup(ar1(generator, 4000, 0.95, 0, start=1000 / sqrt(1 - 0.95**2))) for _ in range(50)]
    assert min(cuts) > 80
    assert np.median(cuts) < 400


def test_the_warmup_of_a_step_is_its_length() -> None:
    noise = np.random.default_rng(7).standard_normal(1000)
    noise[:100] += 50
    assert 100 <= warmup(noise) <= 150
    holed = np.insert(noise, 50, [nan] * 7)
    assert warmup(holed) == warmup(noise) + 7


def test_cutting_the_warmup_takes_the_bias_away() -> None:
    generator = np.random.default_rng(8)
    whole, cut = [], []
    for _ in range(200):
        series = ar1(generator, 1000, 0.95, 7, start=207)
        whole.append(series.mean() - 7)
        cut.append(series[warmup(series) :].mean() - 7)
    assert mean_interval(whole).low > 3
    assert abs(mean_interval(cut).estimate) < 0.3


def test_what_is_short_or_constant_has_no_warmup() -> None:
    assert warmup([]) == 0
    assert warmup([9, 1, 1, 1, 1, 1]) == 0
    assert warmup([3.5] * 100) == 0


def test_a_run_that_never_settles_is_cut_at_half_at_most() -> None:
    assert warmup(np.arange(1000.0)) <= 500
