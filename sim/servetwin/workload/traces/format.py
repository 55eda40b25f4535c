"""The seam between trace files and the workload: what a row is, and what a format has to offer.

A new format is one module with a class like those of ``azure`` and ``mooncake``, and one line in ``registry``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from servetwin.workload.base import MAX_TOKENS


class Row(NamedTuple):
    """One request of a trace.

    Attributes:
        time_ps: when it arrived [ps], on the trace's own clock.
        prompt_tokens: tokens of its prompt, at least 1.
        output_tokens: tokens of its answer, at least 1.
        blocks: an id for each block of the prompt, the last of which may be partial. Prompts share a prefix
            as far as their ids agree from the first one on. Empty where the trace does not know.
    """

    time_ps: int
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


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


def as_count(text: str) -> int | None:
    """The whole number from 1 to ``MAX_TOKENS`` that ``text`` spells in plain digits, else None."""
    if len(text) > 12 or not (text.isascii() and text.isdigit()):
        return None
    value = int(text)
    return value if 1 <= value <= MAX_TOKENS else None


COUNT_ALLOWED = f"a whole number from 1 to {MAX_TOKENS:,} (a request without tokens cannot be served)"
