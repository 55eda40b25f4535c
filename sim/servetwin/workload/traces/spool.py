"""Columns of numbers of any length in bounded memory: beyond a budget they lie in a temporary file without a name."""

from __future__ import annotations

import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from typing import Generic, TypeVar

from servetwin.errors import TraceError

MEMORY_BYTES = 64 << 20
"""What the columns of one spool keep in RAM [B], besides the block that each of them is filling."""

BLOCK = 1 << 13
"""Values of a block: what is kept or written at once."""

N = TypeVar("N", int, float)


class Spool:
    """Where blocks of columns go: the first ``MEMORY_BYTES`` stay in RAM, the others go to a file.

    The file has no name (or loses it at once), so that it vanishes with the process, however that ends.

    Args:
        beside: a spool whose columns are read meanwhile, and which leaves this one what it does not need itself.
    """

    def __init__(self, beside: Spool | None = None) -> None:
        self._left: int = MEMORY_BYTES if beside is None else beside._left
        self._file: FileIO | None = None
        self._end = 0

    @property
    def file_bytes(self) -> int:
        """The size of the file [B]; 0 = there is none."""
        return self._end

    def keep(self, block: array[N]) -> array[N] | int:
        """Take a block: itself if it stays in RAM, else where it lies in the file [B].

        Raises:
            TraceError: the file cannot be written.
        """
        size = len(block) * block.itemsize
        if size <= self._left:
            self._left -= size
            return block
        start = self._end
        if self._file is None:
            self._file = temporary_file()
            weakref.finalize(self, self._file.close)
        write_all(self._file, memoryview(block).cast("B"))
        self._end += size
        return start

    def read(self, typecode: str, start: int, count: int) -> array[N]:
        """``count`` values of a type that lie in the file from ``start`` [B] on.

        Raises:
            TraceError: the file cannot be read.
        """
        assert self._file is not None, "a block lies in it"
        values: array[N] = array(typecode, bytes(count * array(typecode).itemsize))
        view = memoryview(values).cast("B")
        try:
            self._file.seek(start)
            while view:
                got = self._file.readinto(view)
                if not got:
                    raise OSError(None, "it ends too soon")
                view = view[got:]
            self._file.seek(self._end)
        except OSError as error:
            raise _unusable("read", error) from None
        return values


def temporary_file() -> FileIO:
    """A new file without a name, in the folder for temporary files.

    Raises:
        TraceError: there can be none.
    """
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError as error:
        raise _unusable("made", error) from None


def write_all(file: FileIO, data: memoryview | bytes) -> None:
    """Append to a temporary file.

    Raises:
        TraceError: it cannot be written, such as on a full disk.
    """
    view = memoryview(data)
    try:
        while view:
            view = view[file.write(view) :]
    except OSError as error:
        raise _unusable("written", error) from None


def _unusable(verb: str, error: OSError) -> TraceError:
    return TraceError(
        f"the temporary file for the trace cannot be {verb}: {error.strerror}",
        file=tempfile.tempdir or "the folder for temporary files",
        hint="the environment variable TMPDIR names the folder for temporary files: set it to one with more room, "
        "or cut the trace with workload.trace.limit or window_s",
    )


class Column(Generic[N]):
    """Numbers, appended at the end and read from anywhere.

    Args:
        typecode: their type, as ``array`` calls it.
        spool: where full blocks go.
    """

    def __init__(self, typecode: str, spool: Spool) -> None:
        self._typecode = typecode
        self._spool = spool
        self._blocks: list[array[N] | int] = []
        self._starts: list[int] = []  # the place of each block's first value in the column
        self._full = 0
        self._tail: array[N] = array(typecode)

    def __len__(self) -> int:
        return self._full + len(self._tail)

    def __getitem__(self, index: int) -> N:
        """One value; negative places count from the end."""
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self.read(place, place + 1)[0]

    def __iter__(self) -> Iterator[N]:
        return chain.from_iterable(self.blocks())

    def append(self, value: N) -> None:
        """Add a value."""
        tail = self._tail
        tail.append(value)
        if len(tail) >= BLOCK:
            self._seal()

    def extend(self, values: array[N]) -> None:
        """Add values of the same type; a long array becomes a long block."""
        self._tail.extend(values)
        if len(self._tail) >= BLOCK:
            self._seal()

    def fill(self, value: N, count: int) -> None:
        """Add a value ``count`` times."""
        for start in range(0, count, BLOCK):
            self.extend(array(self._typecode, [value]) * min(BLOCK, count - start))

    def blocks(self) -> Iterator[array[N]]:
        """All values, as one array after the other; they are not to be changed."""
        for at, block in enumerate(self._blocks):
            yield self._part(at, 0, self._end(at) - self._starts[at]) if isinstance(block, int) else block
        if self._tail:
            yield self._tail

    def read(self, start: int, stop: int) -> array[N]:
        """The values from ``start`` (included) to ``stop`` (excluded), none of which may be missing."""
        if start >= self._full:
            return self._tail[start - self._full : stop - self._full]
        at = bisect_right(self._starts, start) - 1
        first = self._starts[at]
        end = self._end(at)
        values = self._part(at, start - first, min(stop, end) - first)
        while end < stop:
            at += 1
            first = end
            if at == len(self._blocks):
                values.extend(self._tail[: stop - first])
                break
            end = self._end(at)
            values.extend(self._part(at, 0, min(stop, end) - first))
        return values

    def tolist(self) -> list[N]:
        """All values."""
        return list(self)

    def _part(self, at: int, start: int, stop: int) -> array[N]:
        block = self._blocks[at]
        if isinstance(block, int):
            return self._spool.read(self._typecode, block + start * self._tail.itemsize, stop - start)
        return block[start:stop]

    def _end(self, at: int) -> int:
        return self._starts[at + 1] if at + 1 < len(self._starts) else self._full

    def _seal(self) -> None:
        self._blocks.append(self._spool.keep(self._tail[:]))  # a copy has no room to grow
        self._starts.append(self._full)
        self._full += len(self._tail)
        self._tail = array(self._typecode)
