"""What the pictures draw, taken from a result in memory or from one that was read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from servetwin.request import COMPLETED
from servetwin.results import Result, StoredResult
from servetwin.results.exact import Floats
from servetwin.results.requests import Latencies
from servetwin.units import PS_PER_S

AnyResult = Result | StoredResult


class LatencyData(NamedTuple):
    """Samples [ms] by metric, and the distribution of inter-token gaps: ``(gaps [ms], share up to them)``."""

    samples: Mapping[str, Floats]
    gaps: tuple[Floats, Floats] | None


class TimelineData(NamedTuple):
    """The time series: ``(replicas, intervals)`` per column, and the edges of the intervals [s]."""

    edges_s: Floats
    columns: Mapping[str, Floats]


TIMELINE_COLUMNS = ("running", "waiting", "kv_use", "prefill_tokens", "output_tokens", "utilisation",
                    "compute_bound", "arrivals", "completed")  # fmt: skip


def latency_data(result: AnyResult) -> LatencyData:
    """The latencies of the completed, measured requests."""
    if isinstance(result, Result):
        warmup = result.meta.warmup_requests
        times = Latencies(result.table, warmup)
        gaps = result.segments.gaps(result.table.measured_from_ps(warmup))
        samples = {"ttft_ms": times.ttft_ms(), "tpot_ms": times.tpot_ms(), "e2e_ms": times.e2e_ms()}
        return LatencyData(samples, gaps.distribution())
    frame = result.requests()
    warmup = int(result.summary()["warmup_requests"])
    late = frame["arrival_s"].rank(method="first") > warmup
    chosen = frame[late & (frame["outcome"] == COMPLETED)]
    return LatencyData(
        {name: chosen[name].dropna().to_numpy(np.float64) for name in ("ttft_ms", "tpot_ms", "e2e_ms")}, None
    )


COUNTS = ("arrivals", "completed", "prefill_tokens", "output_tokens", "drafted_tokens", "accepted_tokens")
"""Columns that add up where intervals are joined; the others are averages."""


def timeline_data(result: AnyResult, names: Sequence[str] = TIMELINE_COLUMNS) -> TimelineData:
    """The load over time.

    Args:
        result: the run.
        names: the columns, as in ``timeseries.parquet``.
    """
    if isinstance(result, Result):
        series, owners = result.series, result.meta.pool_of()
        each = [
            series.replica_columns(replica, result.meta.pools[owners[replica]].kv_capacity_tokens)
            for replica in range(series.replicas)
        ]
        starts = each[0]["start_ps"] / PS_PER_S
        edges = np.append(starts, each[0]["end_ps"][-1] / PS_PER_S)
        return TimelineData(edges, {name: np.array([one[name] for one in each], np.float64) for name in names})
    frame: Any = result.timeseries()
    replicas = frame["replica"].nunique()
    columns = {name: frame[name].to_numpy(np.float64).reshape(replicas, -1) for name in names}
    intervals = len(frame) // replicas
    edges = np.append(frame["start_s"].to_numpy()[:intervals], frame["end_s"].to_numpy()[intervals - 1])
    return TimelineData(edges, columns)


def coarser(data: TimelineData, most: int) -> TimelineData:
    """The same with at most ``most`` intervals: rates and counts stay exact, for whole intervals are joined."""
    intervals = len(data.edges_s) - 1
    together = -(-intervals // most)
    if together <= 1:
        return data
    starts = np.arange(0, intervals, together)
    edges = np.append(data.edges_s[starts], data.edges_s[-1])
    width = np.diff(data.edges_s)
    columns = {}
    for name, values in data.columns.items():
        if name in COUNTS:
            columns[name] = np.add.reduceat(values, starts, axis=1)
        else:
            # Averages weigh by time; the bound of an interval without a step weighs nothing.
            known = ~np.isnan(values)
            weights = width * known
            total = np.add.reduceat(np.where(known, values, 0) * weights, starts, axis=1)
            summed = np.add.reduceat(weights, starts, axis=1)
            columns[name] = np.where(summed > 0, total / np.where(summed > 0, summed, 1), np.nan)
    return TimelineData(edges, columns)


def title(summary: Mapping[str, Any]) -> str:
    """What was simulated, in one line."""
    gpus = summary["gpus"]
    model = f" · {summary['model']}" if summary.get("model") else ""
    return f"{summary['name']}{model} · {gpus:,} GPU{'s' if gpus != 1 else ''}"
