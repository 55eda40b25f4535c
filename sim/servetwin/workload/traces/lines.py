"""Files, plain or compressed with gzip or zstd, as blocks of numbered lines; every way to fail is a ``TraceError``."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from servetwin.errors import TraceError, nearest_name
from servetwin.paths import expanded, names_beside
from servetwin.workload.traces.format import RowError
from servetwin.workload.traces.spool import temporary_file, write_all

CHUNK_BYTES = 1 << 20
"""How much is read at once: memory use does not grow with the file."""

MAX_LINE_BYTES = 1 << 24
"""A line longer than this is no line of a trace, but a binary file."""

NEWLINE = b"\n"

MAX_BINARY_BYTES = 1 << 33
"""No binary trace is larger than this once decompressed, which it is as a whole."""

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def resolve(path: str, base: Path) -> Path:
    """The file that ``path`` names, seen from folder ``base`` unless absolute; ``~`` is the home folder."""
    return base / expanded(path)


def line_blocks(path: Path, shown: str, *, lenient: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(number of the first line, lines)`` block by block; lines keep a final carriage return.

    Whether the file is compressed is seen from its content, whatever its name.

    Args:
        path: the file.
        shown: its name as the user gave it, for messages.
        lenient: whether lines that are not UTF-8 are yielded too, for ``check_text`` to refuse them one by one.

    Raises:
        TraceError: missing, a directory, unreadable, truncated or damaged gzip, or not UTF-8.
    """
    number = 1
    rest = b""
    chunks = _chunks(path, shown)
    while True:
        try:
            chunk = next(chunks, b"")
        except TraceError as error:
            if number > 1:
                error.path = f"after line {number - 1}"
            raise
        if not chunk:
            break
        data = rest + chunk
        cut = data.rfind(NEWLINE) + 1
        rest = data[cut:]
        if len(rest) > MAX_LINE_BYTES:
            raise TraceError(
                "this is no text file",
                file=shown,
                path=f"line {number + data.count(NEWLINE)}",
                found=f"a line longer than {MAX_LINE_BYTES >> 20} MiB",
            )
        if cut:
            lines = _decode(data[:cut], number, shown, lenient).split("\n")
            lines.pop()
            yield number, lines
            number += len(lines)
    if rest:
        yield number, [_decode(rest, number, shown, lenient)]


def _chunks(path: Path, shown: str) -> Iterator[bytes]:
    try:
        _check_kind(path, shown)
        with path.open("rb") as raw:
            stream: io.BufferedReader | gzip.GzipFile | BinaryIO = raw
            head = raw.peek(4)
            if head.startswith(_GZIP_MAGIC):
                stream = gzip.GzipFile(fileobj=raw)
            elif head.startswith(_ZSTD_MAGIC):
                stream = _zstd(raw, shown)
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
    except FileNotFoundError:
        raise _missing(path, shown) from None
    except IsADirectoryError:
        raise TraceError("this is a directory, not a file", file=shown) from None
    except EOFError:
        raise TraceError("the gzip file is cut off: its end is missing", file=shown) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"the gzip file is damaged: {error}", file=shown) from None
    except (OSError, ValueError) as error:  # ValueError: a name that holds a NUL character
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"the file cannot be read: {reason}", file=shown) from None


def _check_kind(path: Path, shown: str) -> None:
    """Refuse what is neither a file nor a folder: reading a pipe may never end, and a trace is opened more than once.

    Raises:
        TraceError: it is a pipe, a socket or a device.
        OSError: there is nothing, or nothing that may be looked at.
    """
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
    raise TraceError(f"this is a {kind}, not a file", file=shown, allowed="a file or a folder: save the trace first")


def _missing(path: Path, shown: str) -> TraceError:
    if path.is_symlink():
        return TraceError("this link leads to no file", file=shown, found=str(path.readlink()))
    return TraceError("there is no such file", file=shown, nearest=nearest_name(path.name, names_beside(path)))


def _zstd(raw: BinaryIO, shown: str) -> Any:
    """The decompressed stream of a file; pyarrow, which writes the results, has zstd in all usual builds."""
    import pyarrow

    if not pyarrow.Codec.is_available("zstd"):
        raise TraceError(
            "the file is compressed with zstd, which this build of pyarrow cannot read",
            file=shown,
            allowed="a plain file, or one compressed with gzip",
        )
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd")


def peek(path: Path, shown: str, size: int) -> bytes:
    """The first bytes of a file, decompressed.

    Raises:
        TraceError: as ``line_blocks``.
    """
    return next(_chunks(path, shown), b"")[:size]


def unpacked(path: Path, shown: str) -> BinaryIO:
    """A whole file, decompressed into a temporary one without a name.

    Raises:
        TraceError: as ``line_blocks``, it has more than ``MAX_BINARY_BYTES``, or there is no room for it.
    """
    whole = temporary_file()
    try:
        for chunk in _limited(path, shown):
            write_all(whole, chunk)
        whole.seek(0)
    except BaseException:
        whole.close()
        raise
    return io.BufferedReader(whole)


def read_bytes(path: Path, shown: str) -> bytes:
    """A whole file, decompressed, in memory.

    Raises:
        TraceError: as ``line_blocks``, or it has more than ``MAX_BINARY_BYTES``.
    """
    return b"".join(_limited(path, shown))


def _limited(path: Path, shown: str) -> Iterator[bytes]:
    size = 0
    for chunk in _chunks(path, shown):
        size += len(chunk)
        if size > MAX_BINARY_BYTES:
            raise TraceError(f"the file is larger than {MAX_BINARY_BYTES >> 30} GiB", file=shown)
        yield chunk


def _decode(data: bytes, number: int, shown: str, lenient: bool) -> str:
    if number == 1:
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-8", "surrogateescape" if lenient else "strict")
    except UnicodeDecodeError as error:
        raise TraceError(
            "the file is not UTF-8 text",
            file=shown,
            path=f"line {number + data.count(NEWLINE, 0, error.start)}",
            found=f"byte {data[error.start]:#04x}",
            allowed="a text file in UTF-8, plain or compressed with gzip or zstd",
        ) from None


def check_text(line: str) -> None:
    """Refuse a line, read leniently, that was not UTF-8.

    Raises:
        RowError: with the first byte that is wrong.
    """
    if line.isascii():
        return
    for character in line:
        if "\udc80" <= character <= "\udcff":
            raise RowError("the row is not UTF-8 text", f"byte {ord(character) - 0xDC00:#04x}", "text in UTF-8")


def check_folder(path: Path, shown: str) -> None:
    """Refuse a folder whose files cannot be listed.

    Raises:
        TraceError: it is one.
    """
    try:
        with os.scandir(path):
            pass
    except OSError as error:
        raise TraceError(f"the folder cannot be read: {error.strerror}", file=shown) from None
