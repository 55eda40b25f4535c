"""How many tokens controllers chose to draft, over time."""

from __future__ import annotations

import numpy as np

from servetwin.results.columns import ColumnStore
from servetwin.results.exact import ExactBins, Floats, Ints
from servetwin.results.steps import spread

CHOICE_COLUMNS = ("replica", "time_ps", "k")
"""From when on [ps] how many tokens are drafted per request, until the next choice of the replica; below 0 = none, and
the drafter does not even keep its cache."""


class Choices:
    """The choices of a run.

    Args:
        store: the columns ``CHOICE_COLUMNS``; those of a replica in order of time.
    """

    def __init__(self, store: ColumnStore) -> None:
        self._replica, self._time_ps, chosen = (store.column(name) for name in CHOICE_COLUMNS)
        self._k = np.maximum(chosen, 0)

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return len(self._k) > 0

    def mean(self, replica: int, width_ps: int, horizon_ps: int) -> Floats:
        """The time average of the choice in each interval, over the time in which there was one; NaN where none was.

        Args:
            replica: its index.
            width_ps: length of an interval [ps]; the last one may be shorter.
            horizon_ps: when the last one ends [ps].
        """
        bins = -(-horizon_ps // width_ps)
        mine = self._replica == replica
        if not mine.any():
            return np.full(bins, np.nan)
        begin, k = self._time_ps[mine], self._k[mine]
        end = np.minimum(np.append(begin[1:], horizon_ps), horizon_ps)
        lasts = begin < end
        total, covered = _sums(begin[lasts], end[lasts], k[lasts], width_ps, bins)
        known = covered > 0
        return np.where(known, total / np.where(known, covered, 1), np.nan)


def _sums(begin: Ints, end: Ints, k: Ints, width_ps: int, bins: int) -> tuple[Floats, Floats]:
    """By interval, the choices times their time, and the time."""
    total, covered = ExactBins(bins), ExactBins(bins)
    first = begin // width_ps
    owner, place = spread((end - 1) // width_ps - first + 1)
    interval = first[owner] + place
    length = np.minimum(end[owner], (interval + 1) * width_ps) - np.maximum(begin[owner], interval * width_ps)
    total.add(interval, k[owner] * length)
    covered.add(interval, length)
    return total.floats(), covered.floats()
