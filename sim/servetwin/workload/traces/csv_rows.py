"""Trace files that are CSV with a header: columns are found by name, others are ignored."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from servetwin.units import PS_PER_S
from servetwin.workload.traces.format import (
    COUNT_ALLOWED,
    TIME_UNITS,
    Row,
    RowError,
    RowParser,
    as_time_ps,
    as_whole,
)

Cells = Sequence[str]


class CsvFormat(ABC):
    """Base of the formats that are CSV with a header.

    Attributes:
        columns: the columns that tell the format; a file must have all of them.
        optional: further columns that are read where a file has them.
    """

    name: str
    description: str
    columns: tuple[str, ...]
    optional: tuple[str, ...] = ()
    layout: str
    block_tokens = 0

    def __init__(self) -> None:
        self.layout = f"CSV with the header {','.join(self.columns)}"

    def recognises(self, line: str) -> bool:
        """Whether the line is a header with the columns."""
        try:
            return set(self.columns) <= set(split_cells(line))
        except RowError:
            return False

    def parser(self, line: str) -> tuple[RowParser, bool]:
        """The row parser for this header; the first line is no row."""
        header = split_cells(line)
        missing = [column for column in self.columns if column not in header]
        if missing:
            raise RowError(f"the header has no column {missing[0]}", line, ",".join(self.columns))
        for column in (*self.columns, *self.optional):
            check_once(column, header)
        width, row = len(header), self.row(header)

        def parse(line: str) -> Row:
            cells = split_cells(line)
            if len(cells) != width:
                raise RowError(f"the row has {len(cells)} cells", line, f"{width} cells, as in the header")
            return row(cells)

        return parse, True

    @abstractmethod
    def row(self, header: Sequence[str]) -> Callable[[Cells], Row]:
        """What turns the cells of a row, as many as the header has, into a ``Row``, or raises ``RowError``."""


def split_cells(line: str, delimiter: str = ",") -> list[str]:
    """The cells of a line, without white space around them; quotes as in RFC 4180."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(delimiter)]
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, strict=True))]
    except (csv.Error, StopIteration) as error:
        raise RowError(
            f"the row is no CSV: {error}", line, "cells in quotes that end, each quote inside doubled"
        ) from None


def check_once(column: str, header: Sequence[str]) -> None:
    """Refuse a header that has a column twice.

    Raises:
        RowError: it has.
    """
    if header.count(column) > 1:
        raise RowError(f"the header has {header.count(column)} columns {column}", ",".join(header), "one of each name")


def tokens(cell: str, column: str) -> int:
    """The number of tokens in a cell.

    Raises:
        RowError: it is none.
    """
    value = as_whole(cell)
    if value is None:
        raise RowError(f"{column} is no number of tokens", cell, COUNT_ALLOWED)
    return value


def time_ps(cell: str, column: str, *, unit_ps: int = PS_PER_S) -> int:
    """The time in a cell [ps], given in units of ``unit_ps``, which is that of seconds or milliseconds [ps].

    Raises:
        RowError: it is none.
    """
    value = as_time_ps(cell, unit_ps)
    if value is None:
        raise RowError(f"{column} is no time", cell, f"{TIME_UNITS[unit_ps]}, 0 or more")
    return value
