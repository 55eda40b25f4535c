"""Exact sums of picosecond columns, whatever their size, order and partition.

A million requests overflow ``int64.sum()``; float sums depend on the order. These helpers split the numbers so that
numpy's sums stay exact and put the parts together as Python integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import fsum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

MOST_STEPS = 128
"""Steps per row up to which ``ExactBins.add_series`` is exact."""

_LOW_BITS = 24
_LOW_MASK = (1 << _LOW_BITS) - 1
_SAFE_BITS = 62
_FLOAT_BLOCK = 8192


def exact_sum(values: Ints) -> int:
    """The sum of the values, exactly; fewer than 2**31 of them."""
    return int((values & 0xFFFFFFFF).sum()) + (int((values >> 32).sum()) << 32)


def exact_dot(left: Ints, right: Ints) -> int:
    """The sum of the products, exactly."""
    if not len(left):
        return 0
    widths = [int(max(-side.min(), side.max(), 1)).bit_length() for side in (left, right)]
    if sum(widths) + len(left).bit_length() <= _SAFE_BITS:
        return int((left * right).sum())
    if widths[0] < widths[1]:
        left, right, widths = right, left, widths[::-1]
    if widths[0] < 2:
        return exact_sum(left * right)
    half = widths[0] // 2
    return exact_dot(left & ((1 << half) - 1), right) + (exact_dot(left >> half, right) << half)


def exact_float_sum(values: Floats) -> float:
    """The correctly rounded sum of floats: the same for any order."""
    return fsum(chain.from_iterable(_float_blocks(values)))


def _float_blocks(values: Floats) -> Iterator[list[float]]:
    for first in range(0, len(values), _FLOAT_BLOCK):
        yield values[first : first + _FLOAT_BLOCK].tolist()


class ExactBins:
    """Sums by bin that cannot overflow: each sum is kept as a high and a low part.

    Args:
        bins: number of bins.
    """

    __slots__ = ("_high", "_low")

    def __init__(self, bins: int) -> None:
        self._high = np.zeros(bins, np.int64)
        self._low = np.zeros(bins, np.int64)

    def add(self, index: Any, values: Ints) -> None:
        """Add each value to the bin ``index`` names; fewer than 2**38 values in all."""
        if len(self._low) == 1 and np.shape(index) == values.shape:
            # One replica, mostly: several times as fast.
            self._low += (values & _LOW_MASK).sum()
            self._high += (values >> _LOW_BITS).sum()
            return
        np.add.at(self._low, index, values & _LOW_MASK)
        np.add.at(self._high, index, values >> _LOW_BITS)

    def add_series(self, index: Any, held: Ints, grows: Ints, first: Ints, growth: Ints, count: Ints) -> None:
        """Add ``sum over j < count of (held + j * grows) * (first + j * growth)`` to each bin.

        The durations are split before they are multiplied, so that a single product cannot overflow either,
        for at most 2**24 tokens held, 2**14 more a step, and ``MOST_STEPS`` steps.
        """
        pairs = count * (count - 1) // 2
        squares = (count - 1) * count * (2 * count - 1) // 6

        def total(one: Ints, more: Ints) -> Ints:
            result: Ints = held * one * count + (held * more + grows * one) * pairs + grows * more * squares
            return result

        low = total(first & _LOW_MASK, growth & _LOW_MASK)
        np.add.at(self._low, index, low & _LOW_MASK)
        np.add.at(self._high, index, total(first >> _LOW_BITS, growth >> _LOW_BITS) + (low >> _LOW_BITS))

    def integers(self, part: slice = slice(None)) -> list[int]:
        """The sums as Python integers."""
        pairs: Iterable[tuple[int, int]] = zip(self._high[part].tolist(), self._low[part].tolist(), strict=True)
        return [(high << _LOW_BITS) + low for high, low in pairs]

    def floats(self, part: slice = slice(None)) -> Floats:
        """The sums as floats, a function of the exact sums alone."""
        high = self._high[part] + (self._low[part] >> _LOW_BITS)
        low = self._low[part] & _LOW_MASK
        result: Floats = high.astype(np.float64) * float(1 << _LOW_BITS) + low.astype(np.float64)
        return result
