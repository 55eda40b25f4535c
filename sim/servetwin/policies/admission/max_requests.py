"""A limit on the requests in flight."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import PositiveInt

from servetwin.cluster.protocols import REQUESTS, FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class MaxRequests(Policy):
    """A request is rejected when as many as the limit are in flight.

    In flight are the requests that were routed and have not finished, those that wait in an engine included.

    Source: ``max_requests`` of an Envoy cluster's circuit breaker, ``limit_conn`` of nginx.

    Attributes:
        requests: most requests in flight in the whole cluster [requests].

    >>> from servetwin.policies.admission import MaxRequests
    >>> from servetwin.testing import FakeFleet, make_request
    >>> admission = MaxRequests(requests=10).build(None)
    >>> admission.admit(make_request(0), FakeFleet([4, 5])) is None
    True
    >>> admission.admit(make_request(0), FakeFleet([4, 6]))
    'max-requests: 10 requests in flight'
    """

    kind: ClassVar[Kind] = "admission"
    policy: Literal["max-requests"] = "max-requests"
    requests: PositiveInt

    def build(self, context: PolicyContext) -> MaxRequestsAdmission:
        """An admission for one gateway."""
        return MaxRequestsAdmission(self.requests)


class MaxRequestsAdmission:
    """Counts what is in flight."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reason = f"max-requests: {limit} requests in flight"

    def admit(self, request: Request, fleet: FleetView) -> str | None:
        """The reason, when the limit is reached."""
        in_flight = sum(fleet.value(replica, REQUESTS) for replica in fleet.all())
        return None if in_flight < self._limit else self._reason
