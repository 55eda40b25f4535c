"""Full checks of an engine's accounts: every sum that is kept is counted again, request by request."""

from __future__ import annotations

from collections.abc import Iterator

from servetwin.engine.batch import DecodeBatch
from servetwin.engine.draft_batch import DraftBatch
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
    size = rank.settings.block_size
    batches = [lane.batch for lane in rank.lanes] or [rank.batch]
    owner = {id(request): batch for batch in batches for request in batch.members()} if rank.lanes else {}
    members: list[list[Request]] = [[] for _ in batches]
    held = computed = 0
    for request in rank.running:
        if request.state == DECODING:
            place = batches.index(owner[id(request)]) if owner else 0
            now = batches[place].computed(request)
            members[place].append(request)
            held += batches[place].held(request)
        else:
            now = request.computed
            held += max(request.held, -(-now // size))
        computed += now
    for request, tokens in _with_blocks_but_no_seat(rank):
        held += request.held
        computed += tokens
    pool = rank.pool
    found = [
        ("tokens in the KV cache", rank.tokens_held, computed),
        ("the length of the free queue", pool.free, pool.queued()),
        ("KV blocks in use", pool.total - pool.free + pool.overlap, held),
    ]
    for place, (batch, requests) in enumerate(zip(batches, members, strict=True)):
        suffix = f" of micro-batch {place}" if rank.lanes else ""
        found += [(name + suffix, kept, counted) for name, kept, counted in _sums(batch, requests)]
    return found


def _sums(batch: DecodeBatch, requests: list[Request]) -> list[tuple[str, int, int]]:
    """The accounts of a batch of these requests."""
    tokens = [batch.computed(request) for request in requests]
    found = [
        ("the number of decoding requests", batch.size, len(tokens)),
        ("the context of the decodes", batch.context, sum(tokens) + len(tokens)),
        ("the tokens of the next step", batch.tokens(), sum(batch.tokens_of(request) for request in requests)),
        ("the blocks that the next step needs", batch.new_blocks(1),
         sum(batch.need(request, batch.tokens_of(request)) for request in requests)),
    ]  # fmt: skip
    if isinstance(batch, DraftBatch):
        for window in batch.windows:
            within = sum(min(now + 1, window.window) for now in tokens)
            found.append((f"the context within window {window.window}", window.context, within))
        return found
    size = batch.block_size
    crossings = [0] * size
    for now in tokens:
        crossings[(batch.step - now) % size] += 1
    found += [
        (f"the need of blocks in {size}-step phase {phase}", batch.crossings[phase], count)
        for phase, count in enumerate(crossings)
    ]
    for window in batch.windows:
        wide, reads = window.window, [now + 1 for now in tokens]
        found.append((f"the context read within window {wide}", window.context, sum(min(r, wide) for r in reads)))
        growing = sum(r < wide for r in reads)
        found.append((f"the number of requests that grow within window {wide}", window.growing, growing))
    return found


def _with_blocks_but_no_seat(rank: Rank) -> Iterator[tuple[Request, int]]:
    """Requests whose blocks a connector fills, has filled or still reads, and the tokens that count as theirs."""
    yield from rank.aside.items()
    yield from ((request, request.computed) for request in rank.waiting if request.state == LOADED)
    yield from ((request, request.computed) for request in rank.kept)
