"""A limit on the requests that must wait."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import NonNegativeInt

from servetwin.cluster.protocols import REQUESTS, FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class MaxQueue(Policy):
    """A request is rejected when as many as the limit are in flight beyond the seats of the cluster.

    The seats are the sum of ``max_num_seqs`` over the replicas; what is in flight beyond them must wait. A gateway
    sees no engine's queue without asking it, so requests that wait for KV room although seats are free do not count.

    Source: ``max_pending_requests`` of an Envoy cluster's circuit breaker, with the engines' seats as connections.

    Attributes:
        waiting: most requests in flight beyond the seats [requests]; 0 lets in only what finds a seat.

    >>> from servetwin.policies import PolicyContext
    >>> from servetwin.policies.admission import MaxQueue
    >>> from servetwin.streams import Streams
    >>> from servetwin.testing import FakeFleet, make_request
    >>> admission = MaxQueue(waiting=2).build(PolicyContext(Streams(0), replicas=2, seats=8))
    >>> admission.admit(make_request(0), FakeFleet([5, 4])) is None
    True
    >>> admission.admit(make_request(0), FakeFleet([5, 5]))
    'max-queue: 2 requests wait for 8 seats'
    """

    kind: ClassVar[Kind] = "admission"
    policy: Literal["max-queue"] = "max-queue"
    waiting: NonNegativeInt

    def build(self, context: PolicyContext) -> MaxQueueAdmission:
        """An admission for one gateway."""
        return MaxQueueAdmission(self.waiting, context.seats)


class MaxQueueAdmission:
    """Compares what is in flight with seats and places in the queue."""

    def __init__(self, waiting: int, seats: int) -> None:
        self._limit = seats + waiting
        self._reason = f"max-queue: {waiting} requests wait for {seats} seats"

    def admit(self, request: Request, fleet: FleetView) -> str | None:
        """The reason, when seats and queue are full."""
        in_flight = sum(fleet.value(replica, REQUESTS) for replica in fleet.all())
        return None if in_flight < self._limit else self._reason
