"""A replica: what routers, scaling and faults see of an engine."""

from __future__ import annotations

from collections.abc import Callable

from servetwin.engine.executor import Executor
from servetwin.request import Request


class Replica:
    """One independent copy of the model.

    Attributes:
        index: its index in the cluster.
        pool: index of its pool.
        executor: the process that runs its steps.
        routable: whether new requests may be sent here.
    """

    __slots__ = ("executor", "index", "pool", "routable")

    def __init__(self, index: int, pool: int, executor: Executor) -> None:
        self.index = index
        self.pool = pool
        self.executor = executor
        self.routable = True

    def submit(self, request: Request) -> None:
        """Hand over a request, now."""
        self.executor.submit(request)


ReplicaFactory = Callable[[int], Replica]
"""Makes the replica with a given index; the cluster calls it at the start, and again when a pool grows."""
