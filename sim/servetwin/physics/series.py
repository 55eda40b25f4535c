"""Stretches of steps: equal ones, each longer than the one before by the same amount, and steps of any length."""

from __future__ import annotations

from bisect import bisect_left
from math import sqrt


class Series:
    """``count`` steps that start at ``start_ps``; step ``j`` (from 0) lasts ``first_ps + j * growth_ps`` [ps].

    Boundary ``k`` is the end of step ``k - 1`` and the start of step ``k``; boundary 0 is the start of the series.
    All answers are exact: the closed form is solved in floating point and corrected with the integer formula.
    """

    __slots__ = ("count", "first_ps", "growth_ps", "start_ps")

    def __init__(self, start_ps: int, count: int, first_ps: int, growth_ps: int) -> None:
        self.start_ps = start_ps
        self.count = count
        self.first_ps = first_ps
        self.growth_ps = growth_ps

    def restart(self, start_ps: int, count: int, first_ps: int, growth_ps: int) -> None:
        """Become another series."""
        self.start_ps = start_ps
        self.count = count
        self.first_ps = first_ps
        self.growth_ps = growth_ps

    def boundary(self, k: int) -> int:
        """When boundary ``k`` falls [ps]."""
        return self.start_ps + k * self.first_ps + self.growth_ps * (k * (k - 1) // 2)

    def first_boundary_from(self, time_ps: int) -> int:
        """The smallest k ≥ 0 whose boundary falls at or after ``time_ps`` [ps]."""
        span = time_ps - self.start_ps
        if span <= 0:
            return 0
        first, growth = self.first_ps, self.growth_ps
        if span <= first:
            return 1
        if not growth:
            return -(-span // first)
        # k·first + growth·k(k−1)/2 = span, in the form that does not cancel for small growth.
        half = growth / 2
        slope = first - half
        k = int(2 * span / (slope + sqrt(slope * slope + 2 * growth * span)))
        reached = k * first + growth * (k * (k - 1) >> 1)
        while reached < span:
            reached += first + k * growth
            k += 1
        while reached - first - (k - 1) * growth >= span:
            k -= 1
            reached -= first + k * growth
        return k

    def steps_before(self, time_ps: int) -> int:
        """How many steps have ended strictly before ``time_ps`` [ps]."""
        k = self.first_boundary_from(time_ps)
        return k - 1 if k > 0 else 0


class UnevenSeries(Series):
    """Steps of any length, one after the other.

    Attributes:
        ends: when each of them ends [ps]; there may be more than ``count``.
    """

    __slots__ = ("ends",)

    def __init__(self) -> None:
        super().__init__(0, 1, 1, 0)
        self.ends: list[int] = [1]

    def restart(self, start_ps: int, count: int, first_ps: int, growth_ps: int) -> None:
        """Become one step of ``first_ps`` [ps]."""
        self.start_ps = start_ps
        self.count = 1
        self.ends = [start_ps + first_ps]

    def run(self, start_ps: int, spans: list[int]) -> None:
        """Become steps that last ``spans`` [ps]."""
        self.start_ps = now = start_ps
        self.count = len(spans)
        self.ends = ends = []
        for span in spans:
            now += span
            ends.append(now)

    def boundary(self, k: int) -> int:
        """When boundary ``k`` falls [ps]."""
        return self.ends[k - 1] if k else self.start_ps

    def first_boundary_from(self, time_ps: int) -> int:
        """The smallest k ≥ 0 whose boundary falls at or after ``time_ps`` [ps]; the number of steps at most, plus 1."""
        return bisect_left(self.ends, time_ps) + 1 if time_ps > self.start_ps else 0
