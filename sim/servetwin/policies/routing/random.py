"""A replica drawn at random."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.cluster.protocols import FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request
from servetwin.streams import Streams


@register
class Random(Policy):
    """Each request goes to a replica drawn uniformly, whatever the load.

    Source: the baseline of most routers, e.g. ``random`` of the SGLang gateway.

    >>> from servetwin.policies import PolicyContext
    >>> from servetwin.policies.routing import Random
    >>> from servetwin.streams import Streams
    >>> from servetwin.testing import FakeFleet, make_request
    >>> router = Random().build(PolicyContext(Streams(0), replicas=4, seats=4))
    >>> router.choose(make_request(0), FakeFleet([0, 0, 0, 0])) in range(4)
    True
    """

    kind: ClassVar[Kind] = "routing"
    policy: Literal["random"] = "random"

    def build(self, context: PolicyContext) -> RandomRouter:
        """A router for one gateway."""
        return RandomRouter(context.streams)


class RandomRouter:
    """Draws from the stream ``router, random``."""

    def __init__(self, streams: Streams) -> None:
        self._draw = streams.uniforms("router", "random")

    def choose(self, request: Request, fleet: FleetView) -> int:
        """A replica at random."""
        replicas = fleet.all()
        return replicas[int(self._draw() * len(replicas))]

    def on_routed(self, request: Request, replica: int) -> None:
        """Of no concern."""

    def on_finished(self, request: Request, replica: int) -> None:
        """Of no concern."""
