"""Differences and their noise, and many tests at once."""

from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
import pytest
from scipy import stats

from servetwin.studies.statistics import discoveries, paired_estimate, unpaired_estimate

BEFORE, AFTER = [1.0, 2.0, 3.0, 4.5], [2.0, 5.0, 4.0]


def test_unpaired_is_welch() -> None:
    found = unpaired_estimate(BEFORE, AFTER)
    welch = stats.ttest_ind(AFTER, BEFORE, equal_var=False)
    low, high = welch.confidence_interval(0.9)
    assert found.freedom == pytest.approx(welch.df)
    assert found.interval(0.9) == pytest.approx((np.mean(AFTER) - np.mean(BEFORE), low, high))
    assert found.chance(0) == pytest.approx(
        stats.ttest_ind(AFTER, BEFORE, equal_var=False, alternative="greater").pvalue
    )


def test_paired_is_student() -> None:
    before, after = [1.0, 2.0, nan, 4.0], [1.5, 2.2, 7.0, 4.9]
    known = np.subtract(after, before)[[0, 1, 3]]
    low, high = stats.ttest_1samp(known, 0).confidence_interval(0.8)
    assert paired_estimate(before, after).interval(0.8) == pytest.approx((known.mean(), low, high))
    against = stats.ttest_1samp(known, 0.1, alternative="greater")
    assert paired_estimate(before, after).chance(0.1) == pytest.approx(against.pvalue)


def test_too_few_values_tell_nothing() -> None:
    for found in (paired_estimate([1.0], [3.0]), unpaired_estimate([1.0], [3.0]), unpaired_estimate([1.0, 2.0], [3.5])):
        assert found.value == 2.0
        assert found.chance(0) == 1.0
        assert found.interval()[1:] == (-inf, inf)
    assert isnan(paired_estimate([nan], [1.0]).value)
    assert isnan(unpaired_estimate([], [1.0]).value)


def test_without_noise_the_difference_decides() -> None:
    for found in (paired_estimate([1.0, 2.0], [1.5, 2.5]), unpaired_estimate([1.0, 1.0], [1.5, 1.5])):
        assert (found.chance(0.4), found.chance(0.5)) == (0.0, 1.0)
        assert found.interval() == (0.5, 0.5, 0.5)


def test_a_level_is_a_fraction() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        paired_estimate([1.0, 2.0], [2.0, 2.0]).interval(95)


def test_discoveries_by_hand() -> None:
    """Sorted 0.01, 0.02, 0.03, 0.8 against 0.0125, 0.025, 0.0375, 0.05: three."""
    assert discoveries([0.03, 0.8, 0.01, 0.02], 0.05) == [True, False, True, True]
    # The second is above its own bar, but the third, which is above it, is not.
    assert discoveries([0.012, 0.03, 0.035], 0.05) == [True, True, True]
    assert discoveries([0.06, 0.5], 0.05) == [False, False]
    assert discoveries([], 0.05) == []


def test_discoveries_where_there_is_nothing_to_discover() -> None:
    """Anything at all is found as often as the level says, whatever the number of tests; within four deviations."""
    generator = np.random.default_rng(3)
    for tests in (1, 10, 80):
        alarms = sum(any(discoveries(generator.random(tests).tolist(), 0.05)) for _ in range(2000))
        assert abs(alarms - 100) < 4 * (2000 * 0.05 * 0.95) ** 0.5
