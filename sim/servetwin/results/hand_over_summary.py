"""What handing requests over from prefill to decode cost, under the keys of the summary; None where nothing was split.

The parts of the time to first token are those of all completed, measured requests, so that their means add up to the
mean time to first token; a request that was not split has none of the parts that belong to the decoding replica.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from servetwin.request import COMPLETED
from servetwin.results.exact import exact_sum
from servetwin.results.hand_over_parts import (
    GAP_PARTS,
    TTFT_PARTS,
    HandOverTimes,
    checked,
    gap_parts,
    stamps_of,
    ttft_parts,
)
from servetwin.results.hand_overs import HandOverTable
from servetwin.results.meta import RunMeta
from servetwin.results.percentiles import STATISTICS, statistics
from servetwin.results.requests import RequestTable
from servetwin.units import PS_PER_MS, PS_PER_S

TTFT_KEYS = tuple(f"ttft_{part}_ms" for part in TTFT_PARTS)
GAP_KEYS = ("hand_over_gap_ms", *(f"gap_{part}_ms" for part in GAP_PARTS))
TRANSFER_KEY = "transfer_ms"
COUNT_KEYS = (
    "transfers", "failed_transfers", "lost_hand_overs", "transfer_bytes", "transfer_exposed_s", "transfer_hidden_s",
    "transfer_bytes_per_s", "transfer_alone_bytes_per_s",
)  # fmt: skip


def hand_over_summary(meta: RunMeta, requests: RequestTable, table: HandOverTable, end_ps: int) -> dict[str, Any]:
    """The figures of all hand-overs.

    Args:
        meta: the run.
        requests: its requests.
        table: those of them that were split.
        end_ps: when the run ended [ps].
    """
    summary: dict[str, Any] = {"split_requests": len(table)}
    if not len(table):
        latencies = [f"{key}.{one}" for key in (*TTFT_KEYS, *GAP_KEYS, TRANSFER_KEY) for one in STATISTICS]
        return summary | dict.fromkeys([*latencies, *COUNT_KEYS])
    times = HandOverTimes(table, requests, end_ps)
    took = (times.exposed_ps + times.hidden_ps)[times.arrived]
    return {
        **summary,
        **_parts(meta, requests, table),
        **_statistics([(TRANSFER_KEY, took)]),
        **_moved(meta, table, times),
    }


def _parts(meta: RunMeta, requests: RequestTable, table: HandOverTable) -> dict[str, float | None]:
    """The parts of the time to first token, and of the gap between prefill and decode."""
    chosen = requests.with_outcome(COMPLETED) & requests.measured(meta.warmup_requests)
    names = ("id", "arrival_ps", "scheduled_ps", "prefill_done_ps", "first_token_ps")
    ids, arrival, scheduled, prefilled, first = (requests.column(name)[chosen] for name in names)
    block = table.of(ids)
    stamps = stamps_of(prefilled, block)
    parts = ttft_parts(arrival, scheduled, stamps, first, block.split, meta.first_token_of_prefill)
    found = _statistics(zip(TTFT_KEYS, checked(parts, ids).values(), strict=True))
    came = block.split & (stamps.scheduled >= 0) & meta.first_token_of_prefill
    gaps = checked(gap_parts(type(stamps)(*(one[came] for one in stamps))), ids[came])
    whole = stamps.scheduled[came] - prefilled[came]
    return found | _statistics(zip(GAP_KEYS, (whole, *gaps.values()), strict=True))


def _statistics(latencies: Iterable[tuple[str, Any]]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for key, values in latencies:
        found |= statistics(key, values / PS_PER_MS, exact_sum(values))
    return found


def _moved(meta: RunMeta, table: HandOverTable, times: HandOverTimes) -> dict[str, float | int | None]:
    moved = exact_sum(table.column("moved_bytes"))
    exposed, hidden = exact_sum(times.exposed_ps), exact_sum(times.hidden_ps)
    return dict(
        zip(
            COUNT_KEYS,
            (
                exact_sum(table.column("attempts")),
                exact_sum(times.failed),
                int(times.lost.sum()),
                moved,
                exposed / PS_PER_S,
                hidden / PS_PER_S,
                moved / ((exposed + hidden) / PS_PER_S) if exposed + hidden else None,
                _alone(meta, table),
            ),
            strict=True,
        )
    )


def _alone(meta: RunMeta, table: HandOverTable) -> float | None:
    """What a transfer would get if it were alone on its way, on the fastest of the ways that were used [B/s]."""
    if meta.hand_overs is None:
        return None
    begun = table.column("start_ps") >= 0
    ways = np.unique(np.stack([table.column(name)[begun] for name in ("source", "target")], axis=1), axis=0)
    rates = [meta.hand_overs.rate(source, target) for source, target in ways.tolist()]
    return max((rate for rate in rates if rate is not None), default=None)
