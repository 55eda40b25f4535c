"""The multiset of all inter-token gaps of a run, and exact statistics of it.

A segment stands for ``weight`` equal gaps per step, and its steps form an arithmetic series; so mean, maximum and any
order statistic follow from the segments without writing down the steps, which may be a hundred times as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import NamedTuple

import numpy as np

from servetwin.results.columns import Chunk
from servetwin.results.exact import Bools, Floats, Ints, exact_dot, exact_sum
from servetwin.results.steps import pairs, spread, steps_until
from servetwin.units import PS_PER_MS

_MANTISSA_BITS = 12
_DROPPED_BITS = 52 - _MANTISSA_BITS
_FIRST_BIN = (1023 << _MANTISSA_BITS) - 1
_BINS = (63 << _MANTISSA_BITS) + 2
_FLOAT_BITS = 52
_MOST_PARTS = 64


class Block(NamedTuple):
    """Series of gaps: ``number`` ascending values from ``low`` in steps of ``stride``, ``weight`` of each."""

    low: Ints
    stride: Ints
    number: Ints
    weight: Ints

    @property
    def high(self) -> Ints:
        """The largest gap of each series [ps]."""
        return self.low + self.stride * (self.number - 1)

    def below(self, value: int) -> Ints:
        """How many values of each series are smaller than ``value``."""
        steps = -((self.low - value) // np.maximum(self.stride, 1))
        return np.where(self.stride > 0, np.clip(steps, 0, self.number), np.where(self.low < value, self.number, 0))

    def select(self, chosen: Bools) -> Block:
        """The series where the mask is true."""
        return Block(*(part[chosen] for part in self))


@dataclass(slots=True)
class _Inside:
    """What lies in a bracket: how many different values at most, how many gaps below, the series that reach into it."""

    gaps: int = 0
    below: int = 0
    blocks: list[Block] = field(default_factory=list)


class GapSet:
    """All inter-token gaps, pooled over requests.

    Args:
        chunks: the segments.
        extra: chunks of gaps that no segment holds, in ``gap_ps``, with the start of their last step in ``start_ps``.
        after_ps: gaps that end with a step which starts earlier than this [ps] are left out.
        most_expanded: how many values are written down at most to pick an order statistic.
    """

    def __init__(
        self,
        chunks: Iterable[Chunk],
        extra: Iterable[Chunk] = (),
        *,
        after_ps: int = 0,
        most_expanded: int = 1 << 19,
    ) -> None:
        self._chunks = chunks
        self._extra = extra
        self._after_ps = after_ps
        self._most_expanded = most_expanded
        self._lows = np.zeros(_BINS, np.int64)
        self._highs = np.zeros(_BINS, np.int64)
        self.count = 0
        self.total_ps = 0
        self.maximum_ps = 0
        for block in self._blocks():
            mass = block.number * block.weight
            high = block.high
            self.count += exact_sum(mass)
            self.total_ps += exact_dot(block.low * block.number + block.stride * pairs(block.number), block.weight)
            self.maximum_ps = max(self.maximum_ps, int(high.max()))
            np.add.at(self._lows, _bin(block.low), mass)
            np.add.at(self._highs, _bin(high), mass)
        np.cumsum(self._lows, out=self._lows)
        np.cumsum(self._highs, out=self._highs)

    def mean_ms(self) -> float | None:
        """The mean gap [ms], correctly rounded."""
        return self.total_ps / (self.count * PS_PER_MS) if self.count else None

    def maximum_ms(self) -> float | None:
        """The longest gap [ms]."""
        return self.maximum_ps / PS_PER_MS if self.count else None

    def percentiles_ms(self, percents: Sequence[float]) -> list[float | None]:
        """Percentiles [ms], to the last bit those that numpy (linear) gives for the gaps one by one."""
        if not self.count:
            return [None for _ in percents]
        # As numpy: rank (n - 1) q; between neighbours from the nearer side.
        places = [(self.count - 1) * (percent / 100) for percent in percents]
        # All brackets in one pass over the segments.
        brackets = [self._bracket(floor(place)) for place in places]
        found = self._inside(brackets)
        return [
            self._at(place, bracket, inside) for place, bracket, inside in zip(places, brackets, found, strict=True)
        ]

    def order_statistic(self, rank: int) -> int:
        """The gap [ps] that has exactly ``rank`` gaps before it in ascending order."""
        bracket = self._bracket(rank)
        return self._neighbours(rank, bracket, self._inside([bracket])[0])[0]

    def _neighbours(self, rank: int, bracket: tuple[int, int], found: _Inside) -> tuple[int, int | None]:
        """The gaps [ps] with ``rank`` and ``rank + 1`` gaps before them; None where the second lies elsewhere.

        Args:
            rank: how many gaps lie before the first of them.
            bracket: two gaps [ps] between which it lies.
            found: what lies there.
        """
        low, high = bracket
        while low < high:
            if found.gaps <= self._most_expanded:
                return _pick(found.blocks, low, high, rank - found.below)
            middle = (low + high) // 2
            if self._mass_below(middle + 1) > rank:
                high = middle
            else:
                low = middle + 1
            found = self._inside([(low, high)])[0]
        return low, None

    def distribution(self) -> tuple[Floats, Floats]:
        """Gaps [ms] and the share (0–1) of gaps up to them, to draw: good to about one part in 4,096 of the gap."""
        mass = np.zeros(_BINS, np.int64)
        for block in self._blocks():
            bins = _bin(block.high) - _bin(block.low) + 1
            parts = np.minimum(np.minimum(bins, block.number), _MOST_PARTS)
            row, place = spread(parts)
            first = block.number[row] * place // parts[row]
            later = block.number[row] * (place + 1) // parts[row]
            middle = block.low[row] + block.stride[row] * ((first + later - 1) // 2)
            np.add.at(mass, _bin(middle), (later - first) * block.weight[row])
        used = np.flatnonzero(mass)
        edges = np.array([_edge(place + 1) for place in used.tolist()]) / PS_PER_MS
        return edges, np.cumsum(mass[used]) / max(self.count, 1)

    def _at(self, place: float, bracket: tuple[int, int], found: _Inside) -> float:
        """The value [ms] at a place between two ranks."""
        rank = floor(place)
        share = place - rank
        this, following = self._neighbours(rank, bracket, found)
        lower = this / PS_PER_MS
        if rank + 1 >= self.count or share == 0:
            return lower
        upper = (self.order_statistic(rank + 1) if following is None else following) / PS_PER_MS
        step = upper - lower
        return lower + step * share if share < 0.5 else upper - step * (1 - share)

    def _blocks(self) -> Iterator[Block]:
        """Every gap once: the first of each segment, the later ones of each segment, then the extra ones."""
        for chunk in self._chunks:
            weight = chunk["weight"]
            if not weight.any():
                continue
            count, gap = chunk["count"], chunk["gap_ps"]
            first, growth = chunk["first_ps"], chunk["growth_ps"]
            if self._after_ps:
                gap, first, count, weight = _later(self._after_ps, chunk["start_ps"], gap, first, growth, count, weight)
            some = weight > 0
            if some.any():
                ones = np.ones(int(some.sum()), np.int64)
                yield Block(gap[some], ones - 1, ones, weight[some])
            several = some & (count > 1)
            if several.any():
                yield _ascending(first[several], growth[several], count[several], weight[several])
        for chunk in self._extra:
            gap = chunk["gap_ps"][chunk["start_ps"] >= self._after_ps]
            if len(gap):
                ones = np.ones(len(gap), np.int64)
                yield Block(gap, ones - 1, ones, ones)

    def _bracket(self, rank: int) -> tuple[int, int]:
        """Two gaps [ps] between which the one of this rank lies, both included."""
        slack = self.maximum_ps >> _FLOAT_BITS
        low = _edge(int(np.searchsorted(self._lows, rank, side="right"))) - slack
        high = _edge(int(np.searchsorted(self._highs, rank, side="right")) + 1) + slack
        return max(low, 0), min(high, self.maximum_ps)

    def _inside(self, brackets: Sequence[tuple[int, int]]) -> list[_Inside]:
        """What lies in each bracket [low, high], both included."""
        found = [_Inside() for _ in brackets]
        for block in self._blocks():
            top, mass = block.high, block.number * block.weight
            for (low, high), inside in zip(brackets, found, strict=True):
                under = top < low
                inside.below += exact_sum(mass[under])
                reach = ~under & (block.low <= high)
                if reach.any():
                    part = block.select(reach)
                    before = part.below(low)
                    inside.below += exact_sum(before * part.weight)
                    inside.gaps += int((part.below(high + 1) - before).sum())
                    inside.blocks.append(part)
        return found

    def _mass_below(self, value: int) -> int:
        return sum(exact_sum(block.below(value) * block.weight) for block in self._blocks())


def _pick(blocks: list[Block], low: int, high: int, rank: int) -> tuple[int, int | None]:
    """Among the gaps in [low, high], those with ``rank`` and ``rank + 1`` gaps before them (None: not among them)."""
    values, weights = [], []
    for block in blocks:
        before = block.below(low)
        rows, place = spread(block.below(high + 1) - before)
        values.append(block.low[rows] + block.stride[rows] * (before[rows] + place))
        weights.append(block.weight[rows])
    every = np.concatenate(values)
    order = np.argsort(every)
    reached = np.cumsum(np.concatenate(weights)[order])
    this, following = np.searchsorted(reached, [rank, rank + 1], side="right").tolist()
    return int(every[order[this]]), int(every[order[following]]) if following < len(order) else None


def _ascending(first: Ints, growth: Ints, count: Ints, weight: Ints) -> Block:
    """The gaps of steps 1 … count - 1 of each segment, smallest first."""
    low = np.where(growth >= 0, first + growth, first + growth * (count - 1))
    return Block(low, np.abs(growth), count - 1, weight)


def _later(
    after_ps: int, start: Ints, gap: Ints, first: Ints, growth: Ints, count: Ints, weight: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Gap, first duration, count and weight of what is left of each segment after ``after_ps`` [ps]."""
    begun = start < after_ps
    gap, first, count = gap.copy(), first.copy(), count.copy()
    left = np.where(begun, 0, weight)
    ends = start + first * count + growth * pairs(count)
    for row in np.flatnonzero(begun & (ends > after_ps)).tolist():
        # Steps that start before the instant: those that end before it, and the one that is running.
        earlier = after_ps - 1 - int(start[row])
        skip = steps_until(earlier, int(count[row]), int(first[row]), int(growth[row])) + 1
        if skip < count[row]:
            left[row] = weight[row]
            first[row] += growth[row] * skip
            gap[row] = first[row]
            count[row] -= skip
    return gap, first, count, left


def _bin(values: Ints) -> Ints:
    """The logarithmic bin of each value: the leading bits of the float."""
    bits: Ints = values.astype(np.float64).view(np.int64) >> _DROPPED_BITS
    return np.maximum(bits - _FIRST_BIN, 0)


def _edge(place: int) -> int:
    """The smallest integer that may lie in a bin."""
    if place <= 0:
        return 0
    bits = np.array([(place + _FIRST_BIN) << _DROPPED_BITS], np.int64)
    return int(bits.view(np.float64)[0])
