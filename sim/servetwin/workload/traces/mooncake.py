"""Mooncake traces (FAST'25 release): JSON lines with the ids of prefix-cache blocks.

``{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, …]}``: milliseconds since the
start, tokens, and one id for each 512 tokens of the prompt, the last block being partial. Other keys are ignored.
"""

from __future__ import annotations

from servetwin.units import PS_PER_MS
from servetwin.workload.traces.format import Row, RowError, RowParser
from servetwin.workload.traces.json_rows import (
    block_ids,
    count,
    looks_like_object,
    parse_object,
    require,
    time_ps,
)

KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
BLOCK_TOKENS = 512


class MooncakeFormat:
    """Mooncake traces."""

    name = "mooncake"
    description = "Mooncake trace (JSON lines: arrival time, prompt and output tokens, ids of 512-token blocks)"
    layout = 'JSON lines such as {"timestamp": 0, "input_length": 700, "output_length": 52, "hash_ids": [0, 1]}'
    block_tokens = BLOCK_TOKENS

    def recognises(self, line: str) -> bool:
        """Whether the line is a JSON object with Mooncake's own keys, and no chat of Qwen-Bailian."""
        return looks_like_object(line, "timestamp", "input_length") and not looks_like_object(line, "parent_chat_id")

    def parser(self, line: str) -> tuple[RowParser, bool]:
        """The row parser; there is no header."""
        if not line.lstrip().startswith("{"):
            raise RowError("the first line is no JSON object", line, self.layout)
        return _parse, False


def _parse(line: str) -> Row:
    row = parse_object(line, MooncakeFormat.layout)
    require(row, KEYS, line, MooncakeFormat.layout)
    prompt, output = count(row, "input_length"), count(row, "output_length")
    ids = block_ids(row, "hash_ids", prompt, BLOCK_TOKENS)
    return Row(time_ps(row, "timestamp", unit_ps=PS_PER_MS), prompt, output, ids)
