"""The columns of a sweep's table: the keys of ``summary.json`` and what each of them holds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from servetwin.results.hand_over_summary import GAP_KEYS, TRANSFER_KEY, TTFT_KEYS
from servetwin.results.percentiles import STATISTICS
from servetwin.results.summary import HOST_KEYS

Kind = Literal["text", "whole", "number", "truth", "json"]
"""What a column holds; ``json`` is the text of what is neither a number nor a text."""

_LARGEST = 2**63


def _rates(prefix: str) -> list[str]:
    return [f"{prefix}{what}_per_s" for what in (
        "request_throughput", "input_throughput_tokens", "output_throughput_tokens", "total_throughput_tokens"
    )]  # fmt: skip


_LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "normalised_latency_ms", "queue_ms")
_GROUPS: tuple[tuple[Kind, list[str]], ...] = (
    ("text", ["name", "model", "engine", "engine_version", "version"]),
    ("whole", ["seed"]),
    ("text", ["config_hash"]),
    ("whole", ["gpus", "replicas"]),
    ("number", ["simulated_s"]),
    ("truth", ["interrupted"]),
    ("whole", ["events", "steps", "requests", "completed", "rejected", "failed", "cancelled", "unfinished"]),
    ("json", ["rejected_reasons", "unfinished_requests"]),
    ("whole", ["warmup_requests", "latency_requests"]),
    ("number", [f"{metric}.{statistic}" for metric in _LATENCIES for statistic in STATISTICS]),
    ("number", ["duration_s"]),
    ("whole", ["input_tokens", "output_tokens"]),
    ("number", [*_rates(""), "steady.duration_s", *_rates("steady.")]),
    ("number", [f"{what}_tokens_per_s_per_{whom}"
                for what, whom in (("output", "gpu"), ("total", "gpu"), ("output", "user"))]),
    ("number", ["goodput_per_s", "slo_attainment"]),
    ("whole", ["preemptions", "preempted_requests", "recomputed_tokens", "prefix_hit_tokens"]),
    ("number", ["prefix_hit_rate", "trace_block_hit_rate_infinite"]),
    ("whole", [f"spec_decode_num_{what}"
               for what in ("drafts", "draft_tokens", "accepted_tokens", "rejected_tokens", "bonus_tokens")]),
    ("number", ["mean_acceptance_length", "draft_acceptance_rate"]),
    ("json", ["acceptance_rate_per_position"]),
    ("number", ["draft_gpu_seconds", "wasted_verify_gpu_seconds"]),
    ("whole", ["split_requests"]),
    ("number", [f"{metric}.{statistic}" for metric in (*TTFT_KEYS, *GAP_KEYS, TRANSFER_KEY)
                for statistic in STATISTICS]),
    ("whole", ["transfers", "failed_transfers", "lost_hand_overs", "transfer_bytes"]),
    ("number", ["transfer_exposed_s", "transfer_hidden_s", "transfer_bytes_per_s", "transfer_alone_bytes_per_s"]),
    ("number", ["kv_use_mean", "kv_use_max", "utilisation", "compute_bound_share", "memory_bound_share", "gpu_seconds",
                "cost_usd", "cost_per_million_output_tokens", "energy_j", "energy_per_output_token_j"]),
    ("text", ["energy_method"]),
    ("number", ["kv_stranded_prefill", "kv_stranded_decode", "kv_stranded_prefill_token_s",
                "kv_stranded_decode_token_s", "advised_pd_ratio"]),
    ("whole", ["advised_prefill_replicas", "advised_decode_replicas"]),
    ("json", ["pools", "links", "slo", "classes", "warnings"]),
    ("number", ["wall_s", "cpu_s"]),
    ("text", ["started_at", "out"]),
)  # fmt: skip

SUMMARY: dict[str, Kind] = {key: kind for kind, keys in _GROUPS for key in keys}
"""Every key of a summary in its order, and what it holds."""

METRICS = tuple(key for key, kind in SUMMARY.items() if kind in ("whole", "number") and key not in (*HOST_KEYS, "seed"))
"""The keys that hold a figure of the simulated cluster."""


def kind_of(values: Iterable[Any]) -> Kind:
    """What a column of a swept field holds.

    >>> kind_of([1, 2.5]), kind_of([1, None]), kind_of([True]), kind_of(["a"]), kind_of(["a", 1])
    ('number', 'whole', 'truth', 'text', 'json')
    """
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return "truth"
    if types == {int}:
        return "whole"
    if types and types <= {int, float}:
        return "number"
    return "text" if types == {str} else "json"


def cell(value: Any, kind: Kind) -> Any:
    """A value as its column holds it."""
    if value is None:
        return None
    if kind == "json":
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    if kind == "number":
        return float(value)
    return value
