"""The front door: admission, routing, and the way back."""

from __future__ import annotations

from collections.abc import Callable

from servetwin.cluster.fleet import Fleet
from servetwin.cluster.protocols import Admission, Router
from servetwin.cluster.replica import Replica
from servetwin.kernel import Environment
from servetwin.records import RunLog
from servetwin.request import REJECTED, Request


class Gateway:
    """Takes requests in, sends each to the replica that the router chooses, and hears of every end.

    Args:
        env: the environment.
        admission: decides whether a request enters at all.
        router: chooses the replica.
        log: receives finished requests.
    """

    def __init__(self, env: Environment, admission: Admission, router: Router, log: RunLog) -> None:
        self._env = env
        self._admit = admission.admit
        self._choose = router.choose
        self._router_on_routed = router.on_routed
        self._router_on_finished = router.on_finished
        self._record = log.finished
        self._replicas: list[Replica] = []
        self._fleet: Fleet | None = None
        #: Told of every end, with the visible time [ps]: the workload, whose next request may depend on it.
        self.on_finished: Callable[[Request, int], None] = lambda request, visible_ps: None
        self.in_flight: dict[Request, None] = {}
        self.submitted = 0
        #: When the last request ended [ps].
        self.last_end_ps = 0
        self.ended = 0

    def open(self, replicas: list[Replica], fleet: Fleet) -> None:
        """Start to route over ``replicas``."""
        self._replicas = replicas
        self._fleet = fleet

    def submit(self, request: Request) -> None:
        """A request arrives, now."""
        fleet = self._fleet
        assert fleet is not None, "the gateway is not open"
        now = self._env._now
        self.submitted += 1
        reason = self._admit(request, fleet)
        if reason is not None:
            request.outcome = REJECTED
            request.reason = reason
            self._end(request, now)
            return
        index = self._choose(request, fleet)
        replica = self._replicas[index]
        request.routed_ps = now
        request.replica = index
        request.pool = replica.pool
        self.in_flight[request] = None
        fleet.on_routed(request)
        self._router_on_routed(request, index)
        replica.submit(request)

    def finished(self, request: Request, visible_ps: int) -> None:
        """A replica is done with a request; its last token is visible at ``visible_ps`` [ps]."""
        assert self._fleet is not None
        del self.in_flight[request]
        self._fleet.on_finished(request)
        self._router_on_finished(request, request.replica)
        self._end(request, visible_ps)

    def _end(self, request: Request, visible_ps: int) -> None:
        self.ended += 1
        self.last_end_ps = self._env._now
        self._record(request)
        self.on_finished(request, visible_ps)
