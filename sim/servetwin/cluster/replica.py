"""A replica: what routers, scaling and faults see of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from servetwin.engine.forecast import Forecast
from servetwin.engine.process import EngineProcess
from servetwin.request import Request

BOTH, PREFILL, DECODE = "both", "prefill", "decode"
"""What a replica does."""


class Submit(Protocol):
    """Takes a request over, now."""

    def __call__(self, request: Request, after: bool = False) -> None:
        """See ``EngineProcess.submit``."""


class Replica:
    """One independent copy of the model.

    Attributes:
        index: its index in the cluster.
        pool: index of its pool.
        role: ``both``, ``prefill`` or ``decode``.
        executor: the process that runs its steps.
        routable: whether new requests may be sent here.
        submit: takes a request over, now; see ``EngineProcess.submit``.
        forecast: what requests would take here; None = nobody can say.
        generated: output tokens of its unfinished requests, as of the last step that ended before an instant [ps].
    """

    __slots__ = ("executor", "forecast", "generated", "index", "pool", "role", "routable", "submit")

    def __init__(
        self, index: int, pool: int, executor: EngineProcess, role: str = BOTH, forecast: Forecast | None = None
    ) -> None:
        self.index = index
        self.pool = pool
        self.role = role
        self.executor = executor
        self.forecast = forecast
        self.routable = True
        self.submit: Submit = executor.submit
        self.generated: Callable[[int], int] = executor.generated


ReplicaFactory = Callable[[int], Replica]
"""Makes the replica with a given index; the cluster calls it at the start, and again when a pool grows."""
