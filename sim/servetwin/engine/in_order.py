"""Pass 1 of a plan when budget or blocks are short: request by request, in order of admission, with preemption.

This is the only loop over the running requests. It runs when blocks run out, or when a chunk competes for the budget
with requests admitted behind it; every other step is planned from the batch's sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.lane import in_flight
from servetwin.engine.preemption import pause, preempt
from servetwin.engine.states import DECODING, ENDING, PREFILLING
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


def schedule_in_order(rank: Rank, chunks: list[tuple[Request, int]]) -> tuple[int, bool]:
    """Schedule the running requests as vLLM's first pass does.

    In a pipeline, requests in flight are passed over, except that a prompt may go on; and nobody in flight is
    preempted: where it is a victim's turn that is in flight, the plan ends, and is made again when an output is there.

    Args:
        rank: the rank; decoding requests that get no place are paused, victims are preempted.
        chunks: receives the prefill chunks.

    Returns:
        The budget that is left [tokens], and whether anybody was preempted or should have been.
    """
    plan = _Plan(rank)
    order = plan.order
    index = 0
    while index < len(order) and plan.budget > 0:
        request = order[index]
        if plan.passes_over(request):
            index += 1
            continue
        want = _want(rank, request, plan.budget)
        before = plan.make_room(request, want, index)
        if before < 0:
            break
        plan.schedule(request, want)
        index = before + 1
    scheduled, flying = plan.scheduled, plan.flying
    for request in order:
        if request.state == DECODING and request not in scheduled and request not in flying:
            pause(rank, request)
    chunks.extend((request, want) for request, want in scheduled.items() if request.state == PREFILLING)
    return plan.budget, plan.preempted


class _Plan:
    """What one pass has decided so far.

    Attributes:
        order: the running requests that are left, in order of admission.
        flying: those of them that a step in flight computes for.
        budget: tokens left.
        scheduled: tokens by request.
        preempted: whether anybody was preempted or should have been.
    """

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self.order = list(rank.running)
        self.flying = in_flight(rank)
        self.budget = rank.settings.max_num_batched_tokens
        self.scheduled: dict[Request, int] = {}
        self.preempted = False
        self._new_blocks: dict[Request, int] = {}
        self._decodes = rank.most_decodes

    def passes_over(self, request: Request) -> bool:
        """Whether the request gets nothing in this plan, whatever there is."""
        if request.state == DECODING:
            return not self._decodes or request in self.flying
        return request.state == ENDING

    def make_room(self, request: Request, want: int, index: int) -> int:
        """Preempt until there are blocks for the request's next ``want`` tokens.

        Returns:
            Its place in ``order``, ``index`` before; -1 if it is preempted itself, or a victim is in flight.
        """
        rank, order = self._rank, self.order
        while _need(rank, request, want) > rank.pool.free:
            self.preempted = True
            place = _victim(rank, order)
            if order[place] in self.flying:
                return -1
            victim = order.pop(place)
            if place < index:
                index -= 1
            if victim in self.scheduled:
                self.budget += self.scheduled.pop(victim)
                self._decodes += victim.state == DECODING
            preempt(rank, victim, self._new_blocks.pop(victim, 0))
            if victim is request:
                return -1
        return index

    def schedule(self, request: Request, want: int) -> None:
        """Give the request its blocks and ``want`` tokens."""
        rank = self._rank
        if request.state == DECODING:
            if want < rank.batch.tokens_of(request):
                rank.batch.trim(request, want)
            need = _need(rank, request, want)
            rank.pool.take(need)
            self._new_blocks[request] = need
            self._decodes -= 1
        else:
            rank.cache.hold(request, _blocks(rank, request, want))
        self.scheduled[request] = want
        self.budget -= want


def _want(rank: Rank, request: Request, budget: int) -> int:
    if request.state == DECODING:
        return min(rank.batch.tokens_of(request), budget)
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
        return rank.batch.need(request, want)
    return rank.cache.cost(request, _blocks(rank, request, want))


def _victim(rank: Rank, order: list[Request]) -> int:
    """The place of the request to be preempted: the largest key, among equals the last admitted."""
    key = rank.scheduler.victim
    if key(order[-1]) is None:
        return len(order) - 1
    return max(range(len(order)), key=lambda place: (key(order[place]), place))
