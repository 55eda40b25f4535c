"""Requests that lose their place in a plan: for one step (paused) or altogether (preempted).

Source: vLLM ``v1/core/sched/scheduler.py``, ``_preempt_request``: all blocks are freed, nothing counts as computed any
more, generated tokens stay known, and the request returns to the front of the waiting queue. There is no swapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.entering import queue_key
from servetwin.engine.states import DECODING, ENDING, PAUSED, WAITING
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


def pause(rank: Rank, request: Request) -> None:
    """The decoding request finds no budget in the step being planned."""
    rank.batch.leave(request)
    request.state = PAUSED
    rank.paused.append(request)
    if not _sat_out(rank, request):
        _leaves(rank, request)


def preempt(rank: Rank, request: Request, blocks_of_this_step: int) -> None:
    """Take everything from a running request and queue it again; its generated tokens stay known.

    Args:
        rank: the rank.
        request: the victim.
        blocks_of_this_step: blocks that it got in the plan that now gives it up.
    """
    batch = rank.batch
    size = rank.settings.block_size
    if request.state == DECODING:
        batch.leave(request)
        if not _sat_out(rank, request):
            _leaves(rank, request)
    else:
        rank.prefilling.pop(request, None)
    filled = request.computed
    in_flight = 0
    request.held += blocks_of_this_step
    if request.join_step >= 0:
        # Blocks that decode steps fill can be found from the end of those steps, but for what was known before.
        decoded = batch.gained_since(request, rank.next_output)
        filled = max(filled - decoded, request.target)
        in_flight = decoded + (request.join_step > rank.next_output)
    rank.tokens_held -= request.computed
    rank.cache.release(request, filled // size, returns=True)
    del rank.running[request]
    request.preempted_at = request.computed
    request.computed = 0
    request.join_step = -1
    request.recompute_left = 0
    request.preemptions += 1
    if request.state != ENDING:
        request.state = WAITING
    rank.waiting.push_preempted(request, queue_key(rank, request, in_flight))


def _sat_out(rank: Rank, request: Request) -> bool:
    """Whether the request sat out the step before; then it has left no token there."""
    if rank.rejoined and request in rank.rejoined:
        rank.rejoined.remove(request)
        return True
    return False


def _leaves(rank: Rank, request: Request) -> None:
    """Remember when the request's last token becomes visible, for the gap up to its next one."""
    step = rank.batch.step - 1
    if step < rank.next_output:
        request.last_token_ps = rank.visible_ps
    else:
        rank.leavers.setdefault(step, []).append(request)
