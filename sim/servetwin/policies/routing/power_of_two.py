"""The better of two replicas drawn at random."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.cluster.protocols import FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request
from servetwin.streams import Streams


@register
class PowerOfTwo(Policy):
    """Two different replicas are drawn uniformly, and the less loaded one gets the request.

    In a tie it is the first drawn. Two choices already take the longest queue from order log n / log log n down to
    log log n, without anybody looking at the whole fleet.

    Source: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", IEEE TPDS 12 (2001); Envoy's
        ``LEAST_REQUEST`` with two choices; ``power_of_two`` of the SGLang gateway.

    Attributes:
        metric: what load is: the ``requests`` [requests] or ``tokens`` [tokens] that were sent there and have not
            finished.

    >>> from servetwin.policies import PolicyContext
    >>> from servetwin.policies.routing import PowerOfTwo
    >>> from servetwin.streams import Streams
    >>> from servetwin.testing import FakeFleet, make_request
    >>> router = PowerOfTwo().build(PolicyContext(Streams(0), replicas=2, seats=2))
    >>> router.choose(make_request(0), FakeFleet([4, 1]))
    1
    """

    kind: ClassVar[Kind] = "routing"
    policy: Literal["power-of-two"] = "power-of-two"
    metric: Literal["requests", "tokens"] = "requests"

    def build(self, context: PolicyContext) -> PowerOfTwoRouter:
        """A router for one gateway."""
        return PowerOfTwoRouter(context.streams, self.metric)


class PowerOfTwoRouter:
    """Draws from the stream ``router, power-of-two``, twice a request."""

    def __init__(self, streams: Streams, metric: str) -> None:
        self._draw = streams.uniforms("router", "power-of-two")
        self._metric = metric

    def choose(self, request: Request, fleet: FleetView) -> int:
        """The less loaded of two different replicas drawn at random."""
        replicas = fleet.all()
        count = len(replicas)
        if count == 1:
            return replicas[0]
        first = int(self._draw() * count)
        second = int(self._draw() * (count - 1))
        # Drawn from the others: the places from the first one on move up by one.
        second += second >= first
        one, other = replicas[first], replicas[second]
        return other if fleet.value(other, self._metric) < fleet.value(one, self._metric) else one

    def on_routed(self, request: Request, replica: int) -> None:
        """Of no concern."""

    def on_finished(self, request: Request, replica: int) -> None:
        """Of no concern."""
