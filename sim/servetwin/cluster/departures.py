"""Replicas that leave while requests are on them."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.cluster.cluster import Cluster
from servetwin.kernel import FAULT, Environment, priority
from servetwin.kernel.nap import call_at


@dataclass(frozen=True, slots=True)
class Leave:
    """A replica leaves.

    Attributes:
        replica: its index in the cluster.
        time_ps: when [ps].
        drains: whether it ends what it has before; else its requests go elsewhere.
    """

    replica: int
    time_ps: int
    drains: bool


def schedule_departure(env: Environment, cluster: Cluster, leave: Leave) -> None:
    """Let a replica leave when its time has come."""

    def depart() -> None:
        cluster.retire(leave.replica, drains=leave.drains)

    call_at(env, leave.time_ps, priority(FAULT, leave.replica), depart)
