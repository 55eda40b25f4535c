"""What a reader of the results must know before trusting them, in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from servetwin.request import CANCELLED, FAILED, REJECTED, UNFINISHED
from servetwin.results.hand_overs import HandOverTable
from servetwin.results.requests import RequestTable

ENOUGH_FOR_P99 = 1_000
_SECTIONS = 8
_LEAST_RISES = 6
_KV_NEARLY_FULL = 0.95
_ENOUGH_TO_SETTLE = 100
_SETTLED = 0.85
_DOMINATES = 0.5


def alerts(
    summary: Mapping[str, Any], requests: RequestTable, hand_overs: HandOverTable, horizon_ps: int, interrupted: bool
) -> list[str]:
    """The warnings of a run.

    Args:
        summary: its summary.
        requests: its requests.
        hand_overs: how they got from replicas that prefill to replicas that decode.
        horizon_ps: when the run ended [ps].
        interrupted: whether the user stopped it.
    """
    found = []
    if interrupted:
        found.append(f"interrupted: the results cover the first {summary['simulated_s']:g} simulated seconds only")
    growth = queue_growth(requests, hand_overs, horizon_ps)
    if growth is not None:
        found.append(
            f"overloaded: the queue grew throughout, to {growth:,.0f} waiting requests at the last arrivals; "
            "latencies depend on how long the run is, and throughput is the cluster's capacity"
        )
    found += _outcomes(summary, requests)
    if summary["lost_hand_overs"]:
        found.append(
            f"{summary['lost_hand_overs']:,} of {summary['split_requests']:,} requests that were handed over had to do "
            "without the KV cache of their prefill: they failed, or the decoding replica computed it again"
        )
    found += _memory(summary)
    if growth is None:
        found += _unsettled(summary)
    if growth is None:
        found += _dominated(summary)
    measured = summary["latency_requests"]
    if 0 < measured < ENOUGH_FOR_P99:
        found.append(
            f"only {measured:,} completed requests count for the latencies: p99 rests on "
            f"{max(measured // 100, 1)} of them (1,000 or more are better)"
        )
    if measured == 0 and len(requests):
        found.append("no request completed after the warm-up: there are no latencies")
    return found


def queue_growth(requests: RequestTable, hand_overs: HandOverTable, horizon_ps: int) -> float | None:
    """How many requests wait at the last arrivals [mean over the last eighth], if the queue grew throughout.

    The time from the first to the last arrival is cut into eight; the queue grew throughout if its mean length rose in
    six of the seven steps and ended at ten requests or more, and at three per cent of all. Those that have been
    prefilled and wait for a decoding replica count as well.
    """
    if len(requests) < 2 * _SECTIONS:
        return None
    arrival, queued, scheduled = (requests.column(f"{name}_ps") for name in ("arrival", "queued", "scheduled"))
    entered = queued >= 0
    first, last = int(arrival.min()), int(arrival.max())
    if last - first < _SECTIONS:
        return None
    begin = queued[entered].astype(np.float64)
    end = np.where(scheduled[entered] < 0, max(horizon_ps, last), scheduled[entered]).astype(np.float64)
    moves = hand_overs.of(requests.column("id"))
    if moves.some:
        prefilled, decodes = requests.column("prefill_done_ps"), moves["scheduled_ps"]
        waits = (prefilled >= 0) & (moves["target"] >= 0)
        under_way = requests.with_outcome(UNFINISHED)
        over = np.where(under_way, max(horizon_ps, last), np.maximum(prefilled, moves["freed_ps"]))
        begin = np.append(begin, prefilled[waits].astype(np.float64))
        end = np.append(end, np.where(decodes < 0, over, decodes)[waits].astype(np.float64))
    edges = np.linspace(first, last, _SECTIONS + 1)
    means = [
        float(np.clip(np.minimum(end, high) - np.maximum(begin, low), 0, None).sum() / (high - low))
        for low, high in pairwise(edges)
    ]
    rises = sum(later > earlier for earlier, later in pairwise(means))
    if rises >= _LEAST_RISES and means[-1] >= max(10.0, 0.03 * len(requests)):
        return means[-1]
    return None


def _dominated(summary: Mapping[str, Any]) -> list[str]:
    """What more than half of the time to first token goes to, where it is no work."""
    ttft = summary["ttft_ms.mean"]
    waits = {
        "queueing": summary["queue_ms.mean"],
        "waiting for the decoding replicas": summary["ttft_decode_queue_ms.mean"],
        "waiting for KV cache to be transferred": summary["ttft_transfer_ms.mean"],
    }
    return [
        f"TTFT is dominated by {what}: {wait:,.0f} of {ttft:,.0f} ms on average"
        for what, wait in waits.items()
        if wait and wait > _DOMINATES * ttft
    ]


def _unsettled(summary: Mapping[str, Any]) -> list[str]:
    """Whether so much was still running at the last arrival that the run never became steady."""
    rate, seconds, expected = (
        summary[key] for key in ("steady.request_throughput_per_s", "steady.duration_s", "latency_requests")
    )
    if not rate or expected < _ENOUGH_TO_SETTLE or rate * seconds >= _SETTLED * expected:
        return []
    return [
        f"the run is short for its latencies: only {rate * seconds / expected:.0%} of the requests were completed "
        "before the last one arrived, so the load was still building up, perhaps beyond what the cluster can bear; "
        "an SLO that is met here may be missed with more requests"
    ]


def _outcomes(summary: Mapping[str, Any], requests: RequestTable) -> list[str]:
    found = []
    for outcome in (REJECTED, FAILED, CANCELLED, UNFINISHED):
        count = summary[outcome]
        if not count:
            continue
        reasons = [
            f"{reason} ({number:,})" if reason else f"no reason given ({number:,})"
            for reason, number in requests.reasons(outcome).items()
        ]
        why = "" if reasons == [f"no reason given ({count:,})"] else ": " + "; ".join(reasons[:3])
        if outcome == UNFINISHED:
            names = ", ".join(str(identity) for identity in summary["unfinished_requests"][:5])
            why = f" (ids {names}{', …' if count > 5 else ''})" + why
        found.append(f"{count:,} of {summary['requests']:,} requests were {outcome}{why}")
    return found


def _memory(summary: Mapping[str, Any]) -> list[str]:
    most, preemptions = summary["kv_use_max"], summary["preemptions"]
    if preemptions:
        again = summary["recomputed_tokens"]
        return [
            f"KV cache ran out: {summary['preempted_requests']:,} requests were preempted "
            f"({preemptions:,} times), {again:,} tokens were computed again"
        ]
    if most is not None and most >= _KV_NEARLY_FULL:
        return [f"KV cache was nearly full: up to {most:.0%} of its tokens in use"]
    return []
