"""Service-level objectives: limits on the run's percentiles, and on each request (goodput).

A scenario's ``slo`` is ``{metric: {statistic: limit [ms]}}`` and ``{"goodput": {metric: limit [ms]}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from servetwin.errors import ScenarioError, nearest_name
from servetwin.request import COMPLETED
from servetwin.results.exact import Bools
from servetwin.results.requests import RequestTable, tpot_ms
from servetwin.units import PS_PER_MS

GOODPUT = "goodput"
REQUEST_METRICS = ("ttft_ms", "tpot_ms", "e2e_ms")
"""What a single request can be held to."""


def limits(slo: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The limits on statistics of the run: ``{"ttft_ms.p99": 500, …}`` [ms]."""
    return {
        f"{metric}.{statistic}": float(limit)
        for metric, statistics in slo.items()
        if metric != GOODPUT
        for statistic, limit in statistics.items()
    }


def request_limits(slo: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The limits on each request: metric → limit [ms]; empty if goodput is not asked for."""
    chosen = dict(slo.get(GOODPUT, {}))
    for metric in chosen:
        if metric not in REQUEST_METRICS:
            raise ScenarioError(
                "goodput holds each request to a limit on a latency that a request has",
                path=f"slo.goodput.{metric}",
                found=metric,
                allowed=REQUEST_METRICS,
                nearest=nearest_name(metric, REQUEST_METRICS),
            )
    return {metric: float(limit) for metric, limit in chosen.items()}


def verdicts(summary: Mapping[str, Any], slo: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """Per limit, what was reached and whether it was met; None where the value is undefined.

    Raises:
        ScenarioError: if a limit names a statistic that the summary does not have.
    """
    found = {}
    for key, limit in limits(slo).items():
        if key not in summary:
            raise ScenarioError(
                "the limit names no metric of a run",
                path=f"slo.{key}",
                found=key,
                allowed="ttft_ms, tpot_ms, itl_ms, e2e_ms, … and then mean, p50, p90, p95, p99 or max",
                nearest=nearest_name(key, summary),
            )
        value = summary[key]
        found[key] = {"limit": limit, "value": value, "met": None if value is None else value <= limit}
    return found


def attainment(
    table: RequestTable, limits_ms: Mapping[str, float], members: Bools, measured: Bools, seconds: float | None
) -> dict[str, float | None]:
    """``goodput_per_s`` of some requests, a rate over all of them, and ``slo_attainment``, the good ones' share.

    Args:
        table: the requests.
        limits_ms: the limits that each is held to [ms]; empty = both are undefined.
        members: which requests it is about.
        measured: which of these count for the share: those after the warm-up.
        seconds: what the rate is over [s]; None = nothing completed.
    """
    if not limits_ms:
        return {"goodput_per_s": None, "slo_attainment": None}
    fine = good(table, limits_ms) & members
    counted = int((members & measured).sum())
    return {
        "goodput_per_s": int(fine.sum()) / seconds if seconds else None,
        "slo_attainment": int((fine & measured).sum()) / counted if counted else None,
    }


def good(table: RequestTable, limits_ms: Mapping[str, float]) -> Bools:
    """Which requests completed within all limits [ms]; a single token has no TPOT and so meets any."""
    ok = table.with_outcome(COMPLETED)
    first, last = table.column("first_token_ps"), table.column("last_token_ps")
    arrival = table.column("arrival_ps")
    if "ttft_ms" in limits_ms:
        ok &= (first - arrival) / PS_PER_MS <= limits_ms["ttft_ms"]
    if "e2e_ms" in limits_ms:
        ok &= (last - arrival) / PS_PER_MS <= limits_ms["e2e_ms"]
    if "tpot_ms" in limits_ms:
        output = table.column("output_tokens")
        # The only token of a request is its first and its last: nothing to divide, whatever by.
        ok &= tpot_ms(last - first, np.maximum(output, 2)) <= limits_ms["tpot_ms"]
    return ok
