"""Writes the bundled example traces, ``workloads/traces/*``; see ``workloads/PROVENANCE.md``."""

from __future__ import annotations

import json
import math
import random
from datetime import datetime, timedelta
from pathlib import Path

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


FILES = {"azure_example.csv": azure, "mooncake_example.jsonl": mooncake}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, make in FILES.items():
        (FOLDER / name).write_bytes(make())
