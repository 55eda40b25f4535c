"""Runs of a cheap engine: one server with a fixed time per prompt token and per output token, Poisson arrivals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from servetwin.results.percentiles import statistics

REQUESTS = 300
LOAD = 0.7
_PROMPT_TOKENS, _OUTPUT_TOKENS = 500.0, 100.0
_TOKEN_MS = 0.05
"""Of a prompt token [ms]."""


def run(seed: int, slowdown: float = 1.0) -> dict[str, float | None]:
    """The metrics of a run, a few dozen as a summary has; the seed decides the requests, the slowdown their times."""
    generator = np.random.default_rng(seed)
    gaps = generator.exponential(_PROMPT_TOKENS * _TOKEN_MS / LOAD, REQUESTS)
    prompts = generator.lognormal(np.log(_PROMPT_TOKENS) - 0.5, 1.0, REQUESTS)
    outputs = generator.lognormal(np.log(_OUTPUT_TOKENS) - 0.5, 1.0, REQUESTS)
    arrivals = np.cumsum(gaps)
    service = prompts * _TOKEN_MS * slowdown
    # Lindley's recursion, without a loop: the wait is how far the work that has come is above its least so far.
    work = np.cumsum(service[:-1] - gaps[1:])
    wait = np.concatenate(([0.0], work - np.minimum.accumulate(np.minimum(work, 0.0))))
    # As in an engine, tokens take longer while others are waiting.
    tpot = (8.0 + 0.02 * wait) * slowdown
    ttft = wait + service
    e2e = ttft + tpot * outputs
    seconds = float((arrivals + e2e).max() - arrivals[0]) / 1000
    latencies = {"ttft_ms": ttft, "queue_ms": wait, "tpot_ms": tpot, "e2e_ms": e2e, "itl_ms": tpot}
    latencies["normalised_latency_ms"] = e2e / outputs
    return {
        "completed": REQUESTS,
        **{key: value for name, values in latencies.items() for key, value in statistics(name, values).items()},
        "duration_s": seconds,
        "request_throughput_per_s": REQUESTS / seconds,
        "input_throughput_tokens_per_s": float(prompts.sum()) / seconds,
        "output_throughput_tokens_per_s": float(outputs.sum()) / seconds,
        "total_throughput_tokens_per_s": float((prompts + outputs).sum()) / seconds,
        "steady.output_throughput_tokens_per_s": float(outputs.sum()) / float(arrivals[-1] - arrivals[0]) * 1000,
        "goodput_per_s": int((ttft < 200).sum()) / seconds,
        "slo_attainment": float((ttft < 200).mean()),
        "gpu_seconds": seconds,
        "kv_use_mean": float((e2e * (prompts + outputs)).sum()) / seconds,
    }


def runs(seeds: range, slowdown: float = 1.0) -> dict[str, dict[int, float | None]]:
    """The metrics of some runs: by key, the value by seed."""
    return by_metric({seed: run(seed, slowdown) for seed in seeds})


def by_metric(metrics: Mapping[int, Mapping[str, float | None]]) -> dict[str, dict[int, float | None]]:
    """The same, from the metrics by seed."""
    return {key: {seed: metrics[seed][key] for seed in metrics} for key in next(iter(metrics.values()))}
