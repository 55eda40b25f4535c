"""Qwen-Bailian usage traces (alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0; ATC'25): JSON lines.

``{"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 521, "output_length": 132,
"type": "text", "turn": 2, "hash_ids": [1089, …]}``: seconds since the start, tokens, the kind of request
(text, search, image, file), its place in the conversation (1 = the first), and one id for each 16 tokens of the prompt,
the last block being partial. The full files were not at hand: the keys are those of the upstream README, and that the
last block counts when it is partial is as in Mooncake's traces, which the README leaves open.

A chat whose parent came before belongs to its parent's session, which is called by the ``chat_id`` of its first
request; ``type`` becomes the request's class. The recorded arrivals stand: a turn does not wait for the simulated end
of the one before.
"""

from __future__ import annotations

from servetwin.units import PS_PER_S
from servetwin.workload.traces.format import MAX_ID, MAX_TURN, NO_SESSION, Row
from servetwin.workload.traces.json_rows import (
    JsonLinesFormat,
    Object,
    block_ids,
    count,
    integer,
    looks_like_object,
    text,
    time_ps,
)


class BailianFormat(JsonLinesFormat):
    """Qwen-Bailian usage traces."""

    name = "bailian"
    description = "Qwen-Bailian trace (JSON lines: arrival [s], tokens, conversations, ids of 16-token blocks)"
    layout = (
        'JSON lines such as {"chat_id": 7, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 20, '
        '"output_length": 9, "type": "text", "turn": 1, "hash_ids": [0, 1]}'
    )
    block_tokens = 16
    keys = ("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids")

    def recognises(self, line: str) -> bool:
        """Whether the line is a JSON object with the keys of a chat."""
        return looks_like_object(line, "timestamp", "input_length", "parent_chat_id")

    def row(self, row: Object) -> Row:
        """A request."""
        prompt, output = count(row, "input_length"), count(row, "output_length")
        return Row(
            time_ps(row, "timestamp", unit_ps=PS_PER_S),
            prompt,
            output,
            block_ids(row, "hash_ids", prompt, self.block_tokens),
            text(row, "type"),
            integer(row, "chat_id", 0, MAX_ID, NO_SESSION),
            integer(row, "parent_chat_id", NO_SESSION, MAX_ID, NO_SESSION),
            max(integer(row, "turn", 0, MAX_TURN, 1) - 1, 0),
        )
