"""Integer columns in as few bytes as they need.

Rows arrive in chunks. Of each chunk, each column keeps its smallest value and the distances from it, in one, two,
four, five, six or eight bytes each; a constant column keeps no array at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from servetwin.results.exact import Ints


class PackedColumn:
    """One column of one chunk."""

    __slots__ = ("_base", "_high", "_low", "_rows")

    def __init__(self, values: Ints) -> None:
        self._rows = len(values)
        self._base = int(values.min())
        self._low: npt.NDArray[np.generic] | None = None
        self._high: npt.NDArray[np.generic] | None = None
        span = int(values.max()) - self._base
        if span == 0:
            return
        if span >= 1 << 48:
            # Also where the distance would overflow: the values themselves, from base 0.
            self._base = 0
            self._low = values.copy()
            return
        offsets = values - self._base
        if span < 1 << 8:
            self._low = offsets.astype(np.uint8)
        elif span < 1 << 16:
            self._low = offsets.astype(np.uint16)
        else:
            self._low = offsets.astype(np.uint32)
            if span >= 1 << 32:
                self._high = (offsets >> 32).astype(np.uint8 if span < 1 << 40 else np.uint16)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(part.nbytes for part in (self._low, self._high) if part is not None)

    def unpack(self) -> Ints:
        """The values."""
        if self._low is None:
            return np.full(self._rows, self._base, np.int64)
        values: Ints = self._low.astype(np.int64)
        if self._high is not None:
            values += self._high.astype(np.int64) << 32
        if self._base:
            values += self._base
        return values


class Chunk:
    """Some rows; ``chunk["name"]`` is a column, unpacked anew at each access."""

    __slots__ = ("_columns", "_names", "rows")

    def __init__(self, names: dict[str, int], columns: list[PackedColumn], rows: int) -> None:
        self._names = names
        self._columns = columns
        self.rows = rows

    def __getitem__(self, name: str) -> Ints:
        return self._columns[self._names[name]].unpack()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(column.nbytes for column in self._columns)


#: Rows packed together.
_ROWS_PER_CHUNK: Final = 4096


class ColumnStore:
    """Rows of integers, appended a few at a time and packed in chunks.

    Args:
        names: the columns.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._index = {name: position for position, name in enumerate(self.names)}
        self._chunks: list[Chunk] = []
        self._starts: list[int] = []
        self._pending: list[Ints] = []
        self._packed = 0
        self.rows = 0

    def append(self, rows: Ints) -> None:
        """Add the rows of a matrix with one column per name."""
        if not len(rows):
            return
        self._pending.append(rows)
        self.rows += len(rows)
        if self.rows - self._packed >= _ROWS_PER_CHUNK:
            self._pack()

    def _pack(self) -> None:
        if not self._pending:
            return
        rows = np.concatenate(self._pending)
        self._pending.clear()
        columns = [PackedColumn(np.ascontiguousarray(rows[:, place])) for place in range(len(self.names))]
        self._starts.append(self._packed)
        self._chunks.append(Chunk(self._index, columns, len(rows)))
        self._packed = self.rows

    def __iter__(self) -> Iterator[Chunk]:
        self._pack()
        return iter(self._chunks)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        self._pack()
        return sum(chunk.nbytes for chunk in self._chunks)

    def column(self, name: str) -> Ints:
        """A whole column, in the order of the rows."""
        self._pack()
        if not self._chunks:
            return np.empty(0, np.int64)
        return np.concatenate([chunk[name] for chunk in self._chunks])

    def take(self, name: str, positions: Ints) -> Ints:
        """A column at some row numbers; only the chunks that are needed are unpacked."""
        self._pack()
        values = np.empty(len(positions), np.int64)
        owners = np.searchsorted(self._starts, positions, side="right") - 1
        for owner in range(int(owners.min()), int(owners.max()) + 1) if len(owners) else ():
            mine = owners == owner
            if mine.any():
                values[mine] = self._chunks[owner][name][positions[mine] - self._starts[owner]]
        return values
