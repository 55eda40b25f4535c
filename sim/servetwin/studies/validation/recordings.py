"""Recorded requests beside a file of cases: CSV, plain or compressed."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from servetwin.errors import TraceError
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.trial import Row
from servetwin.workload.traces.lines import line_blocks


@dataclass(frozen=True, slots=True)
class Recorded:
    """A row of a recording.

    Attributes:
        cells: its texts, by column.
        file: the recording.
        line: the line on which it ends.
    """

    cells: Mapping[str, str]
    file: Path
    line: int

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def number(self, column: str) -> float:
        """A number of the row.

        Raises:
            TraceError: it is none.
        """
        try:
            return float(self.cells[column])
        except (TypeError, ValueError):
            raise self.error("a number is expected", column) from None

    def finite(self, column: str) -> float:
        """A time or a rate.

        Raises:
            TraceError: it is no finite number.
        """
        value = self.number(column)
        if not math.isfinite(value):
            raise self.error("a finite number is expected", column)
        return value

    def whole(self, column: str) -> int:
        """A count or an id.

        Raises:
            TraceError: it is no whole number.
        """
        value = self.number(column)
        if not value.is_integer():
            raise self.error("a whole number is expected", column)
        return int(value)

    def error(self, message: str, column: str) -> TraceError:
        """A mistake in this row, with its place."""
        place = f"line {self.line}, column {column}"
        return TraceError(message, file=str(self.file), path=place, found=self.cells[column])


def recording(case: Case, name: str | None, columns: Iterable[str]) -> tuple[Recorded, ...] | None:
    """The rows of the recording that a case names; None if there is no such file.

    Args:
        case: the case.
        name: the path in it, relative to the file of cases.
        columns: columns that the recording must have.

    Raises:
        TraceError: the file cannot be read or lacks a column.
    """
    if not name:
        return None
    path = case.beside(name)
    if not path.is_file():
        return None
    rows = _read(path)
    for column in columns:
        if not rows or column not in rows[0].cells:
            raise TraceError(
                "the recording of a case has no such column", file=str(path), path="line 1", found=column,
                allowed=list(rows[0].cells) if rows else "at least one row",
            )  # fmt: skip
    return rows


@lru_cache(maxsize=4)
def _read(path: Path) -> tuple[Recorded, ...]:
    reader = csv.DictReader(line for _, block in line_blocks(path, str(path)) for line in block)
    try:
        return tuple(Recorded(cells, path, reader.line_num) for cells in reader)
    except csv.Error as error:
        raise TraceError(f"this is no CSV: {error}", file=str(path), path=f"line {reader.line_num}") from None


def replayed(
    recorded: Iterable[Recorded],
    *,
    arrival: str,
    prompt: str,
    output: str | int,
    took_ms: Sequence[str],
    blocks: Callable[[Recorded], tuple[int, ...]] = lambda _: (),
) -> tuple[tuple[Row, ...], tuple[float, ...]]:
    """The requests of a recording in order of arrival, the first of which comes at time 0, and what each took [ms].

    Args:
        recorded: the rows.
        arrival: the column of the time of arrival [s].
        prompt: the column of the prompt's length [tokens].
        output: the column of the answer's length, or the length of all [tokens].
        took_ms: the columns whose sum is E2E [ms].
        blocks: ids for what prompts share, see ``Row``.

    Raises:
        TraceError: a cell is no number.
    """
    ordered = sorted(recorded, key=lambda row: row.finite(arrival))
    start = ordered[0].finite(arrival) if ordered else 0.0
    rows = tuple(
        Row(
            row.finite(arrival) - start,
            row.whole(prompt),
            output if isinstance(output, int) else row.whole(output),
            blocks(row),
        )
        for row in ordered
    )
    return rows, tuple(sum(row.number(column) for column in took_ms) for row in ordered)
