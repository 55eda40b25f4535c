"""How often better hardware makes a run slower, as scheduling anomalies do: the table of the page.

``python scripts/anomalies.py [--pairs N]``

No step and no transfer takes longer on better hardware (``tests/properties``). A whole run may: a step that ends
earlier misses an arrival that the later one took along, and everything behind it is batched otherwise (R. L. Graham,
"Bounds on Multiprocessing Timing Anomalies", SIAM J. Appl. Math. 17(2), 1969). Each pair is the same requests on a
cluster and on one that is better in one respect only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import servetwin
from servetwin.scenario.merge import deep_merge

PAIRS = 24
"""Pairs of each kind."""
_LATER_MS = 1e-6
"""A difference below a nanosecond is rounding."""

BETTER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "5 % more memory bandwidth": ({"stragglers": [{"hbm": 0.95}]}, {}),
    "5 % more arithmetic": ({"stragglers": [{"flops": 0.95}]}, {}),
    "twice the NVLink bandwidth": (
        {"parallel": {"tensor": 4}, "stragglers": [{"link": 0.5}]},
        {"parallel": {"tensor": 4}},
    ),
    "400 instead of 100 Gb/s between two servers": (
        {"parallel": {"tensor": 16}, "topology": {"nic": "ethernet-100"}},
        {"parallel": {"tensor": 16}, "topology": {"nic": "ib-ndr-400"}},
    ),
    "0.3 instead of 3 µs a switch, pipeline over two servers": (
        {"parallel": {"tensor": 8, "pipeline": 2}, "topology": {"hop_latency_us": 3.0}},
        {"parallel": {"tensor": 8, "pipeline": 2}, "topology": {}},
    ),
}  # fmt: skip
"""What is better → what the worse and the better cluster add to the scenario."""


@dataclass(frozen=True)
class Found:
    """What became of the pairs of one kind.

    Attributes:
        pairs: how many.
        longer: pairs whose mean E2E is longer on the better hardware.
        worst: the largest relative increase of a mean E2E; negative where there is none.
        gained: mean relative decrease of the mean E2E.
        later: share of all requests that end later on the better hardware.
    """

    pairs: int
    longer: int
    worst: float
    gained: float
    later: float


def scenarios(pairs: int) -> Iterator[dict[str, Any]]:
    """Loads from light to heavy, with room for all requests and with so little that some are preempted."""
    for seed in range(pairs):
        chance = np.random.default_rng(seed)
        engine = {
            "async_scheduling": bool(chance.integers(2)), "max_model_len": 4096,
            "num_gpu_blocks_override": int(chance.choice([600, 4000])),
            "max_num_batched_tokens": int(chance.choice([512, 2048])),
        }  # fmt: skip
        yield {
            "name": "anomalies", "model": "llama-3.1-8b",
            "cluster": {"hardware": "h100-sxm", "engine": engine},
            "workload": {
                "arrivals": {"process": "poisson", "rate_per_s": float(chance.choice([2, 8, 20, 40]))},
                "prompts": {"distribution": "uniform", "min": 50, "max": 2000},
                "outputs": {"distribution": "uniform", "min": 1, "max": 200},
            },
            "run": {"requests": 120, "seed": seed},
        }  # fmt: skip


def measure(kind: str, pairs: int = PAIRS) -> Found:
    """Run the pairs of a kind.

    Args:
        kind: one of ``BETTER``.
        pairs: how many.
    """
    worse, better = BETTER[kind]
    changes, later = [], []
    for base in scenarios(pairs):
        before, after = (
            servetwin.run(deep_merge(base, {"cluster": one})).requests()["e2e_ms"].to_numpy() for one in (worse, better)
        )
        changes.append(after.mean() / before.mean() - 1)
        later.append(np.mean(after > before + _LATER_MS))
    return Found(
        pairs, sum(change > 0 for change in changes), float(max(changes)), float(-np.mean(changes)),
        float(np.mean(later)),
    )  # fmt: skip


def table(pairs: int = PAIRS) -> str:
    """The table of the page."""
    rows = [
        "| better by | pairs | mean E2E longer | by at most | mean gain | requests that end later |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for kind in BETTER:
        found = measure(kind, pairs)
        worst = f"{found.worst:.2%}" if found.longer else "–"
        rows.append(f"| {kind} | {found.pairs} | {found.longer} | {worst} | {found.gained:.1%} | {found.later:.1%} |")
    return "\n".join(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=PAIRS)
    print(table(parser.parse_args().pairs))


if __name__ == "__main__":
    main()
