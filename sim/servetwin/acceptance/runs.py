"""Runs of matches, one after the other: compiled, for every request that drafts has some hundred of them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

MOST_MATCHES: Final = 254
"""More matches than this are no more than this: a fate has one byte per position."""

NUMBER_BYTES: Final = 4
"""Bytes of a random number."""

COLUMNS: Final = 256
"""Columns of a level in the tables: one for each value of the first byte of a number."""

NO_END: Final = 1 << 24
"""Matches, or positions, that have no end."""

_COUNTDOWN: Final = bytes(range(MOST_MATCHES, -1, -1))
_MOST: Final = bytes([MOST_MATCHES])


class RunTables:
    """Draws chains of matches run by run: one number says how many matches a run begins with, and where it breaks.

    A number is four random bytes. The first one is a column in the tables of the request's level; where the other
    three are below the column's split, the run is the one of that column, otherwise another one (Walker's alias method,
    ACM TOMS 3, 1977). Where most runs have a column of their own, the rest share the last one, and two more numbers
    say which it is.

    Args:
        runs: by column, the matches of the run; that of ``rest`` does not count.
        rest: the column of all other runs.
        upper: by level and column, the first byte of the split.
        lower: by level and column, its second and third byte, the one after the other.
        others: by level and column, the column of the run from the split on.
        least: with how many matches the rest begins at least.
        more: by level, the first 32-bit numbers that stand for 1, 2, … matches more than ``least``; called when needed.
        breaks: the first 32-bit numbers that stand for a run that breaks off after 1, 2, … further positions; None =
            runs do not break.
        endless: so many matches more than ``least`` have no end.
        mean: positions of a run, on average; at least 1.
    """

    __slots__ = ("_breaks", "_endless", "_known", "_least", "_levels", "_lower", "_more", "_others", "_rest", "_runs",
                 "_upper", "mean")  # fmt: skip

    def __init__(
        self,
        runs: list[bytes],
        rest: int,
        upper: bytes,
        lower: bytes,
        others: bytes,
        least: int,
        more: Callable[[int], array[int]],
        breaks: array[int] | None,
        endless: int,
        mean: float,
    ) -> None:
        self._runs = runs
        self._rest = rest
        self._upper = upper
        self._lower = lower
        self._others = others
        self._levels = len(upper) // COLUMNS
        self._least = least
        self._more = more
        self._breaks = breaks
        self._endless = endless
        self.mean = mean
        self._known: dict[int, array[int]] = {}

    def matches(self, numbers: bytes, start: int, end: int, positions: int) -> bytes | None:
        """Matches at positions 0, 1, … of one request.

        Args:
            numbers: random numbers, of which the first one chooses the request's level.
            start: where those of the request start [bytes].
            end: where they end [bytes].
            positions: how many positions.

        Returns:
            A byte for each position; None where there are too few numbers.
        """
        if end - start < NUMBER_BYTES:
            return None
        upper, others, runs, rest = self._upper, self._others, self._runs, self._rest
        level = (numbers[start] * 256 + numbers[start + 1]) * self._levels >> 16
        first = level * COLUMNS
        found: list[bytes] = []
        at = start + NUMBER_BYTES
        left = positions
        while left > 0:
            if at + NUMBER_BYTES > end:
                return None
            column = numbers[at]
            byte, split = numbers[at + 1], upper[first + column]
            if byte > split or (byte == split and self._above(numbers, at + 2, first + column)):
                column = others[first + column]
            at += NUMBER_BYTES
            if column == rest:
                if at + 2 * NUMBER_BYTES > end:
                    return None
                run = self._longer(numbers, at, level, left)
                at += 2 * NUMBER_BYTES
            else:
                run = runs[column]
            found.append(run)
            left -= len(run)
        whole = b"".join(found)
        return whole[:positions] if left else whole

    def _above(self, numbers: bytes, at: int, place: int) -> bool:
        """Whether the last two bytes of a number are at the split or above."""
        lower = self._lower
        return numbers[at] * 256 + numbers[at + 1] >= lower[2 * place] * 256 + lower[2 * place + 1]

    def _longer(self, numbers: bytes, at: int, level: int, left: int) -> bytes:
        """One of the runs that have no column, as far as ``left`` positions go."""
        thresholds = self._known.get(level)
        if thresholds is None:
            thresholds = self._known[level] = self._more(level)
        beyond = bisect_right(thresholds, _number(numbers, at))
        value = self._least + beyond if beyond < self._endless else NO_END
        length = value + 1
        if self._breaks is not None:
            length = min(length, 1 + bisect_right(self._breaks, _number(numbers, at + NUMBER_BYTES)))
        length = min(length, left)
        flat = min(length, max(0, value - MOST_MATCHES))
        place = MOST_MATCHES - min(value, MOST_MATCHES)
        return _MOST * flat + _COUNTDOWN[place : place + length - flat]


def _number(numbers: bytes, at: int) -> int:
    return int.from_bytes(numbers[at : at + NUMBER_BYTES], "big")
