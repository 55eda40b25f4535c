"""Accepted lengths that were recorded for real requests, replayed as they are."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from servetwin.acceptance.numbers import PER_COUNTER, Numbers
from servetwin.acceptance.runs import MOST_MATCHES
from servetwin.acceptance.spec import Recorded
from servetwin.errors import TraceError, nearest_name
from servetwin.paths import expanded, names_beside
from servetwin.request import Fate, Request
from servetwin.streams import Streams

_ROOM = (1 << 32) // PER_COUNTER
"""Counters that a request has."""

_GZIP_MAGIC = b"\x1f\x8b"
_LENGTHS = "whole numbers from 1: the tokens that a step beginning there yields"


class RecordedFates:
    """Replays recorded matches: request number i has line i of the file, from the first again where there are too few.

    Args:
        matches: the matches of every line, by position of its output.
        proposal: how often a match is found in the text where none of it would stand; None = drafts are made always.
        streams: the run's random streams, from which is drawn where such matches are.
        repeat: requests in a row that have the same line, and find the same matches.
    """

    def __init__(self, matches: list[bytes], proposal: float | None, streams: Streams, repeat: int = 1) -> None:
        self._matches = matches
        self._repeat = repeat
        self._proposal = proposal
        self._numbers = Numbers(streams)

    def of(self, request: Request) -> Fate:
        """The fate of drafts for ``request``: as many positions as it has output tokens."""
        tokens = request.output_tokens
        number = request.id // self._repeat
        line = self._matches[number % len(self._matches)]
        if len(line) < tokens:
            line = line * -(-tokens // len(line))
        matches = line[:tokens]
        if self._proposal is None:
            return Fate(matches)
        return Fate(matches, self._numbers.proposed(number * _ROOM, matches, self._proposal))


def read_matches(spec: Recorded, base: Path) -> list[bytes]:
    """The matches of every line of the file.

    Args:
        spec: which file, and which column of it.
        base: the folder that a relative path is meant from.

    Raises:
        TraceError: the file cannot be read, or a line has no such column or something else in it.
    """
    path = base / expanded(spec.recorded)
    matches = [_matches(line, number, spec) for number, line in _lines(path, spec.recorded) if line.strip()]
    if not matches:
        raise TraceError("the file is empty", file=spec.recorded, allowed="an object on each line")
    return matches


def _matches(line: str, number: int, spec: Recorded) -> bytes:
    place = f"line {number}"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise TraceError(
            "the line is no JSON", file=spec.recorded, path=place, found=line, allowed="an object on each line"
        ) from None
    if not isinstance(row, dict):
        raise TraceError("the line is no JSON object", file=spec.recorded, path=place, found=line)
    lengths = row.get(spec.column)
    if not isinstance(lengths, list):
        lists = [str(key) for key, value in row.items() if isinstance(value, list)]
        raise TraceError(
            f"the row has no list {spec.column}",
            file=spec.recorded,
            path=place,
            found=lengths,
            allowed=lists or "a row with lists",
            nearest=nearest_name(spec.column, lists),
        )
    if not lengths:
        raise TraceError(
            f"{spec.column} is empty", file=spec.recorded, path=place, allowed="an entry for each position"
        )
    for position, length in enumerate(lengths):
        if type(length) is not int or length < 1:
            raise TraceError(
                f"entry {position} of {spec.column} is no accepted length",
                file=spec.recorded,
                path=place,
                found=length,
                allowed=_LENGTHS,
            )
    return bytes([min(length - 1, MOST_MATCHES) for length in lengths])


def _lines(path: Path, shown: str) -> Iterator[tuple[int, str]]:
    """The lines of a file, plain or gzip, with their numbers."""
    try:
        with path.open("rb") as raw:
            stream: Any = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(_GZIP_MAGIC) else raw
            for number, line in enumerate(stream, 1):
                yield number, line.decode("utf-8")
    except FileNotFoundError:
        raise TraceError(
            "there is no such file", file=shown, nearest=nearest_name(path.name, names_beside(path))
        ) from None
    except IsADirectoryError:
        raise TraceError("this is a directory, not a file", file=shown) from None
    except UnicodeDecodeError:
        raise TraceError(
            "the file is not UTF-8 text", file=shown, path=f"line {number}", allowed="JSON lines, plain or gzip"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"the gzip file is damaged: {error}", file=shown) from None
    except (OSError, ValueError) as error:  # ValueError: a name that holds a NUL character
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"the file cannot be read: {reason}", file=shown) from None
