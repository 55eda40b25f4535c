"""Requests whose cached blocks a connector fetches from elsewhere, or lets others fetch from here.

What a connector has done shows at the next plan: a request whose blocks it has filled is back in the queue, and
blocks that it does not read any more are free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.entering import queue_key
from servetwin.engine.states import LOADED, LOADING, LOST, OUTSIDE, WAITING
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank

BACK, FREED, GONE, NEWS = range(4)
"""What a connector has to say: of a request aside it is done with, of one that has ended and is not read any more, of
one that is not wanted here any more, and that it finds something else for a request in the queue than it did."""


def load(rank: Rank, request: Request, found: int, tokens: int) -> None:
    """Give the request, just taken from the queue, its blocks, and let the connector fill those found elsewhere.

    Args:
        rank: the rank.
        request: the request.
        found: blocks found in the rank's own cache.
        tokens: tokens that the connector has found beyond them.
    """
    size = rank.settings.block_size
    rank.cache.admit(request)
    request.computed = found * size
    request.state = LOADING
    after = request.computed + tokens
    rank.aside[request] = after
    rank.tokens_held += after
    # Steps planned before have less in the cache: they are of another series.
    rank.batch.version += 1
    # With all but the last token there, that one is next, and has its slot.
    rank.cache.hold(request, -(-(after + (after == request.target - 1)) // size))
    assert rank.connector is not None
    rank.connector.load(request, tokens, lambda there, after: _loaded(rank, request, tokens, there, after))


def _loaded(rank: Rank, request: Request, tokens: int, there: bool, after: bool) -> None:
    """The connector is done with the request, which returns to the front of the queue at the next plan."""
    if there:
        request.computed += tokens
        request.state = LOADED
        rank.cache.fill(request, request.computed)
    else:
        request.state = LOST
    tell(rank, request, BACK, after)


def tell(rank: Rank, request: Request, what: int, after: bool = False) -> None:
    """The connector has something to say, which the next plan takes in.

    Args:
        rank: the rank.
        request: of which request.
        what: what it is.
        after: whether steps that end at this very instant have ended, and what follows them is planned.
    """
    rank.returning.append((rank.hears(after, what != FREED), request, what))


def take_in(rank: Rank, now: int) -> None:
    """Take in what the connector has said by ``now`` [ps]."""
    returning = rank.returning
    back: list[Request] = []
    while returning and returning[0][0] <= now:
        _, request, what = returning.popleft()
        if what == FREED:
            del rank.kept[request]
            _free(rank, request, request.computed)
            request.state = OUTSIDE
        elif what == NEWS:
            rank.releases += 1
        elif what == GONE:
            _forget(rank, request)
        else:
            after = rank.aside.pop(request)
            if request.state == LOST:
                _free(rank, request, after)
                request.preempted_at = after
                request.state = WAITING
            back.append(request)
    if len(back) > 1:
        # Each goes to the front: the one that entered the queue first is to be there in the end.
        back.sort(key=_entered, reverse=True)
    for request in back:
        rank.waiting.push_preempted(request, queue_key(rank, request))


def _entered(request: Request) -> tuple[int, int]:
    return request.queued_ps, request.id


def _free(rank: Rank, request: Request, tokens: int) -> None:
    """Free the blocks of a request without a seat, in which ``tokens`` tokens are or were to be."""
    rank.tokens_held -= tokens
    rank.batch.version += 1
    rank.cache.release(request, request.computed // rank.settings.block_size, returns=request.state == LOST)
    rank.releases += 1
    request.computed = 0


def _forget(rank: Rank, request: Request) -> None:
    """Take out a request that has no seat yet. A rare path, linear in the length of the queue."""
    state = request.state
    if state == LOADED:
        rank.waiting.remove(request)
        _free(rank, request, request.computed)
    elif request in rank.aside:
        _free(rank, request, rank.aside.pop(request))
    elif state == WAITING:
        rank.waiting.remove(request)
    else:
        rank.incoming.remove(request)
    request.state = OUTSIDE


def take_back(rank: Rank, head: Request) -> bool:
    """Free the loaded blocks of the requests that wait behind ``head``; they will look for them again.

    Without this, requests that hold loaded blocks but no seat could keep the head out for ever while nothing runs.
    Returns whether any blocks were freed.
    """
    behind = [request for request in rank.waiting if request.state == LOADED and request is not head]
    for request in behind:
        request.preempted_at = request.computed
        request.state = LOST
        _free(rank, request, request.computed)
        request.state = WAITING
    return bool(behind)
