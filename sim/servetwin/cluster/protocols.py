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


class SplitView(Protocol):
    """What a decider sees of the cluster when a request has arrived: what the gateway has sent and what came back.

    The least loaded replica is the one with the fewest prompt and generated tokens of unfinished requests.
    """

    @property
    def prefill_waiting(self) -> int:
        """Requests that wait at prefilling replicas, as far as the gateway can tell: those beyond one for each."""

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens of the prefills under way on the least loaded prefilling replica."""

    @property
    def decode_tokens(self) -> int:
        """Prompt and generated tokens of the requests on the least loaded decoding replica."""

    @property
    def decode_room(self) -> int:
        """Tokens for which that replica has KV cache."""

    @property
    def mixed(self) -> bool:
        """Whether there are replicas that do both."""

    def cached_tokens(self, request: Request) -> int:
        """Prompt tokens that the decoding replica of the request is believed to have cached.

        Only for policies that say ``reads_cache``; the replica is known with ``order: decode-first`` only, else 0.
        """

    def ttft_ps(self, request: Request) -> int:
        """The TTFT of the request if it is split, as predicted for the least loaded replicas [ps].

        Only for policies that say ``predicts``.
        """

    def tpot_ps(self, request: Request) -> int:
        """The time of a decode step with the request on the least loaded decoding replica, as predicted [ps].

        Only for policies that say ``predicts``.
        """


SPLIT = "split"
"""Prefill on one replica, decode on another."""
LOCAL = "local"
"""Both on a decoding replica."""
MIXED = "mixed"
"""Both on a replica of a pool that does both."""
CHOICES = (SPLIT, LOCAL, MIXED)


class Decider(Protocol):
    """Decides for each request whether it is prefilled and decoded on different replicas.

    It is asked once for each request, in order of arrival; what it remembers of that is its private state.
    """

    def decide(self, request: Request, view: SplitView) -> str:
        """One of ``CHOICES``, or ``REJECT`` and a reason. The output length of the request must not be read."""


REJECT = "reject: "
"""Before the reason for which a decider rejects a request."""


class Splitter(Protocol):
    """Takes requests over from the gateway where prefill and decode are on different replicas."""

    def submit(self, request: Request) -> None:
        """A request has been admitted, now."""

    def finished(self, request: Request, visible_ps: int) -> bool:
        """A replica is done with a request, or with the prefill of one; True if the request itself goes on."""

    def stranded(self, replica: int, requests: Sequence[Request]) -> None:
        """A replica has left, with requests and prefills on it."""
