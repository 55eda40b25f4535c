"""Recorded requests beside a file of cases: CSV, plain or compressed."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from servetwin.errors import TraceError
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.trial import Row

Cells = Mapping[str, str]


def recording(case: Case, name: str | None, columns: Iterable[str]) -> tuple[Cells, ...] | None:
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
        if not rows or column not in rows[0]:
            raise TraceError(
                "the recording of a case has no such column", file=str(path), path="line 1", found=column,
                allowed=list(rows[0]) if rows else "at least one row",
            )  # fmt: skip
    return rows


@lru_cache(maxsize=4)
def _read(path: Path) -> tuple[Cells, ...]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TraceError(f"the recording of a case cannot be read: {error}", file=str(path)) from None
    return tuple(csv.DictReader(io.StringIO(text)))


def number(cells: Cells, column: str) -> float:
    """A number of a row.

    Raises:
        TraceError: it is none.
    """
    try:
        return float(cells[column])
    except (TypeError, ValueError):
        raise TraceError("a number is expected", path=column, found=cells[column]) from None


def from_first(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows in order of arrival, the first of which comes at time 0."""
    ordered = sorted(rows, key=lambda row: row.arrival_s)
    start = ordered[0].arrival_s if ordered else 0.0
    return tuple(row._replace(arrival_s=row.arrival_s - start) for row in ordered)
