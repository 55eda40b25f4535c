"""What joins the engines of a cluster whose prefill and decode are on different replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from servetwin.cluster.hand_over import HandOver
from servetwin.request import Request


class Mover(Protocol):
    """Moves KV cache between replicas."""

    def reserved(self, hand_over: HandOver, found: int, loaded: Callable[[bool, bool], None]) -> None:
        """The decoding replica has blocks for what it lacks beyond its own ``found`` tokens."""

    def computing(self, hand_over: HandOver, computed: int, end_ps: int) -> None:
        """A step begins now that brings the prefill to ``computed`` tokens at ``end_ps`` [ps]."""

    def unneeded(self, hand_over: HandOver) -> None:
        """The decoding replica has all that it needs."""


class HandOverConnector:
    """The ``KVConnector`` of one replica: it lets its prefills be fetched, and fetches those of others.

    Args:
        mover: moves KV cache between the replicas.
        watches: whether KV cache is sent while it is computed.
    """

    def __init__(self, mover: Mover, watches: bool) -> None:
        self.watches = watches
        self._mover = mover

    def lookup(self, request: Request, local_tokens: int) -> int:
        """All but the last known token, where another replica has prefilled the request."""
        hand_over: HandOver | None = request.hand_over
        if hand_over is None or hand_over.over or request is hand_over.prefill:
            return 0
        lacking = request.target - 1 - local_tokens
        if lacking <= 0:
            self._mover.unneeded(hand_over)
            return 0
        return lacking

    def load(self, request: Request, tokens: int, done: Callable[[bool, bool], None]) -> None:
        """The request has its blocks: what it lacks may be sent."""
        self._mover.reserved(request.hand_over, request.target - 1 - tokens, done)

    def saved(self, request: Request, tokens: int) -> None:
        """Of no concern: what is computed is told when the step begins, or at the end."""

    def computing(self, request: Request, before: int, tokens: int, end_ps: int) -> None:
        """A step begins now, and ends at ``end_ps`` [ps], that computes ``tokens`` prompt tokens after ``before``."""
        hand_over: HandOver | None = request.hand_over
        if hand_over is not None and request is hand_over.prefill:
            self._mover.computing(hand_over, before + tokens, end_ps)

    def finished(self, request: Request) -> bool:
        """The blocks of a prefill are kept until they have been fetched."""
        hand_over: HandOver | None = request.hand_over
        if hand_over is None or hand_over.over or hand_over.fetched or request is not hand_over.prefill:
            return False
        hand_over.kept = True
        return True
