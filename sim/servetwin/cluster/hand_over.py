"""One request's way from the replica that prefills it to the one that decodes it."""

from __future__ import annotations

from collections.abc import Callable

from servetwin.request import Request


class HandOver:
    """What is known of the KV cache of one request while it changes replicas.

    The prefill is a request of its own, of one output token, as real routers send it.

    Attributes:
        request: the request, which ends where it decodes.
        prefill: its prefill.
        source, target: indices of the replicas that prefill and decode it; -1 = not chosen yet.
        queued_ps: when it reached the waiting queue of the decoding replica [ps]; -1 = not yet.
        scheduled_ps: when the first step there that it takes part in was planned [ps].
        reserved_ps: when that replica gave it blocks [ps].
        start_ps: when the transfer began, its set-up included [ps].
        end_ps: when the KV cache was in the blocks of the decoding replica [ps].
        kept_ps: since when the prefilling replica keeps the blocks of the ended prefill [ps].
        freed_ps: when it freed them [ps].
        moved_bytes: bytes that were sent for it, those of failed attempts included [B].
        attempts: transfers that were begun.
        ready_ps: when the set-up of the attempt is over [ps]; -1 = none was begun.
        failing: whether the attempt will turn out to have failed.
        found: tokens that the decoding replica had itself.
        hit_tokens: tokens that it had, or was sent, when they were first used there.
        computed: tokens that the prefilling replica has computed, or will have when a step under way ends.
        layers_end_ps: when that step ends [ps].
        sent: tokens of them, from the first on, that were sent or are on the way.
        flying: parts that are on the way, or wait to be sent.
        prefilled: whether the prefill has ended.
        fetched: whether nobody needs the blocks of the prefilling replica any more.
        kept: whether the prefilling replica keeps the blocks of the ended prefill.
        over: whether no KV cache is to come: it is there, or was given up.
        closed: whether the request has ended.
        journey: changes when what is on the way is of no use any more.
        loaded: tells the decoding replica whether the tokens are there; None = it has no blocks for them yet.
    """

    __slots__ = (
        "attempts", "closed", "computed", "end_ps", "failing", "fetched", "flying", "found", "freed_ps", "hit_tokens",
        "journey", "kept", "kept_ps", "layers_end_ps", "loaded", "moved_bytes", "over", "prefill", "prefilled",
        "queued_ps", "ready_ps", "request", "reserved_ps", "scheduled_ps", "sent", "source", "start_ps", "target",
    )  # fmt: skip

    def __init__(self, request: Request, prefill: Request) -> None:
        self.request = request
        self.prefill = prefill
        self.source = self.target = -1
        self.queued_ps = self.scheduled_ps = self.reserved_ps = self.ready_ps = self.start_ps = self.end_ps = -1
        self.kept_ps = self.freed_ps = self.layers_end_ps = -1
        self.moved_bytes = self.attempts = self.hit_tokens = 0
        self.found = self.computed = self.sent = self.flying = 0
        self.prefilled = self.fetched = self.failing = self.kept = self.over = self.closed = False
        self.loaded: Callable[[bool, bool], None] | None = None
        self.journey = 0

    def restart(self) -> None:
        """What was sent and is on the way is of no use: nothing has been sent."""
        self.journey += 1
        self.flying = 0
        self.sent = self.found
        self.ready_ps = self.start_ps = -1


def prefill_of(request: Request, discarded: bool) -> Request:
    """The prefill of a request, as a request of its own: one token, ``discarded`` or not."""
    prefill = Request(
        request.id, request.arrival_ps, request.prompt_tokens, 1, request.segments, request.continues,
        request.session_id, request.turn, request.class_name, request.priority, request.deadline_ps,
    )  # fmt: skip
    prefill.discarded = discarded
    return prefill
