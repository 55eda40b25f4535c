"""A pool: replicas of one role with the same hardware and settings."""

from __future__ import annotations

from servetwin.cluster.replica import Replica, ReplicaFactory


class Pool:
    """Replicas that are made alike.

    Args:
        index: the pool's index in the cluster.
        name: its name in the scenario.
        role: what its replicas do; ``both`` prefill and decode.
        factory: makes one replica.
    """

    def __init__(self, index: int, name: str, role: str, factory: ReplicaFactory) -> None:
        self.index = index
        self.name = name
        self.role = role
        self.replicas: list[Replica] = []
        self._factory = factory

    def grow(self, index: int) -> Replica:
        """Add the replica with cluster index ``index``."""
        replica = self._factory(index)
        self.replicas.append(replica)
        return replica
