"""Pass 1 of a plan when budget or blocks are short: request by request, in order of admission, with preemption.

This is the only loop over the running requests. It runs when blocks run out, or when a chunk competes for the budget
with requests admitted behind it; every other step is planned from the batch's sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.preemption import pause, preempt
from servetwin.engine.states import DECODING, ENDING, PREFILLING
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


def schedule_in_order(rank: Rank, chunks: list[tuple[Request, int]]) -> tuple[int, bool]:
    """Schedule the running requests as vLLM's first pass does.

    Args:
        rank: the rank; decoding requests that get no place are paused, victims are preempted.
        chunks: receives the prefill chunks.

    Returns:
        The budget that is left [tokens], and whether anybody was preempted.
    """
    budget = rank.settings.max_num_batched_tokens
    order = list(rank.running)
    scheduled: dict[Request, int] = {}
    new_blocks: dict[Request, int] = {}
    preempted = False
    index = 0
    while index < len(order) and budget > 0:
        request = order[index]
        if request.state == ENDING:
            index += 1
            continue
        want = _want(rank, request, budget)
        while (need := _need(rank, request, want)) > rank.pool.free:
            place = _victim(rank, order)
            victim = order.pop(place)
            if place < index:
                index -= 1
            budget += scheduled.pop(victim, 0)
            preempt(rank, victim, new_blocks.pop(victim, 0))
            preempted = True
            if victim is request:
                break
        else:
            if request.state == DECODING:
                rank.pool.take(need)
                new_blocks[request] = need
            else:
                rank.cache.hold(request, _blocks(rank, request, want))
            scheduled[request] = want
            budget -= want
            index += 1
            continue
        break
    for request in order:
        if request.state == DECODING and request not in scheduled:
            pause(rank, request)
    chunks.extend((request, want) for request, want in scheduled.items() if request.state == PREFILLING)
    return budget, preempted


def _want(rank: Rank, request: Request, budget: int) -> int:
    if request.state == DECODING:
        return 1
    want = request.target - request.computed
    threshold = rank.settings.long_prefill_token_threshold
    if 0 < threshold < want:
        want = threshold
    return min(want, budget)


def _blocks(rank: Rank, request: Request, want: int) -> int:
    return -(-(request.computed + want) // rank.settings.block_size)


def _need(rank: Rank, request: Request, want: int) -> int:
    """Free blocks that the request's tokens of this step take."""
    if request.state == DECODING:
        return int(rank.batch.computed(request) % rank.settings.block_size == 0)
    return rank.cache.cost(request, _blocks(rank, request, want))


def _victim(rank: Rank, order: list[Request]) -> int:
    """The place of the request to be preempted: the largest key, among equals the last admitted."""
    key = rank.scheduler.victim
    if key(order[-1]) is None:
        return len(order) - 1
    return max(range(len(order)), key=lambda place: (key(order[place]), place))
