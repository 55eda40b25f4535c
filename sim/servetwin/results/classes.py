"""Each class of requests by itself: its latencies, and how many of its requests got what they were promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servetwin.request import COMPLETED, REJECTED
from servetwin.results import slo
from servetwin.results.exact import Bools, exact_sum
from servetwin.results.meta import RunMeta
from servetwin.results.percentiles import statistics
from servetwin.results.requests import Latencies, RequestTable


def by_class(table: RequestTable, meta: RunMeta, measured: Bools, seconds: float | None) -> dict[str, dict[str, Any]]:
    """What became of each class, by its name; empty where requests have no classes.

    A class is held to its own limits, and to ``slo.goodput`` of the scenario if it has none.

    Args:
        table: the requests.
        meta: the run.
        measured: which requests count for latencies and attainment.
        seconds: what rates are over [s]; None = nothing completed.
    """
    names = dict.fromkeys([*meta.class_slo, *sorted(set(table.names(0)))])
    everybody = slo.request_limits(meta.slo)
    return {
        name: _figures(table, table.of_class(name), meta, measured, seconds, meta.class_slo.get(name) or everybody)
        for name in names
        if name
    }


def _figures(
    table: RequestTable,
    members: Bools,
    meta: RunMeta,
    measured: Bools,
    seconds: float | None,
    limits_ms: Mapping[str, float],
) -> dict[str, Any]:
    times = Latencies(table, meta.warmup_requests, members)
    return {
        "requests": int(members.sum()),
        "completed": int((table.with_outcome(COMPLETED) & members).sum()),
        "rejected": int((table.with_outcome(REJECTED) & members).sum()),
        **statistics("ttft_ms", times.ttft_ms(), exact_sum(times.ttft_ps)),
        **statistics("tpot_ms", times.tpot_ms()),
        **statistics("e2e_ms", times.e2e_ms(), exact_sum(times.e2e_ps)),
        "limits_ms": dict(limits_ms),
        **slo.attainment(table, limits_ms, members, measured, seconds),
    }
