"""``results.parquet``: a row per run, made from the summaries on the disk, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from servetwin.results.store import write_parquet
from servetwin.results.summary import HOST_KEYS
from servetwin.studies.sweep.columns import SUMMARY, Kind, cell, kind_of
from servetwin.studies.sweep.points import Plan

if TYPE_CHECKING:
    import pyarrow as pa

STATUS, ERROR, POINT = "status", "error", "point"
OK, FAILED = "ok", "failed"
_ROWS = 500
"""Rows that are held at once."""


class Row(NamedTuple):
    """What came of a run.

    Attributes:
        values: the values of the fields.
        summary: every metric by its key; None = the run failed.
        error: why it failed.
        key: the name of its file among the points; None = it has none.
    """

    values: tuple[Any, ...]
    summary: dict[str, Any] | None
    error: str | None
    key: str | None


def column_of(key: str, fields: tuple[str, ...]) -> str:
    """The column of a key of the summary: its name, unless that is the path of a swept field (``model``)."""
    return key if key not in fields else f"summary.{key}"


def write_table(path: Path, plan: Plan, rows: Iterator[Row]) -> None:
    """Write the table.

    Keys that depend on the computer are null in it, so that the same sweep always gives the same bytes.

    Args:
        path: the file.
        plan: the runs.
        rows: what came of them, in order.
    """
    import pyarrow as pa

    kinds: list[Kind] = [kind_of(point.values[place] for point in plan.points) for place in range(len(plan.fields))]
    columns = [*zip(plan.fields, kinds, strict=True)]
    columns += [(column_of(key, plan.fields), kind) for key, kind in SUMMARY.items()]
    columns += [(STATUS, "text"), (ERROR, "text"), (POINT, "text")]
    types = {"whole": pa.int64(), "number": pa.float64(), "truth": pa.bool_()}
    schema = pa.schema([(name, types.get(kind, pa.string())) for name, kind in columns])

    def batches() -> Iterator[pa.RecordBatch]:
        while held := list(islice(rows, _ROWS)):
            cells = [list(_cells(row, kinds)) for row in held]
            arrays = [pa.array(column, field.type) for column, field in zip(zip(*cells), schema, strict=True)]  # noqa: B905
            yield pa.record_batch(arrays, schema=schema)

    write_parquet(path, schema, batches())


def _cells(row: Row, kinds: list[Kind]) -> Iterator[Any]:
    for value, kind in zip(row.values, kinds, strict=True):
        yield cell(value, kind)
    summary = row.summary or {}
    for key, kind in SUMMARY.items():
        yield None if key in HOST_KEYS else cell(summary.get(key), kind)
    yield OK if row.error is None else FAILED
    yield row.error
    yield row.key


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a table as they were before they were cells of columns, some at a time."""
    from json import loads

    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        nested = {key for key, kind in SUMMARY.items() if kind == "json" and key in file.schema_arrow.names}
        for batch in file.iter_batches(_ROWS):
            for row in batch.to_pylist():
                yield {key: loads(value) if key in nested and value is not None else value
                       for key, value in row.items()}  # fmt: skip
