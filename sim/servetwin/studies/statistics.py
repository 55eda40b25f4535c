"""What can be said of a difference or a mean: intervals of confidence, and where a run has settled.

The observations of one run depend on each other: a request that waits makes the next one wait. An interval over them
as if they were independent is too narrow, often by far, so ``batch_means`` is for those, and ``paired_estimate`` is for
pairs that are independent of each other: runs with different seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np

from servetwin.results.exact import Floats, exact_float_sum

_MSER_BATCH = 5
"""Observations that MSER-5 takes together."""


class Interval(NamedTuple):
    """An estimate and its interval of confidence.

    Attributes:
        estimate: the estimate; nan if there is nothing to estimate it from.
        low: lower end; −inf where the observations are too few to tell.
        high: upper end; inf where they are too few.
    """

    estimate: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the estimate differs from zero, at the level of the interval."""
        return self.low > 0 or self.high < 0


class Estimate(NamedTuple):
    """An estimated difference, and how far it may be off.

    Attributes:
        value: the estimate; nan if there is nothing to estimate it from.
        error: its standard error; nan where the observations are too few to tell.
        freedom: the degrees of freedom of Student's t; nan where they are too few.
    """

    value: float
    error: float
    freedom: float

    def interval(self, level: float = 0.95) -> Interval:
        """The interval that covers the true difference with a probability of ``level``, a fraction."""
        if not 0 < level < 1:
            raise ValueError(f"a level of confidence lies between 0 and 1, found {level}")
        if isnan(self.error):
            return Interval(self.value, -inf, inf)
        # Imported here: its quarter of a second is for those commands alone that need it.
        from scipy.special import stdtrit

        half = float(stdtrit(self.freedom, (1 + level) / 2)) * self.error if self.error else 0.0
        return Interval(self.value, self.value - half, self.value + half)

    def chance(self, limit: float) -> float:
        """How likely noise shows a difference as large as this, or a larger one, where the true one is ``limit``.

        1 where the observations are too few to tell, or there are none.
        """
        if isnan(self.error):
            return 1.0
        if not self.error:
            return float(self.value <= limit)
        from scipy.special import stdtr

        return float(stdtr(self.freedom, (limit - self.value) / self.error))


def mean_estimate(values: Sequence[float] | Floats) -> Estimate:
    """The mean of independent values; nan is left out.

    Args:
        values: the observations.
    """
    known = _known(values)
    number = len(known)
    mean = exact_float_sum(known) / number if number else nan
    return Estimate(mean, sqrt(_variance_of_mean(known, mean)), number - 1) if number > 1 else Estimate(mean, nan, nan)


def mean_interval(values: Sequence[float] | Floats, level: float = 0.95) -> Interval:
    """The interval of ``mean_estimate``: one value has an infinite one, none nan.

    Args:
        values: the observations.
        level: the probability with which the interval covers the true mean, as a fraction.
    """
    return mean_estimate(values).interval(level)


def paired_estimate(a: Sequence[float] | Floats, b: Sequence[float] | Floats) -> Estimate:
    """The mean of ``b − a`` over independent pairs; a pair with a nan in it is left out.

    Args:
        a: one value a pair.
        b: its partner, in the same order.

    Raises:
        ValueError: the sides differ in length.
    """
    left, right = np.asarray(a, float), np.asarray(b, float)
    if left.shape != right.shape:
        raise ValueError(f"{len(left)} values cannot be paired with {len(right)}")
    return mean_estimate(right - left)


def unpaired_estimate(a: Sequence[float] | Floats, b: Sequence[float] | Floats) -> Estimate:
    """The mean of ``b`` less the mean of ``a``, of independent values on either side; nan is left out.

    Args:
        a: values of one kind.
        b: values of the other; their number and their spread may differ.

    Source: Welch, *The generalization of "Student's" problem when several different population variances are
    involved*, Biometrika 34 (1947).
    """
    sides = [_known(a), _known(b)]
    left, right = (exact_float_sum(side) / len(side) if len(side) else nan for side in sides)
    if min(len(side) for side in sides) < 2:
        return Estimate(right - left, nan, nan)
    one, other = _variance_of_mean(sides[0], left), _variance_of_mean(sides[1], right)
    together = one + other
    if not together:
        return Estimate(right - left, 0.0, len(sides[0]) + len(sides[1]) - 2)
    freedom = together**2 / (one**2 / (len(sides[0]) - 1) + other**2 / (len(sides[1]) - 1))
    return Estimate(right - left, sqrt(together), freedom)


def discoveries(chances: Sequence[float], level: float) -> list[bool]:
    """Which of many tests found something, such that few of those found are false.

    With the k smallest of m chances at most k/m of ``level``, these k are findings; of the largest such k. Where
    nothing is to be found, anything at all is found with a probability of at most ``level``; else at most that share
    of what is found is false, on average. Source: Benjamini and Hochberg, *Controlling the false discovery rate*,
    Journal of the Royal Statistical Society B 57 (1995); for tests that lean the same way, Benjamini and Yekutieli,
    *The control of the false discovery rate in multiple testing under dependency*, Annals of Statistics 29 (2001).

    Args:
        chances: of each test, the probability that noise alone gives what was seen.
        level: the probability of a false alarm, as a fraction.

    >>> discoveries([0.001, 0.5, 0.012, 0.9], 0.05)
    [True, False, True, False]
    """
    ordered = sorted(chances)
    passed = [chance for place, chance in enumerate(ordered, 1) if chance <= level * place / len(ordered)]
    return [bool(passed) and chance <= passed[-1] for chance in chances]


def batch_means(values: Sequence[float] | Floats, batches: int = 20, level: float = 0.95) -> Interval:
    """The mean of observations that depend on their neighbours, from the means of consecutive batches.

    Args:
        values: the observations, in the order in which they were made; nan is left out.
        batches: how many batches to make; with fewer values, each is a batch.
        level: the probability with which the interval covers the true mean, as a fraction.

    The estimate is the mean of all values. Batches are of equal size; what does not divide is in none of them, at the
    beginning. The longer the batches are against the memory of the process, the closer the interval is to the stated
    level. Source: Law, *Simulation Modeling and Analysis*, 5th ed. (2015), section 9.5.3.
    """
    if batches < 2:
        raise ValueError(f"an interval takes at least two batches, found {batches}")
    known = _known(values)
    number = min(batches, len(known))
    if number < 2:
        return mean_interval(known, level)
    size = len(known) // number
    half = mean_interval(known[len(known) - number * size :].reshape(number, size).mean(axis=1), level).half_width
    mean = exact_float_sum(known) / len(known)
    return Interval(mean, mean - half, mean + half)


def warmup(values: Sequence[float] | Floats) -> int:
    """How many observations at the beginning belong to the warm-up, by MSER-5.

    Of all truncations the one is taken that makes the standard error of the mean of the rest least, in batches of
    five observations, and at most half of them: a least error later than that says that the run is too short to have
    settled. Source: White, Cobb and Spratt, *A comparison of five steady-state truncation heuristics for simulation*,
    Winter Simulation Conference 2000.

    Args:
        values: the observations, in the order in which they were made; nan is passed over.
    """
    every = np.asarray(values, float)
    places = np.flatnonzero(~np.isnan(every))
    number = len(places) // _MSER_BATCH
    if number < 2:
        return 0
    means = every[places[: number * _MSER_BATCH]].reshape(number, _MSER_BATCH).mean(axis=1)
    # Centred, so that the difference of squares below keeps its digits.
    means -= means.mean()
    left = np.arange(number, 0, -1)
    sums, squares = means[::-1].cumsum()[::-1], (means**2)[::-1].cumsum()[::-1]
    errors = (squares - sums**2 / left) / left**2
    cut = int(np.argmin(errors[: number // 2 + 1]))
    return int(places[cut * _MSER_BATCH]) if cut else 0


def _variance_of_mean(values: Floats, mean: float) -> float:
    """The variance of the mean of at least two independent values; exactly zero where they are equal."""
    return exact_float_sum((values - mean) ** 2) / (len(values) - 1) / len(values)


def _known(values: Sequence[float] | Floats) -> Floats:
    every = np.asarray(values, float)
    known: Floats = every[~np.isnan(every)]
    return known
