"""Writes the bundled example traces, ``workloads/traces/*``; see ``workloads/PROVENANCE.md``."""

from __future__ import annotations

import json
import math
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[3] / "workloads" / "traces"
BLOCK = 512


def lognormal(rng: random.Random, mean: float, cv: float, low: int, high: int) -> int:
    variance = math.log1p(cv * cv)
    value = math.exp(math.log(mean) - variance / 2 + math.sqrt(variance) * rng.gauss(0, 1))
    return min(max(round(value), low), high)


def azure(seed: int = 7, seconds: float = 300, rate: float = 2) -> bytes:
    rng = random.Random(seed)
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    start = datetime(2026, 1, 5, 9, 0, 0)
    now = rng.expovariate(rate)
    while now < seconds:
        ticks = round(now * 10_000_000)
        stamp = start + timedelta(seconds=ticks // 10_000_000)
        prompt, output = lognormal(rng, 1000, 1, 10, 8000), lognormal(rng, 210, 0.8, 5, 1000)
        lines.append(f"{stamp:%Y-%m-%d %H:%M:%S}.{ticks % 10_000_000:07d},{prompt},{output}")
        now += rng.expovariate(rate)
    return "\r\n".join(lines).encode()


def mooncake(seed: int = 11, seconds: float = 600, rate: float = 0.25) -> bytes:
    rng = random.Random(seed)
    systems = [("system", 0, 1200), ("system", 1, 2500), ("system", 2, 700)]
    rows = []
    start, session = rng.expovariate(rate), 0
    while start < seconds:
        kind = systems[min(int(rng.expovariate(1)), 2)]
        now, length = start, kind[2]
        for turn in range(rng.randint(1, 6)):
            length += lognormal(rng, 600 if turn == 0 else 150, 1, 4, 6000)
            output = lognormal(rng, 250, 0.8, 5, 1500)
            # A block inside the system prompt is everybody's; a full block of the history is the session's; what lies
            # in the unfilled last block is this turn's alone.
            blocks = [
                (*kind[:2], index) if (index + 1) * BLOCK <= kind[2]
                else (session, index) if (index + 1) * BLOCK <= length
                else (session, index, turn)
                for index in range(-(-length // BLOCK))
            ]  # fmt: skip
            rows.append((round(now * 1000), session, turn, length, output, blocks))
            now += output * 0.02 + rng.expovariate(1 / 20)
            length += output
        start += rng.expovariate(rate)
        session += 1
    ids: dict[tuple[object, ...], int] = {}
    lines = [
        json.dumps(
            {
                "timestamp": time,
                "input_length": length,
                "output_length": output,
                "hash_ids": [ids.setdefault(block, len(ids)) for block in blocks],
            }
        )
        for time, _, _, length, output, blocks in sorted(rows)
    ]
    return ("\n".join(lines) + "\n").encode()


def bailian(seed: int = 13, seconds: float = 600, rate: float = 0.1) -> bytes:
    rng = random.Random(seed)
    chats: list[dict[str, Any]] = []
    start = rng.expovariate(rate)
    numbers = iter(range(1_000_000))
    while start < seconds:
        now, parent, length = start, -1, 0
        kind = rng.choices(("text", "search", "image", "file"), (80, 12, 5, 3))[0]
        blocks: list[int] = []
        for turn in range(1, rng.randint(1, 4) + 1):
            length += lognormal(rng, 120, 1, 4, 900)
            output = lognormal(rng, 100, 0.8, 5, 400)
            # What fills its block is the conversation's from then on; the last block is this turn's alone.
            blocks += [next(numbers) for _ in range(length // 16 - len(blocks))]
            chat = len(chats) + 1000
            ids = [*blocks, *([next(numbers)] if length % 16 else [])]
            chats.append(
                {
                    "chat_id": chat,
                    "parent_chat_id": parent,
                    "timestamp": round(now, 3),
                    "input_length": length,
                    "output_length": output,
                    "type": kind,
                    "turn": turn,
                    "hash_ids": ids,
                }
            )
            parent = chat
            now += output * 0.02 + rng.expovariate(1 / 30)
            length += output
        start += rng.expovariate(rate)
    chats.sort(key=lambda chat: float(chat["timestamp"]))
    return "".join(json.dumps(chat) + "\n" for chat in chats).encode()


def burstgpt(seed: int = 17, seconds: float = 600) -> bytes:
    rng = random.Random(seed)
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    now = 0.0
    while now < seconds:
        # Bursts: a quiet minute is followed by a busy one.
        now += rng.expovariate(2.0 if int(now / 60) % 2 else 0.2)
        model, log = rng.choice(("ChatGPT", "ChatGPT", "GPT-4")), rng.choice(("Conversation log", "API log"))
        prompt, output = lognormal(rng, 600, 1, 5, 4000), lognormal(rng, 150, 1, 1, 1000) * (rng.random() > 0.02)
        lines.append(f"{int(now)},{model},{prompt},{output},{prompt + output},{log}")
    return ("\n".join(lines) + "\n").encode()


SERVEGEN_WINDOWS = {
    "chunk-0": "0,0.5,0.95,Gamma,1.108,1.805\n600,0.9,1.1,Gamma,0.826,1.345\n1200,0.6,1.0,Weibull,1.0,1.667\n",
    "chunk-1": "0,0,0,,0,0\n600,0.25,3.5,Gamma,0.0816,49.0\n1200,0.1,2.0,Weibull,0.543,5.75\n",
}
"""A steady client, and one that comes late and in bursts."""


def servegen_lengths(prompt: float, output: float, seed: int) -> bytes:
    rng = random.Random(seed)

    def shares(mean: float) -> str:
        values = sorted({lognormal(rng, mean, 1, 4, 8000) for _ in range(40)})
        return "{" + ", ".join(f"{value}: {1 / len(values):.6f}" for value in values) + "}"

    return json.dumps({"0": {"input_tokens": shares(prompt), "output_tokens": shares(output)}}, indent=2).encode()


FILES = {
    "azure_example.csv": azure,
    "mooncake_example.jsonl": mooncake,
    "bailian_example.jsonl": bailian,
    "burstgpt_example.csv": burstgpt,
    "servegen_example/chunk-0-trace.csv": lambda: SERVEGEN_WINDOWS["chunk-0"].encode(),
    "servegen_example/chunk-0-dataset.json": lambda: servegen_lengths(700, 250, 19),
    "servegen_example/chunk-1-trace.csv": lambda: SERVEGEN_WINDOWS["chunk-1"].encode(),
    "servegen_example/chunk-1-dataset.json": lambda: servegen_lengths(2000, 80, 23),
}

if __name__ == "__main__":
    for name, make in FILES.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_bytes(make())
