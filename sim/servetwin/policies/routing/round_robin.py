"""Each replica in turn."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.cluster.protocols import FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class RoundRobin(Policy):
    """The replicas in turn, in order of their index, whatever their load.

    Source: the default of nginx and of the vLLM production stack's router (``roundrobin``).

    >>> from servetwin.policies.routing import RoundRobin
    >>> from servetwin.testing import FakeFleet, make_request
    >>> router, fleet = RoundRobin().build(None), FakeFleet([5, 0, 0])
    >>> def route(request):
    ...     replica = router.choose(request, fleet)
    ...     router.on_routed(request, replica)
    ...     return replica
    >>> [route(make_request(i)) for i in range(4)]
    [0, 1, 2, 0]
    """

    kind: ClassVar[Kind] = "routing"
    policy: Literal["round-robin"] = "round-robin"

    def build(self, context: PolicyContext) -> RoundRobinRouter:
        """A router for one gateway."""
        return RoundRobinRouter()


class RoundRobinRouter:
    """Counts what was routed."""

    def __init__(self) -> None:
        self._routed = 0

    def choose(self, request: Request, fleet: FleetView) -> int:
        """The next replica in turn."""
        replicas = fleet.all()
        return replicas[self._routed % len(replicas)]

    def on_routed(self, request: Request, replica: int) -> None:
        """It is the next replica's turn."""
        self._routed += 1

    def on_finished(self, request: Request, replica: int) -> None:
        """Of no concern."""
