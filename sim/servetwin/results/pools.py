"""Each pool by itself, and how many replicas should prefill and how many decode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from servetwin.results.exact import ExactBins, Ints
from servetwin.results.hand_overs import HandOverTable
from servetwin.results.meta import PoolMeta, RunMeta
from servetwin.results.requests import RequestTable
from servetwin.results.segments import RunSegments
from servetwin.results.steps import Rows, pairs
from servetwin.results.timeseries import TimeSeries
from servetwin.units import PS_PER_S

STRANDED_KEYS = (
    "kv_stranded_prefill", "kv_stranded_decode", "kv_stranded_prefill_token_s", "kv_stranded_decode_token_s",
)  # fmt: skip
ADVICE_KEYS = ("advised_pd_ratio", "advised_prefill_replicas", "advised_decode_replicas")
_ROLES = ("prefill", "decode")


def by_pool(
    meta: RunMeta, requests: RequestTable, hand_overs: HandOverTable, segments: RunSegments, series: TimeSeries
) -> dict[str, dict[str, Any]]:
    """What each pool did, by its name.

    A request that was prefilled by one pool and decoded by another counts in both.
    """
    totals = segments.totals
    sent = _sent(meta.replicas, requests, hand_overs)
    found = {}
    for pool, (compute, memory) in zip(meta.pools, _bound(meta, segments), strict=True):
        mine = range(pool.first_replica, pool.first_replica + pool.replicas)
        busy = sum(totals.busy_ps[replica] for replica in mine)
        time = pool.replicas * series.horizon_ps
        room = time * pool.kv_capacity_tokens
        held = sum(series.held_token_ps(replica) for replica in mine)
        fullest = max((totals.held_most[replica] for replica in mine), default=0)
        stranded = sum(series.stranded_token_ps(replica) for replica in mine)
        found[pool.name] = {
            "role": pool.role,
            "hardware": pool.hardware,
            "replicas": pool.replicas,
            "gpus": pool.gpus,
            "requests": sum(sent[replica] for replica in mine),
            "busy_replica_s": busy / PS_PER_S,
            "utilisation": busy / time if time else None,
            "compute_bound_share": compute / (busy * pool.stages) if busy else None,
            "memory_bound_share": memory / (busy * pool.stages) if busy else None,
            "kv_use_mean": held / room if room else None,
            "kv_use_max": fullest / pool.kv_capacity_tokens if pool.kv_capacity_tokens else None,
            "kv_stranded": stranded / room if room and len(hand_overs) else None,
        }
    return found


def stranded(meta: RunMeta, hand_overs: HandOverTable, series: TimeSeries) -> dict[str, float | None]:
    """KV cache that waited to be fetched, and room that waited for KV cache: shares of the room, and token-seconds."""
    if not len(hand_overs):
        return dict.fromkeys(STRANDED_KEYS)
    shares: list[float | None] = []
    sums: list[float | None] = []
    for role in _ROLES:
        total = room = 0
        for pool in meta.pools:
            if pool.role == role:
                mine = range(pool.first_replica, pool.first_replica + pool.replicas)
                total += sum(series.stranded_token_ps(replica) for replica in mine)
                room += pool.replicas * pool.kv_capacity_tokens * series.horizon_ps
        shares.append(total / room if room else None)
        sums.append(total / PS_PER_S)
    return dict(zip(STRANDED_KEYS, (*shares, *sums), strict=True))


def advice(pools: Sequence[PoolMeta], busy_ps: Sequence[int]) -> dict[str, float | int | None]:
    """How the replicas should be shared out between prefill and decode for this load.

    ``advised_pd_ratio`` is how many replicas would prefill for one that decodes if both were to be equally busy: the
    busy replica-seconds of the one over those of the other. The whole numbers are those with which the busier pool is
    the least busy, with no more GPUs than there are; None where the replicas of a role differ in size.

    It is a first approximation. Prefill takes about the same GPU-time wherever it runs, decode does not: a step of a
    larger batch costs less per token, so that fewer decoding replicas would be busy for less than these seconds in all,
    and more replicas for longer. Decode is given too much where its batches are small, which its share of steps bound
    by memory shows; what the advised numbers really give, another run tells. Neither limits on latency nor the room
    for KV cache are looked at.

    Args:
        pools: all pools.
        busy_ps: by replica, how long its steps lasted [ps].
    """
    roles = [[pool for pool in pools if pool.role == role] for role in _ROLES]
    prefill, decode = (
        sum(sum(busy_ps[pool.first_replica : pool.first_replica + pool.replicas]) for pool in mine) for mine in roles
    )
    if not prefill or not decode:
        return dict.fromkeys(ADVICE_KEYS)
    found: dict[str, float | int | None] = dict.fromkeys(ADVICE_KEYS)
    found["advised_pd_ratio"] = prefill / decode
    sizes = [{pool.gpus_per_replica for pool in mine} for mine in roles]
    if all(len(size) == 1 for size in sizes):
        now = sum(pool.replicas for pool in roles[0])
        gpus = sum(pool.gpus for mine in roles for pool in mine)
        small, large = (size.pop() for size in sizes)
        choices = [(first, (gpus - first * small) // large) for first in range(1, (gpus - large) // small + 1)]
        best = min(choices, key=lambda one: (max(prefill / one[0], decode / one[1]), abs(one[0] - now)))
        found["advised_prefill_replicas"], found["advised_decode_replicas"] = best
    return found


def _sent(replicas: int, requests: RequestTable, hand_overs: HandOverTable) -> list[int]:
    """By replica, how many requests, or prefills of requests, it got."""
    replica = requests.column("replica")
    counts: Ints = np.bincount(replica[replica >= 0], minlength=replicas)
    if len(hand_overs):
        split = replica[np.searchsorted(requests.column("id"), hand_overs.ids)]
        source = hand_overs.column("source")
        counts = counts + np.bincount(source[source != split], minlength=replicas)
    return [int(count) for count in counts]


def _bound(meta: RunMeta, segments: RunSegments) -> list[tuple[int, int]]:
    """By pool, how long its steps were bound by arithmetic and by HBM [ps]."""
    if len(meta.pools) == 1:
        return [(segments.totals.compute_ps, segments.totals.memory_ps)]
    owners = np.array(meta.pool_of(), np.int64)
    compute, memory = ExactBins(len(meta.pools)), ExactBins(len(meta.pools))
    for chunk in segments.store:
        rows = Rows.of(chunk)
        pool = owners[rows.replica]
        compute.add(pool, rows.compute_in_all_ps())
        growth = rows.growth_ps - rows.compute_growth
        memory.add(pool, chunk["memory_ps"] * rows.count + growth * pairs(rows.count))
    return list(zip(compute.integers(), memory.integers(), strict=True))
