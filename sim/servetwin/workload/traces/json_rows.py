"""Trace files that are JSON lines: an object a line, and values of the right kind in it."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from typing import Any, NoReturn

from servetwin.units import PS_PER_S
from servetwin.workload.base import MAX_TOKENS
from servetwin.workload.traces.format import (
    COUNT_ALLOWED,
    MAX_BLOCK_ID,
    MAX_TIME_S,
    TIME_UNITS,
    Row,
    RowError,
    RowParser,
)

Object = dict[str, Any]


class JsonLinesFormat(ABC):
    """Base of the formats that are JSON lines.

    Attributes:
        keys: the keys that every row has; others may be missing.
    """

    name: str
    description: str
    layout: str
    block_tokens: int
    keys: tuple[str, ...]

    @abstractmethod
    def recognises(self, line: str) -> bool:
        """Whether a file whose first line this is looks like this format, however broken its values."""

    def parser(self, line: str) -> tuple[RowParser, bool]:
        """The row parser; there is no header."""
        if not line.lstrip().startswith("{"):
            raise RowError("the first line is no JSON object", line, self.layout)
        return self._parse, False

    def _parse(self, line: str) -> Row:
        row = parse_object(line, self.layout)
        require(row, self.keys, line, self.layout)
        return self.row(row)

    @abstractmethod
    def row(self, row: Object) -> Row:
        """What an object says that has the keys.

        Raises:
            RowError: a value is wrong.
        """


def looks_like_object(line: str, *keys: str) -> bool:
    """Whether a line begins a JSON object and names all the keys, however broken it is."""
    text = line.lstrip()
    return text.startswith("{") and all(f'"{key}"' in text for key in keys)


def parse_object(line: str, layout: str) -> Object:
    """The JSON object in a line.

    Args:
        line: the line.
        layout: what a line of the format looks like, for messages.

    Raises:
        RowError: there is none.
    """
    try:
        row = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise RowError(f"the line is no JSON: {_reason(error)}", line, layout) from None
    if type(row) is not dict:
        raise RowError("the line is no JSON object", line, layout)
    return row


def _reason(error: ValueError | RecursionError) -> str:
    """What Python found, in words that do not speak of Python."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, at character {error.colno}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number has too many digits" if str(error).startswith("Exceeds the limit") else str(error)


def require(row: Object, keys: tuple[str, ...], line: str, layout: str) -> None:
    """Refuse a row that lacks a key.

    Raises:
        RowError: with the first key that is missing.
    """
    for key in keys:
        if key not in row:
            raise RowError(f"the row has no {key}", line, layout)


def count(row: Object, key: str) -> int:
    """A number of tokens.

    Raises:
        RowError: the value is none.
    """
    value = row[key]
    if type(value) is not int or not 1 <= value <= MAX_TOKENS:
        raise RowError(f"{key} is no number of tokens", value, COUNT_ALLOWED)
    return value


def count_or_length(row: Object, key: str) -> int:
    """A number of tokens, or the length of a list with an entry for each of them.

    Raises:
        RowError: the value is neither, or the list is empty.
    """
    value = row[key]
    if type(value) is list and 1 <= len(value) <= MAX_TOKENS:
        return len(value)
    return count(row, key)


def time_ps(row: Object, key: str, *, unit_ps: int) -> int:
    """A time [ps], given in units of ``unit_ps``, which is that of milliseconds or seconds [ps].

    Raises:
        RowError: the value is no time.
    """
    value = row[key]
    most = MAX_TIME_S * PS_PER_S / unit_ps
    if type(value) is int and 0 <= value <= most:
        return value * unit_ps
    if type(value) is float and math.isfinite(value) and 0 <= value <= most:
        return round(value * unit_ps)
    raise RowError(f"{key} is no time", value, f"{TIME_UNITS[unit_ps]} since the start, 0 or more")


def block_ids(row: Object, key: str, prompt_tokens: int, block_tokens: int) -> tuple[int, ...]:
    """The ids of the blocks of a prompt, one for each ``block_tokens`` tokens begun.

    Raises:
        RowError: the value is no list of ids, or their number does not fit the prompt.
    """
    ids = row[key]
    if type(ids) is not list or any(type(value) is not int or not 0 <= value <= MAX_BLOCK_ID for value in ids):
        raise RowError(f"{key} is no list of block ids", ids, "a list of whole numbers from 0 to 2**64 − 1")
    if len(ids) != -(-prompt_tokens // block_tokens):
        raise RowError(
            f"{key} has {len(ids)} entries for {prompt_tokens} tokens",
            ids,
            f"{-(-prompt_tokens // block_tokens)}, one for each {block_tokens} tokens, the last block partial",
        )
    return tuple(ids)


def integer(row: Object, key: str, low: int, high: int, default: int) -> int:
    """A whole number from ``low`` to ``high``; ``default`` where the key is missing or null.

    Raises:
        RowError: the value is no such number.
    """
    value = row.get(key)
    if value is None:
        return default
    if type(value) is not int or not low <= value <= high:
        raise RowError(f"{key} is out of range", value, f"a whole number from {low:,} to {high:,}")
    return value


def text(row: Object, key: str) -> str:
    """A text; empty where the key is missing or null.

    Raises:
        RowError: the value is something else.
    """
    value = row.get(key)
    if value is None:
        return ""
    if type(value) is not str:
        raise RowError(f"{key} is no text", value, "text")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
