"""The front door: admission, routing, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servetwin.cluster.group import Group
from servetwin.cluster.protocols import Admission, FleetView, Splitter
from servetwin.kernel import Environment
from servetwin.records import RunLog
from servetwin.request import FAILED, REJECTED, Request

NOBODY_LEFT = "no replica is left"
"""Why a request fails when the last replica that could take it has left."""


class Gateway:
    """Takes requests in, sees to it that each gets to a replica, and hears of every end.

    Args:
        env: the environment.
        admission: decides whether a request enters at all.
        log: receives finished requests.
    """

    def __init__(self, env: Environment, admission: Admission, log: RunLog) -> None:
        self._env = env
        self._admit = admission.admit
        self._record = log.finished
        self._group: Group | None = None
        self._splitter: Splitter | None = None
        self._everything: FleetView | None = None
        #: Told of every end, with the visible time [ps]: the workload, whose next request may depend on it.
        self.on_finished: Callable[[Request, int], None] = lambda request, visible_ps: None
        self.in_flight: dict[Request, None] = {}
        self.submitted = 0
        #: When the last request ended [ps].
        self.last_end_ps = 0
        self.ended = 0

    def open(self, everything: FleetView, group: Group | None, splitter: Splitter | None = None) -> None:
        """Start to route.

        Args:
            everything: what admission sees.
            group: the replicas that prefill and decode; None = there are none.
            splitter: splits requests between replicas that prefill and replicas that decode, where there are any.
        """
        self._everything = everything
        self._group = group
        self._splitter = splitter

    def submit(self, request: Request) -> None:
        """A request arrives, now."""
        everything = self._everything
        assert everything is not None, "the gateway is not open"
        now = self._env._now
        self.submitted += 1
        reason = self._admit(request, everything) if everything.all() else NOBODY_LEFT
        if reason is not None:
            self.refuse(request, reason)
            return
        splitter, group = self._splitter, self._group
        if splitter is not None:
            splitter.submit(request)
            return
        assert group is not None
        replica = group.assign(request, group.choose(request))
        request.routed_ps = now
        self.in_flight[request] = None
        replica.submit(request)

    def refuse(self, request: Request, reason: str) -> None:
        """The request does not enter."""
        request.outcome = REJECTED
        request.reason = reason
        self._end(request, self._env._now)

    def finished(self, request: Request, visible_ps: int) -> None:
        """A replica is done with a request; its last token is visible at ``visible_ps`` [ps]."""
        splitter, group = self._splitter, self._group
        if splitter is not None:
            if splitter.finished(request, visible_ps):
                return
        else:
            assert group is not None
            group.left(request)
        self.end(request, visible_ps)

    def stranded(self, replica: int, requests: Sequence[Request]) -> None:
        """A replica has left, with requests on it: each goes to another one, which computes it again.

        Args:
            replica: its index.
            requests: the requests.
        """
        splitter, group = self._splitter, self._group
        if splitter is not None:
            splitter.stranded(replica, requests)
            return
        assert group is not None
        for request in requests:
            group.left(request)
            if group.fleet.all():
                group.assign(request, group.choose(request)).submit(request, after=True)
            else:
                self.fail(request, NOBODY_LEFT)

    def fail(self, request: Request, reason: str) -> None:
        """A request that was under way ends without its answer."""
        request.outcome, request.reason = FAILED, reason
        request.last_token_ps = -1
        self.end(request, self._env._now)

    def end(self, request: Request, visible_ps: int) -> None:
        """A request that was under way has ended."""
        del self.in_flight[request]
        self._end(request, visible_ps)

    def _end(self, request: Request, visible_ps: int) -> None:
        self.ended += 1
        self.last_end_ps = self._env._now
        self._record(request)
        self.on_finished(request, visible_ps)
