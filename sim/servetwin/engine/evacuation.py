"""A replica that leaves: its requests, as others can take them over.

What lies in its cache is lost, and so are tokens that a step still to come would have yielded. Tokens that were yielded
stay known: another replica computes prompt and tokens again, as after a preemption. Source: request migration of
github.com/ai-dynamo/dynamo (docs/fault_tolerance).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.loading import take_in
from servetwin.engine.preemption import preempt
from servetwin.engine.states import DECODING, ENDING, LOADED, OUTSIDE
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


def evacuate(rank: Rank) -> list[Request]:
    """Take all requests out, in the order in which they were admitted or queued; nothing is left of them.

    The step under way has ended, and no other has begun.
    """
    take_in(rank, rank.now())
    running = list(rank.running)
    seated = set(running)
    for request in reversed(running):
        _unplan(rank, request)
    found = [*running, *rank.aside]
    for request, tokens in list(rank.aside.items()):
        del rank.aside[request]
        rank.tokens_held -= tokens
        rank.cache.release(request, request.computed // rank.settings.block_size, returns=False)
    while rank.waiting:
        request = rank.waiting.take()
        if request.state == LOADED:
            rank.tokens_held -= request.computed
            rank.cache.release(request, request.computed // rank.settings.block_size, returns=False)
        if request not in seated:
            found.append(request)
    found += rank.incoming
    rank.incoming.clear()
    for request in list(rank.kept):
        rank.tokens_held -= request.computed
        rank.cache.release(request, request.computed // rank.settings.block_size, returns=False)
        request.state = OUTSIDE
    rank.kept.clear()
    rank.returning.clear()
    rank.pipeline.clear()
    rank.prefilling.clear()
    rank.paused.clear()
    rank.generated = 0
    for request in found:
        _forget_place(request)
    return found


def _unplan(rank: Rank, request: Request) -> None:
    """Take a request from its seat, without the tokens of steps that will not come."""
    if request.state == DECODING:
        decoded = rank.batch.gained_since(request, rank.next_output)
        lost = decoded + (request.join_step > rank.next_output)
        if request.join_step < rank.next_output:
            request.last_token_ps = rank.visible_ps
    else:
        # Of those that are about to end the last token is still to come.
        lost = int(request.state == ENDING)
    preempt(rank, request, 0)
    request.preemptions -= 1
    request.produced -= lost
    request.preempted_at = max(0, request.preempted_at - lost)


def _forget_place(request: Request) -> None:
    request.state = OUTSIDE
    request.computed = request.held = request.chain_blocks = request.joined = request.recompute_left = 0
    request.join_step = request.order = -1
    request.path = request.own = None
