"""The seam between trace files and the workload: what a row is, and what a format has to offer.

A new text format is one module with a class like those of ``azure`` and ``mooncake``, and one line in ``registry``.
What is no text, or more than one file, is a ``FileFormat``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from servetwin.streams import Streams
from servetwin.units import PS_PER_MS, PS_PER_S
from servetwin.workload.base import MAX_TOKENS

MAX_TIME_S = 1e12
"""30,000 years [s]: no time stamp beyond this is believed."""

MAX_ID = (1 << 63) - 1
"""Sessions are 64-bit integers in the results."""

MAX_BLOCK_ID = (1 << 64) - 1
"""Ids of blocks are kept as unsigned 64-bit integers, as hashes are."""

MAX_TURN = 1_000_000
"""Most turns of a conversation that are believed; places count from 0, so the last one is at ``MAX_TURN`` − 1."""

NO_SESSION = -1


class Row(NamedTuple):
    """One request of a trace.

    Attributes:
        time_ps: when it arrived [ps], on the trace's own clock.
        prompt_tokens: tokens of its prompt, at least 1.
        output_tokens: tokens of its answer, at least 1.
        blocks: an id for each block of the prompt, the last of which may be partial. Prompts share a prefix
            as far as their ids agree from the first one on. Empty where the trace does not know.
        class_name: its kind, where the trace names kinds; empty = none.
        session: its conversation, −1 = none. Where the format has ``parent``, the request's own id instead.
        parent: the id of the request that it follows in its conversation, −1 = none.
        turn: its place in its conversation, 0 = the first or unknown.
    """

    time_ps: int
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    class_name: str = ""
    session: int = NO_SESSION
    parent: int = NO_SESSION
    turn: int = 0


class RowError(Exception):
    """A row that cannot be used.

    Args:
        message: what is wrong, in a few words.
        found: the offending value.
        allowed: what would be accepted.
    """

    def __init__(self, message: str, found: object, allowed: str) -> None:
        super().__init__(message)
        self.message = message
        self.found = found
        self.allowed = allowed


class FailedRow(RowError):
    """A row that is well formed and records a request that was never answered: counted and left out, never refused."""


RowParser = Callable[[str], Row]
"""Turns a line into a row, or raises ``RowError``."""


class TraceFormat(Protocol):
    """A kind of trace file: text, one request a line.

    Attributes:
        name: what ``format:`` calls it.
        description: one line for people.
        layout: what its lines look like, for messages.
        block_tokens: tokens of a block of ``Row.blocks``; 0 = the format has no blocks.
    """

    name: str
    description: str
    layout: str
    block_tokens: int

    def recognises(self, line: str) -> bool:
        """Whether a file whose first line this is looks like this format."""

    def parser(self, line: str) -> tuple[RowParser, bool]:
        """The parser for a file whose first line this is, and whether that line is a header (not a row).

        Raises:
            RowError: the first line rules the format out.
        """


class FileFormat(ABC):
    """A kind of trace that is a binary file or a folder. Its rows come in order of time, which starts at 0.

    Attributes:
        name: what ``format:`` calls it.
        description: one line for people.
        layout: what it looks like, for messages.
        block_tokens: as in ``TraceFormat``.
    """

    name: str
    description: str
    layout: str
    block_tokens: int = 0

    @abstractmethod
    def recognises_file(self, path: Path, head: bytes) -> bool:
        """Whether a file or folder is of this format.

        Args:
            path: where it is.
            head: its first bytes, decompressed; empty for a folder.
        """

    @abstractmethod
    def rows(self, path: Path, shown: str, streams: Streams) -> Iterator[tuple[str, Row | RowError]]:
        """The requests in order of time, each with its place in the file; those that cannot be used as errors.

        Args:
            path: where the file or folder is.
            shown: its name as the user gave it, for messages.
            streams: random streams, for formats that describe traffic instead of listing it.

        Raises:
            TraceError: nothing can be read.
        """


def as_count(text: str) -> int | None:
    """The whole number from 1 to ``MAX_TOKENS`` that ``text`` spells in plain digits, else None."""
    if len(text) > 12 or not (text.isascii() and text.isdigit()):
        return None
    value = int(text)
    return value if 1 <= value <= MAX_TOKENS else None


def as_whole(text: str) -> int | None:
    """As ``as_count``, but whole numbers may end in ``.0``, as data frames write them."""
    whole, point, fraction = text.partition(".")
    return as_count(whole) if not fraction.strip("0") and (fraction or not point) else None


def as_time_ps(text: str, unit_ps: int = PS_PER_S) -> int | None:
    """The time [ps] that ``text`` spells, to the picosecond where it is a plain decimal; None if it is no time.

    Args:
        text: a number from 0.
        unit_ps: its unit, a second or a millisecond [ps].
    """
    most = MAX_TIME_S * PS_PER_S / unit_ps
    match = _DECIMAL.fullmatch(text)
    if match is not None:
        whole, fraction = match.groups()
        if int(whole) > most:
            return None
        return int(whole) * unit_ps + (int(fraction.ljust(12, "0")) * unit_ps // PS_PER_S if fraction else 0)
    try:
        value = float(text) if len(text) <= 40 and "_" not in text else -1.0
    except ValueError:
        return None
    return round(value * unit_ps) if 0 <= value <= most else None


_DECIMAL = re.compile(r"(\d{1,16})(?:\.(\d{1,12})?)?", re.ASCII)

COUNT_ALLOWED = f"a whole number from 1 to {MAX_TOKENS:,} (a request without tokens cannot be served)"
SECONDS_ALLOWED = "seconds, 0 or more"
TIME_UNITS = {PS_PER_S: "seconds", PS_PER_MS: "milliseconds"}
"""The units of time stamps, by their length [ps]."""
