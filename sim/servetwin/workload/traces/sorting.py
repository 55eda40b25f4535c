"""Rows in order of time, whatever their number: sorted in runs, which are merged."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from servetwin.units import PS_PER_S
from servetwin.workload.traces.format import Row
from servetwin.workload.traces.opening import Place
from servetwin.workload.traces.spool import Column, Spool
from servetwin.workload.traces.table import PIECE, Rows

RUN_ROWS = 1 << 14
RUN_IDS = 1 << 18
"""A run has as many rows, or as many block ids: what is sorted at once."""

Placed = tuple[Place, Row]
"""Where a row stands, and the row."""


def by_time(rows: Iterator[Placed]) -> Iterator[Placed]:
    """All rows by time, those of equal time in the order of the file."""
    runs = _Runs()
    run: list[Placed] = []
    ids = 0
    for item in rows:
        run.append(item)
        ids += len(item[1].blocks)
        if len(run) >= RUN_ROWS or ids >= RUN_IDS:
            runs.add(sorted(run, key=_time))
            run.clear()
            ids = 0
    return heapq.merge(*runs.read(), sorted(run, key=_time), key=_time)


def _time(item: Placed) -> int:
    return item[1].time_ps


class _Runs:
    """Sorted runs, one after the other in columns; 20 bytes a row more than ``Rows`` says.

    Times are kept in two numbers: before they are cut to a window, they may be too large for one of 64 bits.
    """

    def __init__(self) -> None:
        spool = Spool()
        self._rows = Rows(spool)
        self._places: Column[int] = Column("I", spool)
        self._seconds: Column[int] = Column("q", spool)
        self._rest: Column[int] = Column("q", spool)
        self._ends: list[int] = []

    def add(self, run: list[Placed]) -> None:
        for place, row in run:
            assert isinstance(place, int), "text files have lines"
            seconds, rest = divmod(row.time_ps, PS_PER_S)
            self._places.append(place)
            self._seconds.append(seconds)
            self._rest.append(rest)
            self._rows.add(row)
        self._ends.append(len(self._rows))

    def read(self) -> list[Iterator[Placed]]:
        return [self._run(start, end) for start, end in zip([0, *self._ends], self._ends, strict=False)]

    def _run(self, start: int, stop: int) -> Iterator[Placed]:
        rows = self._rows
        for at in range(start, stop, PIECE):
            end = min(at + PIECE, stop)
            columns = (column.read(at, end) for column in (self._places, self._seconds, self._rest))
            for place, seconds, rest, record in zip(*columns, rows.records(at, end), strict=True):
                yield place, rows.row(record, seconds * PS_PER_S + rest)
