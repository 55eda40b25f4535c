"""The end of a step: its tokens are stamped, and requests whose last token it yields leave.

Source: vLLM ``v1/core/sched/scheduler.py``, ``update_from_output``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.plan import PlannedStep
from servetwin.engine.states import KEPT, OUTSIDE
from servetwin.request import COMPLETED, Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


def complete(rank: Rank, step: PlannedStep, start_ps: int, end_ps: int) -> None:
    """The output of ``step``, which lasted from ``start_ps`` to ``end_ps`` [ps], is there."""
    index = rank.next_output
    rank.next_output = index + 1
    visible = end_ps + rank.settings.output_ps_per_request * step.shape.requests
    if visible < rank.visible_ps:
        visible = rank.visible_ps
    rank.visible_ps = visible
    rank.generated += step.emitted
    batch = rank.batch
    if batch.step == index + 1 and batch.finishes and batch.finishes[0][0] <= index + 1:
        # Nothing is planned beyond this step: its last decodes have not been retired yet.
        rank.retire()
    if step.late is not None:
        for request in step.late:
            if request.first_token_ps < 0:
                # Its prompt came from elsewhere.
                request.first_token_ps = visible
                if request.prefill_done_ps < 0:
                    request.prefill_done_ps = end_ps
            else:
                rank.on_gap(visible - request.last_token_ps, start_ps)
    if step.completing:
        for request in step.completing:
            _token_of_prefill(rank, request, start_ps, end_ps, visible)
    if rank.leavers:
        for request in rank.leavers.pop(index, ()):
            request.last_token_ps = visible
    ended = rank.ended.pop(index, None)
    if ended is not None:
        if len(ended) > 1:
            ended.sort(key=_order_of_admission)
        for request in ended:
            _finish(rank, request, visible)


def _token_of_prefill(rank: Rank, request: Request, start_ps: int, end_ps: int, visible: int) -> None:
    """The first token, or the first one after a preemption."""
    if request.first_token_ps < 0:
        request.first_token_ps = visible
        if request.prefill_done_ps < 0:
            request.prefill_done_ps = end_ps
    else:
        rank.on_gap(visible - request.last_token_ps, start_ps)
    request.last_token_ps = visible


def _finish(rank: Rank, request: Request, visible: int) -> None:
    if request in rank.running:
        del rank.running[request]
        if rank.connector is not None and rank.connector.finished(request):
            rank.kept[request] = None
            request.state = KEPT
        else:
            _leave(rank, request)
    else:
        # Preempted while its last token was on the way.
        rank.waiting.remove(request)
        request.own = None
        request.state = OUTSIDE
    if not request.discarded:
        rank.generated -= request.output_tokens
    request.last_token_ps = visible
    request.outcome = COMPLETED
    rank.on_finished(request, visible)


def _leave(rank: Rank, request: Request) -> None:
    """The blocks of a request that has ended return to the free queue."""
    size = rank.settings.block_size
    overlap = rank.pool.overlap
    computed = request.computed
    rank.tokens_held -= computed
    rank.cache.release(request, computed // size, returns=False)
    rank.released += computed - (overlap - rank.pool.overlap) * size
    rank.releases += 1
    request.state = OUTSIDE


def _order_of_admission(request: Request) -> int:
    return request.order
