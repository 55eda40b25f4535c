"""A replica: what routers, scaling and faults see of an engine."""

from __future__ import annotations

from collections.abc import Callable

from servetwin.engine.process import EngineProcess
from servetwin.request import Request


class Replica:
    """One independent copy of the model.

    Attributes:
        index: its index in the cluster.
        pool: index of its pool.
        executor: the process that runs its steps.
        routable: whether new requests may be sent here.
        submit: takes a request over, now.
        generated: output tokens of its unfinished requests, as of the last step that ended before an instant [ps].
    """

    __slots__ = ("executor", "generated", "index", "pool", "routable", "submit")

    def __init__(self, index: int, pool: int, executor: EngineProcess) -> None:
        self.index = index
        self.pool = pool
        self.executor = executor
        self.routable = True
        self.submit: Callable[[Request], None] = executor.submit
        self.generated: Callable[[int], int] = executor.generated


ReplicaFactory = Callable[[int], Replica]
"""Makes the replica with a given index; the cluster calls it at the start, and again when a pool grows."""
