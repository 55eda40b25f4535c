"""Replicas among which one router chooses."""

from __future__ import annotations

from servetwin.cluster.fleet import Fleet
from servetwin.cluster.prefill_book import PrefillBook
from servetwin.cluster.prefix_index import PrefixIndex
from servetwin.cluster.protocols import Router
from servetwin.cluster.replica import Replica
from servetwin.request import Request


class Group:
    """The replicas of one role, behind their router.

    Args:
        router: chooses the replica.
        fleet: the index over the replicas of the role.
        replicas: all replicas of the cluster.

    Attributes:
        fleet: as above.
        index: told which prompts go to which replica, where somebody asks for their prefixes; None = nobody does.
        book: told which prefills are under way, where somebody predicts how long they take; None = nobody does.
    """

    def __init__(self, router: Router, fleet: Fleet, replicas: list[Replica]) -> None:
        self.fleet = fleet
        self.index: PrefixIndex | None = None
        self.book: PrefillBook | None = None
        self._replicas = replicas
        self._choose = router.choose
        self._router_on_routed = router.on_routed
        self._router_on_finished = router.on_finished

    def choose(self, request: Request) -> int:
        """The replica that is to get the request."""
        return self._choose(request, self.fleet)

    def assign(self, request: Request, index: int) -> Replica:
        """The request belongs to the replica ``index`` from now on."""
        replica = self._replicas[index]
        request.replica = index
        request.pool = replica.pool
        self.fleet.on_routed(request)
        self._router_on_routed(request, index)
        if self.book is not None:
            self.book.sent(request, index)
        if self.index is not None and replica.executor.settings.prefix_caching:
            self.index.add(index, request)
        return replica

    def left(self, request: Request) -> None:
        """The request does not belong to its replica any more."""
        self.fleet.on_finished(request)
        self._router_on_finished(request, request.replica)
        if self.book is not None:
            self.book.left(request)
