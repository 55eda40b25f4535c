"""Streams of requests: the base of all, and one-shot requests, open or closed loop.

A stream is iterated over for the arrivals that do not depend on the system, and asked through ``on_finished``
for those that do. What a request is (its id, lengths, prefix, class) never depends on how the system fares in
open streams, so two systems under the same seed can be compared request by request: a session draws all its
turns, and reserves their ids, when it starts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from servetwin.errors import ScenarioError
from servetwin.request import CANCELLED, FAILED, REJECTED, Request
from servetwin.units import MAX_DAYS, MAX_PS, PS_PER_S
from servetwin.workload.contents import Content
from servetwin.workload.traces.trace import TraceCounts

LOST = frozenset((REJECTED, FAILED, CANCELLED))
NO_LIMIT = 1 << 200


def in_time(arrival_ps: int, path: str, found: object) -> int:
    """An arrival [ps] that the results can hold.

    Args:
        arrival_ps: the arrival [ps].
        path: the field of the workload that sets it.
        found: what the field says.

    Raises:
        ScenarioError: it lies beyond the longest simulated time.
    """
    if arrival_ps > MAX_PS:
        raise ScenarioError(
            f"a request would arrive after {arrival_ps / PS_PER_S / 86_400:,.4g} days; "
            f"a run spans at most {MAX_DAYS} simulated days",
            path=path,
            found=found,
            allowed="requests that follow each other faster",
            hint="set run.duration_s or fewer run.requests to end the run before",
        )
    return arrival_ps


class RequestStream(ABC):
    """Base of the streams.

    Attributes:
        expected: how many requests will come, at most; None = unknown.
        max_tokens_seen: longest prompt + output of the requests so far [tokens].
        trace_block_hit_rate_infinite: share of the trace's blocks that an endless cache would find, over all
            its requests in order; None where there are no block ids.
        trace_counts: what became of the trace's rows; None without a trace.
        reacts: whether requests may follow from the end of others.
    """

    def __init__(self, expected: int | None) -> None:
        self.expected = expected
        self.max_tokens_seen = 0
        self.trace_block_hit_rate_infinite: float | None = None
        self.trace_counts: TraceCounts | None = None
        self.reacts = True

    @abstractmethod
    def __iter__(self) -> Iterator[Request]:
        """The requests whose arrivals do not depend on the system, in order of arrival; can be read once."""

    def on_finished(self, request: Request, visible_ps: int) -> Sequence[Request]:
        """The requests that follow from the end of ``request``: in general one or none, several where an agent forks.

        Args:
            request: a request of this stream that has met its end.
            visible_ps: when its last token became visible, or it was refused or lost [ps]; what follows
                arrives no earlier.
        """
        del request, visible_ps
        return ()


class Clients:
    """When the clients of a closed loop come back.

    Args:
        thinks: think times [ps], one after the other.
        retry_ps: how long a client waits whose request was refused or lost [ps].
    """

    def __init__(self, thinks: Iterator[int], retry_ps: int) -> None:
        self._thinks = thinks
        self._retry_ps = retry_ps

    def returns_ps(self, request: Request, visible_ps: int) -> int:
        """When the client whose ``request`` ended at ``visible_ps`` [ps] sends the next one [ps]."""
        return visible_ps + (self._retry_ps if request.outcome in LOST else next(self._thinks))


@dataclass(frozen=True, slots=True)
class Starts:
    """When requests, or sessions, of a synthetic workload start that arrive by one process.

    Attributes:
        times: the starts that do not depend on the system [ps], ascending; in a closed loop those of the
            clients' first requests.
        clients: the clients of a closed loop; None = open.
        pace: the field of the workload that sets ``times``, and its value.
        think: the field that sets how soon a client or a session goes on, and its value.
    """

    times: Iterator[int]
    clients: Clients | None
    pace: tuple[str, object]
    think: tuple[str, object]


class OneShotStream(RequestStream):
    """Requests that have nothing to do with each other, or only a prefix.

    Args:
        starts: when they come.
        contents: what they are, in order of their ids.
        limit: most requests.
        until_ps: no request arrives then or later [ps].
        expected: how many requests will come, at most; None = unknown.
    """

    def __init__(
        self, starts: Starts, contents: Iterator[Content], limit: int, until_ps: int, expected: int | None
    ) -> None:
        super().__init__(expected)
        self.reacts = starts.clients is not None
        self._starts = starts
        self._contents = contents
        self._limit = limit
        self._until_ps = until_ps
        self._created = 0

    def __iter__(self) -> Iterator[Request]:
        """The open arrivals, or the first request of each client."""
        until, limit = self._until_ps, self._limit
        for arrival in self._starts.times:
            if arrival >= until or self._created >= limit:
                return
            if arrival > MAX_PS:
                in_time(arrival, *self._starts.pace)
            yield self._create(arrival)

    def on_finished(self, request: Request, visible_ps: int) -> Sequence[Request]:
        """The next request of the client whose request this was; nothing in an open stream."""
        starts = self._starts
        if starts.clients is None or self._created >= self._limit:
            return ()
        arrival = starts.clients.returns_ps(request, visible_ps)
        return (self._create(in_time(arrival, *starts.think)),) if arrival < self._until_ps else ()

    def _create(self, arrival_ps: int) -> Request:
        prompt, output, segments, kind = next(self._contents)
        request = Request(self._created, arrival_ps, prompt, output, segments)
        self._created += 1
        if kind is not None:
            kind.stamp(request)
        if prompt + output > self.max_tokens_seen:
            self.max_tokens_seen = prompt + output
        return request
