"""What is pinned: a few dozen numbers of each bundled scenario, and the event counts of the speed scenarios.

``python tests/golden/regenerate.py`` writes them anew after a change that is meant to change them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import servetwin
from servetwin.catalog.find import Catalog

FOLDER = Path(__file__).parent
EVENTS = FOLDER.parent / "bench" / "events.json"
REQUESTS = 500
SEED = 0

#: Counts, which hold to the last digit.
COUNTS = (
    "requests",
    "completed",
    "rejected",
    "unfinished",
    "steps",
    "input_tokens",
    "output_tokens",
    "prefix_hit_tokens",
    "preemptions",
    "recomputed_tokens",
)
#: Times, rates and shares.
FIGURES = (
    "simulated_s",
    "ttft_ms.mean",
    "ttft_ms.p50",
    "ttft_ms.p99",
    "tpot_ms.mean",
    "tpot_ms.p99",
    "itl_ms.mean",
    "itl_ms.p50",
    "itl_ms.p99",
    "itl_ms.max",
    "e2e_ms.mean",
    "e2e_ms.p99",
    "queue_ms.p99",
    "request_throughput_per_s",
    "output_throughput_tokens_per_s",
    "goodput_per_s",
    "slo_attainment",
    "kv_use_max",
    "utilisation",
    "cost_per_million_output_tokens",
)
BUCKETS = ("compute", "hbm", "exposed_communication", "host", "recompute", "idle")
#: Those that only some scenarios have.
RARE_BUCKETS = ("draft", "wasted_verify", "transfer_wait", "bubble", "down")

#: The scenarios of the standard speed workload.
BENCH = (
    "bench-8b", "bench-8b-4r", "bench-8b-64r", "bench-8b-256r", "bench-8b-long", "bench-8b-spec", "bench-8b-pd",
)  # fmt: skip
BENCH_REQUESTS = 3_000


def scenarios() -> list[str]:
    """Every bundled scenario."""
    return Catalog().names("scenarios")


def golden(name: str) -> dict[str, Any]:
    """The pinned numbers of one scenario, computed now."""
    result = servetwin.run(name, run__requests=REQUESTS, run__seed=SEED)
    summary, seconds = result.summary(), result.ledger()["total"]["seconds"]
    return {
        "scenario": name,
        "counts": {key: summary[key] for key in COUNTS},
        "figures": {key: summary[key] for key in FIGURES},
        "gpu_seconds": {bucket: seconds[bucket] for bucket in BUCKETS}
        | {bucket: seconds[bucket] for bucket in RARE_BUCKETS if seconds[bucket]},
    }


def events(name: str) -> dict[str, int]:
    """Events and steps of one speed scenario, computed now."""
    summary = servetwin.run(name, run__requests=BENCH_REQUESTS, run__seed=SEED).summary()
    return {"requests": summary["requests"], "events": summary["events"], "steps": summary["steps"]}


def stored(name: str) -> dict[str, Any]:
    """The pinned numbers of one scenario, as they were."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return document


def stored_events() -> dict[str, dict[str, int]]:
    """The pinned events of the speed scenarios, as they were."""
    document: dict[str, dict[str, int]] = json.loads(EVENTS.read_text(encoding="utf-8"))
    return document


def write(path: Path, document: dict[str, Any]) -> bool:
    """Write a document; returns whether that changed the file."""
    text = json.dumps(document, indent=2) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True
