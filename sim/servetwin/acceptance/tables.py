"""Tables that turn random 64-bit numbers into runs of matches, many at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from servetwin.acceptance.chain import Floats
from servetwin.acceptance.levels import LEVELS, Levels

MOST_MATCHES = 254
"""More matches than this are no more than this: a fate has one byte per position."""

_OUTCOMES = MOST_MATCHES + 2
"""Matches that are told apart at once: 0, 1, …, and a last one that stands for itself and more."""

_MORE = _OUTCOMES - 1
_ENDLESS = 1 << 14
"""Matches beyond the last outcome that have no end."""

_NO_END = 1 << 24
_WHOLE = 2.0**64
_BREAK_BITS = 16

Words = np.ndarray[Any, np.dtype[np.uint64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class RunTables:
    """Draws chains of matches: one number for each run, which says how many matches it begins with and where it breaks.

    Matches are drawn by Walker's alias method (ACM TOMS 3, 1977) from the upper bits of a number, breaks from the
    lowest 16: the persistence is exact to one in 65,536.

    Args:
        levels: the fresh draws of every level.
    """

    def __init__(self, levels: Levels) -> None:
        self._count = len(levels.fresh)
        splits, outcomes = zip(*(_alias(row) for row in _probabilities(levels)), strict=True)
        self._splits = np.concatenate(splits)
        self._outcomes = np.concatenate(outcomes)
        self._ratios: list[float] = levels.ratio.tolist()
        self._has_more = bool((self._outcomes == _MORE).any())
        self._breaks = _breaks(levels.persistence) if 0 < levels.persistence < 1 else None
        self._single = levels.persistence == 0
        #: How many runs are drawn for so many positions at first, in sixteenths; all that may be needed if too few.
        self._share = 8

    def matches(self, words: Words, positions: int) -> Bytes:
        """Matches at positions 0, 1, … of several requests, a row for each.

        Args:
            words: random numbers, a row for each request: the first one chooses its level, each of the others is for a
                run. At least one more than positions.
            positions: how many positions.
        """
        level = ((words[:, 0] >> np.uint64(32)) * np.uint64(self._count) >> np.uint64(32)).astype(np.int64)
        if self._single:
            values = self._values(words[:, 1 : positions + 1], level)
            return np.minimum(values, MOST_MATCHES).astype(np.uint8)
        while True:
            number = -(-positions * self._share // 16)
            found = self._left(words[:, 1 : number + 1], level, positions)
            if found is not None:
                return found
            self._share = min(16, self._share + 2)

    def _left(self, runs: Words, level: Ints, positions: int) -> Bytes | None:
        """The matches at the positions, from these runs; None if they end before."""
        values = self._values(runs, level)
        lengths = values
        if self._breaks is not None:
            lengths = np.minimum(values, self._breaks.take((runs & np.uint64(0xFFFF)).astype(np.int64)))
        lengths = lengths + 1
        ends = lengths.cumsum(axis=1)
        if ends[:, -1].min() < positions:
            return None
        # What a run begins with, counted from position 0: less the position, it is what is left of it there.
        highest = values + ends
        highest -= lengths
        np.minimum(ends, positions, out=ends)
        lengths[:, 1:] = ends[:, 1:] - ends[:, :-1]
        lengths[:, 0] = ends[:, 0]
        left = highest.ravel().repeat(lengths.ravel()).reshape(len(runs), positions)
        left -= np.arange(positions)
        capped: Bytes = np.minimum(left, MOST_MATCHES, out=left).astype(np.uint8)
        return capped

    def _values(self, runs: Words, level: Ints) -> Ints:
        """The matches that runs begin with."""
        columns = (runs >> np.uint64(56)).astype(np.int64)
        columns += level[:, None] * _OUTCOMES
        second = (runs << np.uint64(8)) >= self._splits.take(columns)
        columns <<= 1
        columns += second
        values = self._outcomes.take(columns)
        if self._has_more:
            rows, places = np.nonzero(values == _MORE)
            if len(rows):
                values[rows, places] += self._beyond(runs[rows, places], level[rows])
        return values

    def _beyond(self, words: Words, levels: Ints) -> Ints:
        """How many more matches there are than the last outcome stands for."""
        found = np.empty(len(words), np.int64)
        keys = (words << np.uint64(16)) & np.uint64(0xFFFFFFFF00000000)
        for level in np.unique(levels).tolist():
            of_level = levels == level
            found[of_level] = _thresholds(self._ratios[level]).searchsorted(keys[of_level], "right")
        found[found >= _ENDLESS] = _NO_END
        return found


def _probabilities(levels: Levels) -> Floats:
    """The probability of every outcome, a row for each level."""
    fresh, ratio = levels.fresh, levels.ratio
    more = max(_OUTCOMES - 1 - fresh.shape[1], 0)
    tail = fresh[:, -1:] * ratio[:, None] ** np.arange(1, more + 1)
    survival = np.concatenate((np.ones((len(fresh), 1)), fresh, tail), axis=1)[:, :_OUTCOMES]
    return survival - np.concatenate((survival[:, 1:], np.zeros((len(fresh), 1))), axis=1)


def _alias(probabilities: Floats) -> tuple[Words, Ints]:
    """Walker's tables: where each column is split, and the outcomes below and above the split.

    The columns are as many as the outcomes; the outcome below the split of column j is j.
    """
    columns = len(probabilities)
    heights = (probabilities * columns).tolist()
    above = list(range(columns))
    low = [column for column in range(columns) if heights[column] < 1]
    high = [column for column in range(columns) if heights[column] >= 1]
    while low and high:
        short, tall = low.pop(), high[-1]
        above[short] = tall
        heights[tall] -= 1 - heights[short]
        if heights[tall] < 1:
            low.append(high.pop())
    for column in low + high:
        # What is not full by now is so by rounding alone.
        heights[column] = 1.0
        above[column] = column
    outcomes = np.empty(2 * columns, np.int64)
    outcomes[0::2], outcomes[1::2] = np.arange(columns), above
    return np.minimum(np.asarray(heights) * _WHOLE, _WHOLE - 2048).astype(np.uint64), outcomes


@lru_cache(maxsize=LEVELS)
def _thresholds(ratio: float) -> Words:
    """Of 64-bit numbers, which is the first that stands for 1, 2, … or more matches when each stands with ``ratio``."""
    survival = ratio ** np.arange(1, _ENDLESS + 1)
    kept = survival[survival * _WHOLE >= 1.0]
    found: Words = np.minimum((1.0 - kept) * _WHOLE, _WHOLE - 2048).astype(np.uint64)
    return found


def _breaks(persistence: float) -> Ints:
    """For each value of the lowest bits, after how many further positions a run breaks off."""
    middles = (np.arange(1 << _BREAK_BITS) + 0.5) / (1 << _BREAK_BITS)
    most = int(np.ceil(-(_BREAK_BITS + 1) * np.log(2) / np.log(persistence)))
    goes_on = persistence ** np.arange(1, min(most, _NO_END) + 1)
    return (1.0 - goes_on).searchsorted(middles, "right").astype(np.int64)
