"""How requests get into the waiting queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servetwin.engine.states import WAITING
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


def enter(rank: Rank, request: Request) -> None:
    """The front end is done with the request."""
    request.state = WAITING
    rank.waiting.push(request, None if rank.scheduler.fcfs else queue_key(rank, request))


def queue_key(rank: Rank, request: Request, in_flight: int = 0) -> Any:
    """The place of a request in the waiting queue, where that is not a matter of arrival.

    Args:
        rank: the rank.
        request: the request, about to enter the queue.
        in_flight: how many of its produced tokens are still on the way.
    """
    scheduler = rank.scheduler
    if scheduler.fcfs:
        return None
    cached = 0
    if scheduler.reads_cache:
        found, _ = rank.cache.look_up(request, request.prompt_tokens + request.produced - in_flight)
        cached = found * rank.settings.block_size
    return scheduler.order(request, cached)
