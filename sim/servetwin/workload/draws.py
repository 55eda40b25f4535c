"""Draws of whole blocks of random numbers, shared by lengths and durations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from servetwin.streams import BLOCK
from servetwin.units import PS_PER_S

Floats = npt.NDArray[np.float64]


def lognormal(generator: np.random.Generator, count: int, mean: float, std: float) -> Floats:
    """``count`` lognormal numbers with this mean and standard deviation, their own, not their logarithm's.

    With s² = ln(1 + (std/mean)²) and m = ln(mean) − s²/2 the numbers are exp(m + s·z).
    """
    ratio = std / mean
    # Squared, an extreme ratio would exceed the range of a float.
    variance = math.log1p(ratio**2) if ratio < 1e100 else 2 * (math.log(std) - math.log(mean))
    z = generator.standard_normal(count)
    return np.exp(math.log(mean) - variance / 2 + math.sqrt(variance) * z)


def choices(generator: np.random.Generator, count: int, cumulative: Floats) -> npt.NDArray[np.intp]:
    """``count`` indices drawn with the cumulative weights ``cumulative``, one uniform number each."""
    points = generator.random(count) * cumulative[-1]
    picks: npt.NDArray[np.intp] = np.searchsorted(cumulative, points, side="right")
    # Rounding may lift a point to the very end.
    picks[picks == len(cumulative)] = len(cumulative) - 1
    return picks


def zipf_indices(generator: np.random.Generator, size: int, exponent: float) -> Iterator[int]:
    """Indices from 0 to ``size`` − 1 without end, index k with a probability proportional to 1/(k + 1)^exponent."""
    cumulative = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -exponent)
    return endless(lambda count: choices(generator, count, cumulative).tolist())


def whole(values: Floats, low: float, high: float) -> list[int]:
    """``values`` rounded to whole numbers and clipped to ``[low, high]``."""
    rounded: list[int] = np.clip(np.rint(values), low, high).astype(np.int64).tolist()
    return rounded


def picoseconds(seconds: Floats) -> list[int]:
    """``seconds`` [s] in whole picoseconds; Python integers, for long spans exceed 64 bits."""
    # The longest tails of a gap may be infinite as floats, which no integer is: 1e30 ps outlast every run.
    scaled = np.rint(np.minimum(seconds, 1e30 / PS_PER_S) * PS_PER_S)
    return list(map(int, scaled.tolist()))


def endless(draw: Callable[[int], list[int]]) -> Iterator[int]:
    """Numbers one by one from ``draw(count)``, called for a block whenever the last one is used up."""

    def blocks() -> Iterator[list[int]]:
        while True:
            yield draw(BLOCK)

    return chain.from_iterable(blocks())
