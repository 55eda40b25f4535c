"""Our own ``requests.parquet``: a run's requests, to be replayed by another cluster.

Arrivals, lengths, classes and sessions are those of the run; time 0 is that run's. What prompts shared is not in the
file: nothing is shared in the replay. Rejected and unfinished requests arrive too. Arrivals are floats of seconds in
the file: exact to the picosecond up to 2.5 hours, to a nanosecond up to 90 days.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from servetwin.errors import TraceError
from servetwin.streams import Streams
from servetwin.units import seconds_to_ps
from servetwin.workload.base import MAX_TOKENS
from servetwin.workload.traces.format import (
    COUNT_ALLOWED,
    MAX_TIME_S,
    NO_SESSION,
    SECONDS_ALLOWED,
    FileFormat,
    Row,
    RowError,
)
from servetwin.workload.traces.lines import CHUNK_BYTES, unpacked
from servetwin.workload.traces.spool import Column, Spool

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PAR1"
NUMBERS = {"arrival_s": "double", "prompt_tokens": "int64", "output_tokens": "int64"}
OPTIONAL = {"session_id": "int64", "class": "string"}
_BLOCK = 1 << 16
"""Rows that are decoded, and sorted, at once."""

_PIECE = 1 << 8
"""Rows of each block that are in memory while the blocks are merged."""


class _BadColumn(Exception):
    """A column holds something else than it should.

    Args:
        message: what is wrong.
        name: the column.
        found: its type, or the value.
        allowed: what it should hold.
    """

    def __init__(self, message: str, name: str, found: str, allowed: str) -> None:
        super().__init__(message)
        self.message, self.name, self.found, self.allowed = message, name, found, allowed


class OwnTable(FileFormat):
    """``requests.parquet`` of a run of servetwin."""

    name = "servetwin"
    description = "requests.parquet of a run of servetwin: its arrivals, lengths, classes and sessions again"
    layout = f"Parquet with the columns {','.join(NUMBERS)}"

    def recognises_file(self, path: Path, head: bytes) -> bool:
        """Whether the file is Parquet."""
        return head.startswith(MAGIC)

    def rows(self, path: Path, shown: str, streams: Streams) -> Iterator[tuple[str, Row | RowError]]:
        """The requests in order of arrival, those of one instant in the order of the file."""
        table = _read(path, shown)
        for entry in heapq.merge(*table.blocks(), key=_time):
            yield f"row {entry.number}", table.row(entry)


class _Entry(NamedTuple):
    """A row of the table; what is null is −1.

    Attributes:
        time_s: arrival [s].
        number: its place in the file, from 1.
        prompt, output: tokens.
        session: its session.
        kind: the number of its class.
    """

    time_s: float
    number: int
    prompt: int
    output: int
    session: int
    kind: int


def _time(entry: _Entry) -> tuple[bool, float]:
    """What entries are sorted by: what is no number comes last."""
    unknown = entry.time_s != entry.time_s
    return unknown, 0.0 if unknown else entry.time_s


class _Table:
    """The columns that are needed, 36 bytes a row, each block of rows in order of time."""

    def __init__(self) -> None:
        spool = Spool()
        self._times_s: Column[float] = Column("d", spool)
        self._numbers: Column[int] = Column("q", spool)
        self._prompts: Column[int] = Column("i", spool)
        self._outputs: Column[int] = Column("i", spool)
        self._sessions: Column[int] = Column("q", spool)
        self._kinds: Column[int] = Column("i", spool)
        self._ends: list[int] = []
        self._known: dict[str, int] = {"": 0}
        self._names = [""]

    def add(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch.

        Raises:
            _BadColumn: a column has no numbers, or one of tokens has fractions.
        """
        has, start = batch.schema.names, len(self._times_s)
        times = _numbers(batch, "arrival_s").astype(np.float64)
        order = np.argsort(times, kind="stable")
        self._times_s.extend(array("d", times[order].tobytes()))
        self._numbers.extend(array("q", (order + (start + 1)).astype(np.int64).tobytes()))
        for name, column in (("prompt_tokens", self._prompts), ("output_tokens", self._outputs)):
            # What does not fit is no number of tokens either.
            values = np.clip(np.nan_to_num(_numbers(batch, name), nan=-1), -1, 2**31 - 1)
            broken = np.flatnonzero(values != np.floor(values))
            if len(broken):
                at = f"{name}, row {start + int(broken[0]) + 1}"
                raise _BadColumn(f"{name} is no number of tokens", at, f"{values[broken[0]]:g}", COUNT_ALLOWED)
            column.extend(array("i", values.astype(np.int32)[order].tobytes()))
        sessions = np.full(len(batch), NO_SESSION)
        if "session_id" in has:
            sessions = _numbers(batch, "session_id")
            if sessions.dtype.kind != "i":
                raise _no_numbers("session_id", batch.schema.field("session_id").type, "whole numbers")
        whole = np.maximum(sessions, NO_SESSION).astype(np.int64)
        self._sessions.extend(array("q", whole[order].tobytes()))
        codes = _class_codes(batch.column("class"), self._known) if "class" in has else np.zeros(len(batch), np.int32)
        self._kinds.extend(array("i", codes[order].tobytes()))
        self._names = list(self._known)
        self._ends.append(len(self._times_s))

    def blocks(self) -> list[Iterator[_Entry]]:
        """The entries of each block, in order of time."""
        return [self._block(start, end) for start, end in zip([0, *self._ends], self._ends, strict=False)]

    def _block(self, start: int, stop: int) -> Iterator[_Entry]:
        for at in range(start, stop, _PIECE):
            end = min(at + _PIECE, stop)
            times = self._times_s.read(at, end)
            columns = (self._numbers, self._prompts, self._outputs, self._sessions, self._kinds)
            yield from map(_Entry._make, zip(times, *(column.read(at, end) for column in columns), strict=True))

    def row(self, entry: _Entry) -> Row | RowError:
        """A row, or what is wrong with it."""
        if not 0 <= entry.time_s <= MAX_TIME_S:
            return RowError("arrival_s is no time", entry.time_s, SECONDS_ALLOWED)
        if not 1 <= entry.prompt <= MAX_TOKENS:
            return RowError("prompt_tokens is no number of tokens", entry.prompt, COUNT_ALLOWED)
        if not 1 <= entry.output <= MAX_TOKENS:
            return RowError("output_tokens is no number of tokens", entry.output, COUNT_ALLOWED)
        time_ps, name = seconds_to_ps(entry.time_s), self._names[entry.kind]
        return Row(time_ps, entry.prompt, entry.output, class_name=name, session=entry.session)


def _read(path: Path, shown: str) -> _Table:
    """The columns that are needed.

    Raises:
        TraceError: the file is no Parquet, lacks a column, or has something else in it.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = _Table()
    try:
        with _opened(path, shown) as stream:
            file = parquet.ParquetFile(stream, buffer_size=CHUNK_BYTES)
            names = file.schema_arrow.names
            for name in NUMBERS:
                if name not in names:
                    raise TraceError(
                        f"the table has no column {name}", file=shown, found=", ".join(names), allowed=OwnTable.layout
                    )
            if "class" in names:
                _check_text("class", file.schema_arrow.field("class").type)
                # A class is stored once for many rows, and read as it is stored.
                file = parquet.ParquetFile(
                    stream, metadata=file.metadata, read_dictionary=["class"], buffer_size=CHUNK_BYTES
                )
            wanted = [*NUMBERS, *(name for name in OPTIONAL if name in names)]
            for batch in file.iter_batches(_BLOCK, columns=wanted, use_threads=False):
                batch.validate(full=True)
                table.add(batch)
    except _BadColumn as error:
        raise TraceError(error.message, file=shown, path=error.name, found=error.found, allowed=error.allowed) from None
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        reason = (str(error).splitlines() or ["it ends too soon"])[0]
        raise TraceError(f"the Parquet file is damaged: {reason[:200]}", file=shown) from None
    return table


def _opened(path: Path, shown: str) -> BinaryIO:
    """The file as it is, or what it holds if it is compressed."""
    stream = path.open("rb")
    if stream.read(len(MAGIC)) == MAGIC:
        stream.seek(0)
        return stream
    stream.close()
    return unpacked(path, shown)


def _numbers(batch: pa.RecordBatch, name: str) -> np.ndarray[Any, np.dtype[Any]]:
    """A column of numbers; null counts as −1.

    Raises:
        _BadColumn: there are none.
    """
    import pyarrow.types as types

    column = batch.column(name)
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        raise _no_numbers(name, column.type)
    return _filled(column)


def _no_numbers(name: str, kind: pa.DataType, allowed: str = "numbers") -> _BadColumn:
    return _BadColumn(f"the column {name} has no {allowed}", name, str(kind), allowed)


def _check_text(name: str, kind: pa.DataType) -> None:
    """Refuse a column of anything but text, or of nothing at all.

    Raises:
        _BadColumn: it is one.
    """
    import pyarrow.types as types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(inner) or types.is_large_string(inner) or types.is_null(inner)):
        raise _BadColumn(f"the column {name} has no text", name, str(kind), "text")


def _filled(column: pa.Array) -> np.ndarray[Any, np.dtype[Any]]:
    values = column.fill_null(-1) if column.null_count else column
    return values.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _class_codes(column: pa.Array, known: dict[str, int]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The number of each row's class in ``known``, which grows; 0 = none."""
    import pyarrow.types as types

    if types.is_null(column.type):
        return np.zeros(len(column), np.int32)
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    numbers = [known.setdefault(name or "", len(known)) for name in column.dictionary.to_pylist()]
    # The last one stands for null, which is −1.
    return np.asarray(np.array([*numbers, 0], np.int32)[_filled(column.indices)], np.int32)
