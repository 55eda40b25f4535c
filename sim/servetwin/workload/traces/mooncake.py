"""Mooncake traces (FAST'25 release): JSON lines with the ids of prefix-cache blocks.

``{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, …]}``: milliseconds since the
start, tokens, and one id for each 512 tokens of the prompt, the last block being partial. Other keys are ignored.
"""

from __future__ import annotations

from servetwin.units import PS_PER_MS
from servetwin.workload.traces.format import Row
from servetwin.workload.traces.json_rows import (
    JsonLinesFormat,
    Object,
    block_ids,
    count,
    looks_like_object,
    time_ps,
)


class MooncakeFormat(JsonLinesFormat):
    """Mooncake traces."""

    name = "mooncake"
    description = "Mooncake trace (JSON lines: arrival time, prompt and output tokens, ids of 512-token blocks)"
    layout = 'JSON lines such as {"timestamp": 0, "input_length": 700, "output_length": 52, "hash_ids": [0, 1]}'
    block_tokens = 512
    keys = ("timestamp", "input_length", "output_length", "hash_ids")

    def recognises(self, line: str) -> bool:
        """Whether the line is a JSON object with Mooncake's own keys, and no chat of Qwen-Bailian."""
        return looks_like_object(line, "timestamp", "input_length") and not looks_like_object(line, "parent_chat_id")

    def row(self, row: Object) -> Row:
        """A request."""
        prompt, output = count(row, "input_length"), count(row, "output_length")
        ids = block_ids(row, "hash_ids", prompt, self.block_tokens)
        return Row(time_ps(row, "timestamp", unit_ps=PS_PER_MS), prompt, output, ids)
