"""From a file or folder to its rows: which format it has, and its parser at work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from servetwin.errors import TraceError
from servetwin.streams import Streams
from servetwin.workload.traces.columns import ColumnsFormat
from servetwin.workload.traces.format import FileFormat, Row, RowError, RowParser, TraceFormat
from servetwin.workload.traces.lines import check_folder, check_text, line_blocks, peek, resolve
from servetwin.workload.traces.registry import AUTO, detect, detect_file, find, formats, looked_for
from servetwin.workload.traces.spec import TraceSpec

Place = int | str
"""Where a row stands: the number of its line, or words."""

Item = tuple[Place, Row | RowError]

_HEAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class Opened:
    """A trace that is about to be read.

    Attributes:
        block_tokens: tokens of a block; 0 = the trace knows no blocks.
        origin_ps: what counts as time 0 on the trace's clock [ps]; None = its first row.
        items: its rows, and what is wrong with those that cannot be used.
    """

    block_tokens: int
    origin_ps: int | None
    items: Iterator[Item]


def open_trace(spec: TraceSpec, base: Path, streams: Streams) -> Opened:
    """Open the trace that ``spec`` names.

    Args:
        spec: which file, and how to treat it.
        base: the folder that a relative path is meant from.
        streams: random streams, for formats that describe traffic instead of listing it.

    Raises:
        TraceError: the file cannot be read, has no known format, or not the one that was asked for.
    """
    path = resolve(spec.path, base)
    binary = _binary_format(spec, path)
    if binary is not None:
        return Opened(binary.block_tokens, 0, iter(binary.rows(path, spec.path, streams)))
    return _open_text(spec, path)


def _binary_format(spec: TraceSpec, path: Path) -> FileFormat | None:
    """The format of a file or folder that is no text; None if it is to be read as text.

    Raises:
        TraceError: it is not of the format that was asked for, or a folder of none.
    """
    if spec.columns is not None:
        return None
    if _is_folder(path):
        check_folder(path, spec.path)
    if spec.format != AUTO:
        named = find(spec.format)
        if not isinstance(named, FileFormat):
            return None
        if not named.recognises_file(path, _head(path, spec.path)):
            raise TraceError(f"this is no trace of the format {named.name}", file=spec.path, allowed=named.layout)
        return named
    found = detect_file(path, _head(path, spec.path), spec.path)
    if found is None and _is_folder(path):
        kinds = [entry for entry in formats() if isinstance(entry, FileFormat)]
        raise TraceError(
            "this is a directory, and holds no trace", file=spec.path, hint=f"looked for {looked_for(kinds)}"
        )
    return found


def _open_text(spec: TraceSpec, path: Path) -> Opened:
    blocks = line_blocks(path, spec.path, lenient=spec.skip_bad_rows)
    number, lines, first = _first_line(blocks, spec.path)
    try:
        check_text(first)
        if "\r" in first:
            raise RowError("a line end is missing: CR alone is none", first, "lines that end with LF or CR LF")
        trace_format = _text_format(spec, first)
        parse, header = trace_format.parser(first)
    except RowError as error:
        raise TraceError(
            error.message, file=spec.path, path=f"line {number}", found=error.found, allowed=error.allowed
        ) from None
    skip = 1 if header else 0
    numbered = _lines(number + skip, lines[skip:], blocks)
    return Opened(trace_format.block_tokens, None, _parsed(numbered, parse, check=spec.skip_bad_rows))


def _text_format(spec: TraceSpec, first: str) -> TraceFormat:
    """The format of a text file whose first line is ``first``."""
    if spec.columns is not None:
        return ColumnsFormat(spec.columns)
    if spec.format == AUTO:
        return detect(first, spec.path)
    named = find(spec.format)
    assert not isinstance(named, FileFormat), "those are opened before"
    return named


def _head(path: Path, shown: str) -> bytes:
    """The first bytes of a file; none of a folder."""
    return b"" if _is_folder(path) else peek(path, shown, _HEAD_BYTES)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # such as a name that holds a NUL character
        return False


def _first_line(blocks: Iterator[tuple[int, list[str]]], shown: str) -> tuple[int, list[str], str]:
    """Number of the first line that is not blank, the lines of its block from there on, and the line."""
    for number, lines in blocks:
        for offset, line in enumerate(lines):
            if line.strip():
                return number + offset, lines[offset:], line.strip()
    raise TraceError("the trace is empty", file=shown)


def _lines(number: int, lines: list[str], blocks: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, str]]:
    yield from enumerate(lines, number)
    for start, more in blocks:
        yield from enumerate(more, start)


def _parsed(lines: Iterator[tuple[int, str]], parse: RowParser, *, check: bool) -> Iterator[Item]:
    """The row of each line, or what is wrong with it; blank lines are none."""
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        try:
            if check:
                check_text(text)
            row = parse(text)
        except RowError as error:
            yield number, error
        else:
            yield number, row
