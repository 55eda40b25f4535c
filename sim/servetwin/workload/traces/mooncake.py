"""Mooncake traces (FAST'25 release): JSON lines with the ids of prefix-cache blocks.

``{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, …]}``: milliseconds since the
start, tokens, and one id for each 512 tokens of the prompt, the last block being partial. Other keys are ignored.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from servetwin.units import PS_PER_MS, ms_to_ps
from servetwin.workload.base import MAX_TOKENS
from servetwin.workload.traces.format import COUNT_ALLOWED, Row, RowError, RowParser

KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
BLOCK_TOKENS = 512
MAX_MS = 1e15
"""30,000 years: no time stamp beyond this is believed."""


class MooncakeFormat:
    """Mooncake traces."""

    name = "mooncake"
    description = "Mooncake trace (JSON lines: arrival time, prompt and output tokens, ids of 512-token blocks)"
    layout = 'JSON lines such as {"timestamp": 0, "input_length": 700, "output_length": 52, "hash_ids": [0, 1]}'
    block_tokens = BLOCK_TOKENS

    def recognises(self, line: str) -> bool:
        """Whether the line is a JSON object with Mooncake's own keys, however broken their values."""
        text = line.lstrip()
        return text.startswith("{") and '"timestamp"' in text and '"input_length"' in text

    def parser(self, line: str) -> tuple[RowParser, bool]:
        """The row parser; there is no header."""
        if not line.lstrip().startswith("{"):
            raise RowError("the first line is no JSON object", line, self.layout)
        return _parse, False


def _parse(line: str) -> Row:
    try:
        row = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise RowError(f"the line is no JSON: {error}", line, MooncakeFormat.layout) from None
    if type(row) is not dict:
        raise RowError("the line is no JSON object", line, MooncakeFormat.layout)
    for key in KEYS:
        if key not in row:
            raise RowError(f"the row has no {key}", line, MooncakeFormat.layout)
    prompt, output, ids = row["input_length"], row["output_length"], row["hash_ids"]
    if type(prompt) is not int or not 1 <= prompt <= MAX_TOKENS:
        raise RowError("input_length is no number of tokens", prompt, COUNT_ALLOWED)
    if type(output) is not int or not 1 <= output <= MAX_TOKENS:
        raise RowError("output_length is no number of tokens", output, COUNT_ALLOWED)
    if type(ids) is not list or any(type(value) is not int or value < 0 for value in ids):
        raise RowError("hash_ids is no list of block ids", ids, "a list of whole numbers, 0 or more")
    if len(ids) != -(-prompt // BLOCK_TOKENS):
        raise RowError(
            f"hash_ids has {len(ids)} entries for {prompt} tokens",
            ids,
            f"{-(-prompt // BLOCK_TOKENS)}, one for each {BLOCK_TOKENS} tokens, the last block partial",
        )
    return Row(_time_ps(row["timestamp"]), prompt, output, tuple(ids))


def _time_ps(value: Any) -> int:
    if type(value) is int and 0 <= value <= MAX_MS:
        return value * PS_PER_MS
    if type(value) is float and math.isfinite(value) and 0 <= value <= MAX_MS:
        return ms_to_ps(value)
    raise RowError("timestamp is no time", value, "milliseconds since the start, 0 or more")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
