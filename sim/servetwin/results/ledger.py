"""Where every GPU-second went, what hand-offs cost, and what was saved at the modelled price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servetwin.errors import InvariantError
from servetwin.records import LEDGER_BUCKETS
from servetwin.results.communication import CommunicationTable, Waited
from servetwin.results.exact import exact_sum
from servetwin.results.hand_over_parts import HandOverTimes
from servetwin.results.hand_overs import HandOverTable
from servetwin.results.meta import PoolMeta, RunMeta
from servetwin.results.requests import RequestTable
from servetwin.units import PS_PER_S

HANDOFF_COSTS = (
    "exposed_communication",
    "transfer_wait",
    "load_wait",
    "draft",
    "wasted_verify",
    "recompute",
)
"""Buckets that a technique pays for handing work on, in the order in which they are listed."""

NOT_BUSY = ("transfer_wait", "load_wait", "bubble", "idle", "down")
"""Buckets in which a GPU computes nothing and waits for nothing on its own node."""

_SAVINGS_METHOD = "arithmetic of the avoided prompt tokens at the peak of the hardware: a lower bound"


class Ledger:
    """GPU time by bucket, checked to add up.

    Args:
        meta: the run.
        replicas: per replica, bucket → [GPU·ps].
        end_ps: when the run ended [ps].
        stages_busy: per replica and stage of its pipeline, what went to steps [GPU·ps]; none where there is one stage.

    Raises:
        InvariantError: if the buckets of a replica do not add up to its GPUs times the length of the run.
    """

    def __init__(
        self, meta: RunMeta, replicas: Sequence[Mapping[str, int]], end_ps: int,
        stages_busy: Sequence[Sequence[int]] = (),
    ) -> None:  # fmt: skip
        self._meta = meta
        self._end_ps = end_ps
        if len(replicas) != meta.replicas:
            raise InvariantError(f"{len(replicas)} ledgers for {meta.replicas} replicas")
        self._stages_busy = stages_busy
        self._pools = []
        for pool in meta.pools:
            mine = range(pool.first_replica, pool.first_replica + pool.replicas)
            for index in mine:
                _check(index, replicas[index], pool, end_ps)
            self._pools.append(_add([replicas[index] for index in mine]))
        self.total_ps = _add(self._pools)

    def busy_ps(self, pool: int) -> int:
        """GPU time of a pool in which its GPUs worked [GPU·ps]."""
        return sum(spent for bucket, spent in self._pools[pool].items() if bucket not in NOT_BUSY)

    def document(
        self, requests: RequestTable, communication: CommunicationTable, hand_overs: HandOverTable
    ) -> dict[str, Any]:
        """The ledger as it is written: seconds by bucket, per pool and in all.

        Args:
            requests: for the savings of prefix hits.
            communication: what GPUs waited for each other for.
            hand_overs: what requests waited for between prefill and decode.
        """
        replicas = [range(pool.first_replica, pool.first_replica + pool.replicas) for pool in self._meta.pools]
        return {
            "end_s": self._end_ps / PS_PER_S,
            "gpus": self._meta.gpus,
            "gpu_seconds": self._meta.gpus * self._end_ps / PS_PER_S,
            "total": _seconds(self.total_ps),
            "pools": {
                pool.name: {
                    "gpus": pool.gpus,
                    "gpu_seconds": pool.gpus * self._end_ps / PS_PER_S,
                    **_seconds(self._pools[index]),
                    "communication_s": _waits(communication.of(replicas[index])),
                    **self._stages(replicas[index]),
                }
                for index, pool in enumerate(self._meta.pools)
            },
            "communication_s": _waits(communication.of(range(self._meta.replicas))),
            "kv_transfers": _transfers(requests, hand_overs, self._end_ps),
            "handoff_costs": {bucket: self.total_ps[bucket] / PS_PER_S for bucket in HANDOFF_COSTS},
            "savings": _savings(self._meta, requests, hand_overs),
        }

    def _stages(self, replicas: Sequence[int]) -> dict[str, list[float]]:
        rows = [self._stages_busy[replica] for replica in replicas if self._stages_busy]
        if not any(rows):
            return {}
        return {"stage_busy_s": [sum(stage) / PS_PER_S for stage in zip(*rows, strict=True)]}


def _check(index: int, replica: Mapping[str, int], pool: PoolMeta, end_ps: int) -> None:
    unknown = sorted(set(replica) - set(LEDGER_BUCKETS))
    if unknown:
        raise InvariantError(f"replica {index}: the ledger has no bucket {', '.join(unknown)}")
    negative = [bucket for bucket, spent in replica.items() if spent < 0]
    if negative:
        raise InvariantError(f"replica {index}: negative time in {', '.join(negative)}")
    spent, owned = sum(replica.values()), pool.gpus_per_replica * end_ps
    if spent != owned:
        raise InvariantError(
            f"replica {index}: the ledger accounts for {spent} GPU·ps of {owned}, off by {spent - owned}"
        )


def _add(ledgers: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Python integers throughout: picoseconds of many GPUs overflow 64 bits."""
    return {bucket: sum(int(one.get(bucket, 0)) for one in ledgers) for bucket in LEDGER_BUCKETS}


def _waits(waited: Mapping[str, Waited]) -> dict[str, dict[str, float]]:
    return {kind: {"exposed": one.exposed, "hidden": one.hidden} for kind, one in waited.items()}


def _seconds(spent: Mapping[str, int]) -> dict[str, Any]:
    whole = sum(spent.values())
    return {
        "seconds": {bucket: spent[bucket] / PS_PER_S for bucket in LEDGER_BUCKETS},
        "share": {bucket: spent[bucket] / whole if whole else None for bucket in LEDGER_BUCKETS},
    }


def _transfers(requests: RequestTable, hand_overs: HandOverTable, end_ps: int) -> dict[str, float | int]:
    """KV cache that was sent from prefill to decode, and the time of requests that this took."""
    if not len(hand_overs):
        return {"bytes": 0, "exposed_request_s": 0.0, "hidden_request_s": 0.0}
    times = HandOverTimes(hand_overs, requests, end_ps)
    return {
        "bytes": exact_sum(hand_overs.column("moved_bytes")),
        "exposed_request_s": exact_sum(times.exposed_ps) / PS_PER_S,
        "hidden_request_s": exact_sum(times.hidden_ps) / PS_PER_S,
    }


def _savings(meta: RunMeta, requests: RequestTable, hand_overs: HandOverTable) -> dict[str, Any]:
    """Prompt tokens that prefix hits made unnecessary, and what their arithmetic would have cost at least."""
    hits, replica = requests.column("hit_tokens"), requests.column("replica")
    moves = hand_overs.of(requests.column("id"))
    if moves.some:
        # The hits are those of the prefill.
        replica = np.where(moves.split, moves["source"], replica)
    owners = np.array([*meta.pool_of(), -1])[replica] if len(requests) else replica
    gpu_seconds = 0.0
    for index, pool in enumerate(meta.pools):
        mine = hits[owners == index]
        tokens, attended = exact_sum(mine), exact_sum(mine * (mine + 1) // 2)
        if tokens:
            flops, _ = pool.work(tokens, 0, 0, attended)
            gpu_seconds += flops / pool.peak_flops * pool.gpus_per_replica
    return {
        "prefill_tokens_avoided": exact_sum(hits),
        "prefill_gpu_seconds_avoided": gpu_seconds,
        "method": _SAVINGS_METHOD,
    }
