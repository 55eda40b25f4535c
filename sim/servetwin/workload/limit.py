"""A client that never has more than so many requests under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from servetwin.request import Request
from servetwin.workload.stream import RequestStream


class LimitedStream(RequestStream):
    """Open arrivals through a client with a bounded number of requests in flight.

    A request that arrives while ``most`` are under way waits at the client, first come, first served, and is sent when
    one of them has ended. Sending is its arrival: deadlines and every latency count from there, and the wait at the
    client is in none of them.

    Source: vLLM ``benchmarks/serve.py``: ``--max-concurrency`` is an ``asyncio.Semaphore`` around the call that sends a
    request and takes its start time.

    Args:
        inner: an open stream, whose requests do not follow from one another.
        most: requests under way at most.
        until_ps: no request is sent then or later [ps].
    """

    def __init__(self, inner: RequestStream, most: int, until_ps: int) -> None:
        super().__init__(inner.expected)
        self.trace_block_hit_rate_infinite = inner.trace_block_hit_rate_infinite
        self.trace_counts = inner.trace_counts
        self._inner = inner
        self._requests = iter(inner)
        self._free = most
        self._unused = True
        self._until_ps = until_ps

    def __iter__(self) -> Iterator[Request]:
        """The requests that find a free place at once, from the first on to the first that does not."""
        while self._free:
            self._free -= 1
            request = self._next()
            if request is None:
                break
            yield request
        # From now on a request follows from the end of another.
        self._unused = False

    def on_finished(self, request: Request, visible_ps: int) -> Sequence[Request]:
        """The request that takes the place of ``request``, sent now or, if it is not there yet, on arrival."""
        if self._unused:
            self._free += 1
            return ()
        following = self._next()
        if following is None:
            return ()
        late = visible_ps - following.arrival_ps
        if late > 0:
            following.postpone(late)
        return (following,) if following.arrival_ps < self._until_ps else ()

    def _next(self) -> Request | None:
        request = next(self._requests, None)
        self.max_tokens_seen = self._inner.max_tokens_seen
        return request
