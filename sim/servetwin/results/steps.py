"""Arithmetic on segments: stretches of equal steps, where step ``j`` lasts ``first_ps + j * growth_ps``."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from servetwin.results.columns import Chunk
from servetwin.results.exact import Bools, Ints


class Rows:
    """Some segments as plain arrays (see ``servetwin.records`` for the columns)."""

    __slots__ = (
        "accepted", "compute_growth", "compute_ps", "count", "decodes", "drafted", "emitted", "first_ps", "growth_ps",
        "held", "prefill_tokens", "replica", "start_ps", "tokens",
    )  # fmt: skip

    def __init__(self, columns: dict[str, Ints]) -> None:
        for name in self.__slots__:
            setattr(self, name, columns[name])

    replica: Ints
    start_ps: Ints
    count: Ints
    first_ps: Ints
    growth_ps: Ints
    held: Ints
    decodes: Ints
    tokens: Ints
    prefill_tokens: Ints
    emitted: Ints
    drafted: Ints
    accepted: Ints
    compute_ps: Ints
    compute_growth: Ints

    @classmethod
    def of(cls, chunk: Chunk) -> Rows:
        """The segments of a chunk."""
        return cls({name: chunk[name] for name in cls.__slots__})

    def __len__(self) -> int:
        return len(self.count)

    def span_ps(self) -> Ints:
        """How long all steps of each segment last together [ps]."""
        return self.first_ps * self.count + self.growth_ps * pairs(self.count)

    def compute_in_all_ps(self) -> Ints:
        """The part of it that is bound by arithmetic [ps]."""
        return self.compute_ps * self.count + self.compute_growth * pairs(self.count)

    def select(self, chosen: Ints | Bools) -> Rows:
        """The segments with these row numbers, or where this mask is true."""
        return Rows({name: getattr(self, name)[chosen] for name in self.__slots__})

    def cut(self, rows: Ints, skip: Ints, count: Ints) -> Rows:
        """Of each segment in ``rows``, the ``count`` steps after the first ``skip``, as a new segment."""
        part = self.select(rows)
        part.start_ps = part.start_ps + part.first_ps * skip + part.growth_ps * pairs(skip)
        part.first_ps = part.first_ps + part.growth_ps * skip
        part.compute_ps = part.compute_ps + part.compute_growth * skip
        part.held = part.held + part.decodes * skip
        part.count = count
        return part

    def pieces(self, most: int) -> Rows:
        """The same steps in segments of at most ``most`` steps, in the same order."""
        if not len(self) or int(self.count.max()) <= most:
            return self
        rows, place = spread(-(-self.count // most))
        skip = place * most
        return self.cut(rows, skip, np.minimum(self.count[rows] - skip, most))


def pairs(count: Ints) -> Ints:
    """``0 + 1 + … + (count - 1)``."""
    return count * (count - 1) // 2


def spread(counts: Ints) -> tuple[Ints, Ints]:
    """Row numbers, each ``counts`` times, and the place 0, 1, … of each repetition within its row."""
    rows = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, place


def steps_until(elapsed_ps: int, count: int, first_ps: int, growth_ps: int) -> int:
    """How many of a segment's steps end within ``elapsed_ps`` [ps] of its start, the end included."""

    def boundary(steps: int) -> int:
        return first_ps * steps + growth_ps * (steps * (steps - 1) // 2)

    return bisect_right(range(1, count + 1), elapsed_ps, key=boundary)
