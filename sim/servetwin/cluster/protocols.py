"""What routers, admission and controllers may see and do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from servetwin.request import Request

REQUESTS = "requests"
TOKENS = "tokens"
METRICS = (REQUESTS, TOKENS)


class FleetView(Protocol):
    """The replicas that may receive a request, as an index; replicas are named by their index in the cluster.

    Metrics: ``requests`` is how many requests the gateway has routed there and not seen finish; ``tokens`` is the
    prompt and generated tokens of those requests, as of the replica's last finished step.
    """

    def all(self) -> Sequence[int]:
        """Every routable replica, ascending. Do not change it."""

    def least(self, metric: str) -> int:
        """The replica with the smallest value; ties go to the smallest index. O(log n)."""

    def value(self, replica: int, metric: str) -> int:
        """The value of one replica. O(1)."""


class Router(Protocol):
    """Chooses a replica for each request, on what the view shows; private state changes in the hooks only."""

    def choose(self, request: Request, fleet: FleetView) -> int:
        """The replica that gets the request. The output length of the request must not be read."""

    def on_routed(self, request: Request, replica: int) -> None:
        """The request was sent to ``replica``."""

    def on_finished(self, request: Request, replica: int) -> None:
        """The request has left ``replica``, whatever its outcome."""


class Admission(Protocol):
    """Decides whether a request enters the cluster at all."""

    def admit(self, request: Request, fleet: FleetView) -> str | None:
        """None to let the request in, else the reason why it is rejected (HTTP 429)."""
