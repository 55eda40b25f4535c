"""The replica with the fewest requests."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.cluster.protocols import REQUESTS, FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class LeastRequests(Policy):
    """The replica with the fewest requests that were sent there and have not finished.

    Ties go to the smallest index. The gateway counts what it sent and what came back, so the count is never stale.

    Source: ``least_conn`` of nginx and ``LEAST_REQUEST`` of Envoy, whose full scan over all hosts it equals.

    >>> from servetwin.policies.routing import LeastRequests
    >>> from servetwin.testing import FakeFleet, make_request
    >>> LeastRequests().build(None).choose(make_request(0), FakeFleet([3, 1, 1]))
    1
    """

    kind: ClassVar[Kind] = "routing"
    policy: Literal["least-requests"] = "least-requests"

    def build(self, context: PolicyContext) -> LeastRequestsRouter:
        """A router for one gateway."""
        return LeastRequestsRouter()


class LeastRequestsRouter:
    """Asks the fleet's index."""

    def choose(self, request: Request, fleet: FleetView) -> int:
        """The replica with the fewest unfinished requests."""
        return fleet.least(REQUESTS)

    def on_routed(self, request: Request, replica: int) -> None:
        """Of no concern."""

    def on_finished(self, request: Request, replica: int) -> None:
        """Of no concern."""
