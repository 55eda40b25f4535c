"""Requests whose cached blocks a connector fetches from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.states import LOADED, LOADING, WAITING
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


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
    rank.aside[request] = None
    rank.tokens_held += request.computed + tokens
    rank.cache.hold(request, -(-(request.computed + tokens) // size))
    assert rank.connector is not None
    rank.connector.load(request, tokens, lambda: _loaded(rank, request, tokens))


def _loaded(rank: Rank, request: Request, tokens: int) -> None:
    """The request's blocks are filled; it returns to the front of the queue at the next plan."""
    request.computed += tokens
    request.state = LOADED
    rank.cache.fill(request, request.computed)
    rank.returning.append((rank.now(), request))
    rank.on_returning()


def take_back(rank: Rank, head: Request) -> bool:
    """Free the loaded blocks of the requests that wait behind ``head``; they will look for them again.

    Without this, requests that hold loaded blocks but no seat could keep the head out for ever while nothing runs.
    Returns whether any blocks were freed.
    """
    behind = [request for request in rank.waiting if request.state == LOADED and request is not head]
    for request in behind:
        rank.tokens_held -= request.computed
        rank.cache.release(request, request.held, returns=True)
        request.computed = 0
        request.state = WAITING
    return bool(behind)
