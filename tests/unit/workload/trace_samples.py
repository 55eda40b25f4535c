"""A small trace of our own in every format, as files, and what it says."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2024-05-10 00:00:00.009930+00:00,374,44\r\n"
    "2024-05-10 00:00:02.509930+00:00,396,109\r\n"
    "2024-05-10 00:00:09+00:00,879,55\r\n"
)
MOONCAKE = [
    {"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 1024, "output_length": 6, "hash_ids": [0, 1]},
    {"timestamp": 6001.5, "input_length": 600, "output_length": 7, "hash_ids": [7, 1]},
]
BAILIAN: list[dict[str, Any]] = [
    {"chat_id": 10, "parent_chat_id": -1, "timestamp": 0.25, "input_length": 20, "output_length": 9, "type": "text",
     "turn": 1, "hash_ids": [5, 6]},
    {"chat_id": 11, "parent_chat_id": 10, "timestamp": 3.75, "input_length": 50, "output_length": 8, "type": "text",
     "turn": 2, "hash_ids": [5, 6, 7, 8]},
    {"chat_id": 12, "parent_chat_id": 3, "timestamp": 4, "input_length": 16, "output_length": 7, "type": "image",
     "turn": 4, "hash_ids": [9]},
    {"chat_id": 13, "parent_chat_id": 11, "timestamp": 9.5, "input_length": 70, "output_length": 6, "type": "text",
     "turn": 3, "hash_ids": [5, 6, 7, 8, 10]},
]  # fmt: skip
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45,ChatGPT,1087,0,1087,API log\n"
    "118.5,GPT-4,417,276,693,Conversation log\n"
)
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.314579,396.0,109\n4.541977,879,55\n"
SPLITWISE = (
    "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
    "0,2,0,1.5,1,374,44\n1,2,0,2.0,1,396,109\n2,2,0,12.25,1,879,55\n"
)
SERVEGEN = {
    "chunk-0-trace.csv": "0,0.5,1.5,Gamma,0.44,4.5\n60,0,0,,0,0\n120,1.0,0.8,Weibull,1.25,1.07\n",
    "chunk-0-dataset.json": json.dumps(
        {
            "0": {"input_tokens": "{10: 0.5, 20: 0.25, 40: 0.25}", "output_tokens": "{5: 1.0}", "reason_ratio": "{}"},
            "120": {"input_tokens": "{}", "output_tokens": "{}"},
        }
    ),
    "chunk-12-trace.csv": "0,0.25,1.0,,0,0\n60,0.25,2.5,Gamma,0.16,25\n120,0,0,,0,0\n",
    "chunk-12-dataset.json": json.dumps({"0": {"input_tokens": "{100: 1}", "output_tokens": "{7: 0.5, 9: 0.5}"}}),
}


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def own_table(**change: Any) -> bytes:
    """The columns of ``requests.parquet`` that the replay reads, and one that it does not."""
    columns: dict[str, Any] = {
        "request_id": pa.array([0, 1, 2], pa.int64()),
        "session_id": pa.array([4, None, 4], pa.int64()),
        "class": pa.array(["chat", "batch", "chat"], pa.string()),
        "arrival_s": pa.array([0.5, 7.0, 2.25], pa.float64()),
        "prompt_tokens": pa.array([374, 879, 396], pa.int64()),
        "output_tokens": pa.array([44, 55, 109], pa.int64()),
    }
    columns.update(change)
    stream = io.BytesIO()
    parquet.write_table(pa.table({name: column for name, column in columns.items() if column is not None}), stream)
    return stream.getvalue()


FILES: dict[str, bytes | dict[str, bytes]] = {
    "azure": AZURE.encode(),
    "mooncake": _lines(MOONCAKE),
    "bailian": _lines(BAILIAN),
    "burstgpt": BURSTGPT.encode(),
    "vidur": VIDUR.encode(),
    "splitwise": SPLITWISE.encode(),
    "servegen": {name: text.encode() for name, text in SERVEGEN.items()},
    "servetwin": own_table(),
}
"""A file, or the files of a folder, for each format."""

ROWS: dict[str, list[tuple[float, int, int]]] = {
    "azure": [(0, 374, 44), (2.5, 396, 109), (8.99007, 879, 55)],
    "mooncake": [(0, 1300, 5), (3, 1024, 6), (6.0015, 600, 7)],
    "bailian": [(0, 20, 9), (3.5, 50, 8), (3.75, 16, 7), (9.25, 70, 6)],
    "burstgpt": [(0, 472, 18), (113.5, 417, 276)],
    "vidur": [(0, 374, 44), (4.314579, 396, 109), (4.541977, 879, 55)],
    "splitwise": [(0, 374, 44), (0.5, 396, 109), (10.75, 879, 55)],
    "servetwin": [(0.5, 374, 44), (2.25, 396, 109), (7.0, 879, 55)],
}
"""Arrival [s], prompt and output tokens of what is replayed; ServeGen's folder lists no requests."""


def write(name: str, where: Path) -> Path:
    """The trace of a format as a file or folder called ``where``."""
    content = FILES[name]
    if isinstance(content, bytes):
        where.write_bytes(content)
    else:
        where.mkdir()
        for file, data in content.items():
            (where / file).write_bytes(data)
    return where
