"""Full checks of an engine's accounts: every sum that is kept is counted again, request by request."""

from __future__ import annotations

from collections.abc import Iterator

from servetwin.engine.rank import Rank
from servetwin.engine.states import DECODING, LOADED
from servetwin.errors import InvariantError
from servetwin.request import Request


def audit_rank(rank: Rank, replica: int) -> None:
    """Raise ``InvariantError`` if an account of the rank of replica ``replica`` does not balance."""
    for account, kept, counted in _accounts(rank):
        if kept != counted:
            raise InvariantError(f"replica {replica}: {account} is kept as {kept} but counts as {counted}")
    if rank.pool.free < 0:
        raise InvariantError(f"replica {replica}: {-rank.pool.free} more KV blocks in use than there are")
    if len(rank.running) > rank.settings.max_num_seqs:
        raise InvariantError(f"replica {replica}: more running requests than seats")


def _accounts(rank: Rank) -> list[tuple[str, int, int]]:
    """Name, kept value and counted value of every account."""
    batch = rank.batch
    size = rank.settings.block_size
    held = computed = context = decodes = 0
    crossings = [0] * size
    windows = [(window, [0, 0]) for window in batch.windows]
    for request in rank.running:
        if request.state == DECODING:
            now = batch.computed(request)
            decodes += 1
            context += now + 1
            crossings[(batch.step - now) % size] += 1
            held += -(-now // size)
            for window, counted in windows:
                counted[0] += min(now + 1, window.window)
                counted[1] += now + 1 < window.window
        else:
            now = request.computed
            held += max(request.held, -(-now // size))
        computed += now
    for request in _with_blocks_but_no_seat(rank):
        held += request.held
        computed += request.held * size
    pool = rank.pool
    return [
        ("the number of decoding requests", batch.size, decodes),
        ("the context read by the next step", batch.context, context),
        ("tokens in the KV cache", rank.tokens_held, computed),
        ("the length of the free queue", pool.free, pool.queued()),
        ("KV blocks in use", pool.total - pool.free + pool.overlap, held),
        *((f"the need of blocks in {size}-step phase {phase}", batch.crossings[phase], count)
          for phase, count in enumerate(crossings)),
        *((f"the context read within window {window.window}", window.context, counted[0])
          for window, counted in windows),
        *((f"the number of requests that grow within window {window.window}", window.growing, counted[1])
          for window, counted in windows),
    ]  # fmt: skip


def _with_blocks_but_no_seat(rank: Rank) -> Iterator[Request]:
    """Requests whose blocks a connector fills or has filled."""
    yield from rank.aside
    yield from (request for request in rank.waiting if request.state == LOADED)
