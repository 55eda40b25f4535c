"""What is kept of a run to compare it with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from servetwin.request import COMPLETED
from servetwin.results.exact import Floats, Ints
from servetwin.results.result import Result
from servetwin.results.summary import HOST_KEYS
from servetwin.units import PS_PER_MS

IN_USE = "gpu_seconds_in_use"
"""GPU time that is neither idle nor down [s]."""

NOT_IN_USE = ("idle", "down")

_COLUMNS = (
    "id", "arrival_ps", "queued_ps", "scheduled_ps", "first_token_ps", "last_token_ps", "prompt_tokens",
    "output_tokens",
)  # fmt: skip
_NO_METRIC = ("seed", "energy_method", "acceptance_rate_per_position", *HOST_KEYS)


@dataclass(frozen=True, slots=True)
class Measured:
    """A run, by what it is compared.

    Attributes:
        name: the variant.
        seed: of its random streams.
        config_hash: hash of the resolved scenario.
        metrics: every number of its summary, and ``IN_USE``; None where undefined.
        ledger: GPU time by bucket [s].
        columns: of its requests: ``id``, tokens and stamps [ps].
        counted: which requests the latency metrics count.
        warnings: what a reader must know before trusting it.
    """

    name: str
    seed: int
    config_hash: str
    metrics: dict[str, float | None]
    ledger: dict[str, float]
    columns: dict[str, Ints]
    counted: np.ndarray[Any, np.dtype[np.bool_]]
    warnings: tuple[str, ...]

    def latencies(self, metric: str) -> Floats:
        """A latency of each request, in order of their ids [ms]; nan where it has none that counts."""
        values, has = _LATENCIES[metric](self.columns)
        found = np.full(len(has), np.nan)
        has = has & self.counted
        found[has] = values[has]
        return found


_Latency = Callable[[dict[str, Ints]], tuple[Floats, "np.ndarray[Any, np.dtype[np.bool_]]"]]


def _between(begin: str, end: str) -> _Latency:
    def latency(columns: dict[str, Ints]) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
        return (columns[end] - columns[begin]) / PS_PER_MS, np.ones(len(columns["id"]), bool)

    return latency


def _per_token(begin: str, fewest: int) -> _Latency:
    """Time from a stamp to the last token, for each output token but those before."""

    def latency(columns: dict[str, Ints]) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
        tokens = columns["output_tokens"] - (fewest - 1)
        spent = (columns["last_token_ps"] - columns[begin]) / PS_PER_MS
        return spent / np.maximum(tokens, 1), tokens > 0

    return latency


_LATENCIES: dict[str, _Latency] = {
    "ttft_ms.mean": _between("arrival_ps", "first_token_ps"),
    "tpot_ms.mean": _per_token("first_token_ps", 2),
    "e2e_ms.mean": _between("arrival_ps", "last_token_ps"),
    "normalised_latency_ms.mean": _per_token("arrival_ps", 1),
    "queue_ms.mean": _between("queued_ps", "scheduled_ps"),
}

PAIRED = tuple(_LATENCIES)
"""Metrics that are means over requests, so that two runs can be compared request by request."""


def measure(name: str, result: Result) -> Measured:
    """What is kept of the run of a variant."""
    summary = result.summary()
    ledger = result.ledger()["total"]["seconds"]
    metrics = {
        key: value
        for key, value in summary.items()
        if key not in _NO_METRIC and not isinstance(value, (bool, str, list, dict))
    }
    metrics[IN_USE] = sum(spent for bucket, spent in ledger.items() if bucket not in NOT_IN_USE)
    table = result.table
    return Measured(
        name=name,
        seed=result.meta.seed,
        config_hash=result.meta.config_hash,
        metrics=metrics,
        ledger=ledger,
        columns={column: table.column(column) for column in _COLUMNS},
        counted=table.with_outcome(COMPLETED) & table.measured(result.meta.warmup_requests),
        warnings=tuple(summary["warnings"]),
    )
