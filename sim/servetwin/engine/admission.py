"""Pass 2 of a plan: requests from the waiting queue get seats, blocks and their first chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.loading import load, take_back
from servetwin.engine.states import DECODING, LOADED, PREFILLING
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


def admit_waiting(rank: Rank, now: int, budget: int, chunks: list[tuple[Request, int]]) -> None:
    """Admit requests from the head of the queue until one does not fit; it blocks all behind it.

    Args:
        rank: the rank.
        now: as of when the step is planned [ps].
        budget: tokens left of the step's budget, at least 1.
        chunks: the step's chunks so far; those of admitted requests are appended.
    """
    settings = rank.settings
    size = settings.block_size
    waiting = rank.waiting
    pool = rank.pool
    seats = settings.max_num_seqs - len(rank.running)
    while seats > 0 and budget > 0 and waiting:
        request = waiting.head()
        decodes = False
        if request.state == LOADED:
            target, found, referred, external = request.target, request.computed // size, request.held, 0
            decodes = request.computed == target - 1
        else:
            request.target = target = request.prompt_tokens + request.produced
            found = referred = 0
            if request.segments or request.own is not None:
                found, referred = rank.cache.look_up(request, target)
                if found and settings.recompute_last_block:
                    found -= 1
            external = rank.connector.lookup(request, found * size) if rank.connector is not None else 0
        want = external or target - found * size
        if not external:
            if 0 < settings.long_prefill_token_threshold < want:
                want = settings.long_prefill_token_threshold
            if want > budget:
                if not settings.chunked_prefill:
                    rank.blocked = (rank.batch.version, rank.releases, rank.batch.tokens())
                    return
                want = budget
        after = found * size + want
        if settings.reserve_full_prompt or (external and after == target - 1):
            after = target
        blocks = -(-after // size)
        if decodes:
            blocks = max(request.held, rank.batch.first_blocks(request))
        need = blocks - min(referred, blocks)
        if chunks or rank.batch.size:
            need += settings.watermark_blocks
        if need > pool.free:
            if rank.running or rank.aside or rank.kept or not take_back(rank, request):
                rank.blocked = (rank.batch.version, rank.releases, rank.batch.tokens())
                return
            continue
        waiting.take()
        if external:
            load(rank, request, found, external)
            continue
        if decodes:
            _join(rank, request, blocks, now)
            budget -= 1
            seats -= 1
            continue
        _seat(rank, request, found, now)
        rank.give(request, want)
        chunks.append((request, want))
        budget -= want
        seats -= 1


def _join(rank: Rank, request: Request, blocks: int, now: int) -> None:
    """The request, of whose known tokens all but the last are loaded, decodes in the step being planned."""
    _run(rank, request)
    rank.cache.hold(request, blocks)
    if request.scheduled_ps < 0:
        request.scheduled_ps = now
        request.hit_tokens = request.computed
    rank.fill(request, 1)
    request.state = DECODING
    rank.batch.join_loaded(request)
    rank.rejoined = [request] if rank.rejoined is None else [*rank.rejoined, request]


def _run(rank: Rank, request: Request) -> None:
    """The request gets a seat at the end of the running list."""
    request.order = rank.admitted
    rank.admitted += 1
    rank.running[request] = None


def _seat(rank: Rank, request: Request, found: int, now: int) -> None:
    """The request joins the end of the running list with its ``found`` blocks."""
    _run(rank, request)
    rank.prefilling[request] = None
    if request.state != LOADED and (request.segments or request.own is not None):
        rank.cache.admit(request)
        request.computed = found * rank.settings.block_size
        rank.tokens_held += request.computed
    request.state = PREFILLING
    computed = request.computed
    if request.scheduled_ps < 0:
        request.scheduled_ps = now
        request.hit_tokens = computed
    if request.preempted_at:
        again = max(0, min(request.preempted_at, request.target) - computed)
        request.recompute_left = again
        request.recomputed_tokens += again
