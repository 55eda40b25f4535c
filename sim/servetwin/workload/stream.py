"""Streams of requests: one-shot requests, sessions and replayed traces, open or closed loop.

A stream is iterated over for the arrivals that do not depend on the system, and asked through ``on_finished``
for those that do. What a request is (its id, lengths, prefix, class) never depends on how the system fares in
open streams, so two systems under the same seed can be compared request by request: a session draws all its
turns, and reserves their ids, when it starts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

from servetwin.errors import ScenarioError
from servetwin.request import CANCELLED, FAILED, REJECTED, Request, Segment
from servetwin.units import MAX_DAYS, MAX_PS, PS_PER_S
from servetwin.workload.contents import Content, Kind
from servetwin.workload.traces.trace import Trace, TraceCounts, infinite_hit_rate

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
    """

    def __init__(self, expected: int | None) -> None:
        self.expected = expected
        self.max_tokens_seen = 0
        self.trace_block_hit_rate_infinite: float | None = None
        self.trace_counts: TraceCounts | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Request]:
        """The requests whose arrivals do not depend on the system, in order of arrival; can be read once."""

    def on_finished(self, request: Request, visible_ps: int) -> Request | None:
        """The request that follows from the end of ``request``, or None.

        Args:
            request: a request of this stream that has met its end.
            visible_ps: when its last token became visible, or it was refused or lost [ps]; the follow-up
                arrives no earlier.
        """
        del request, visible_ps
        return None


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
    """When requests, or sessions, of a synthetic workload start, and when they stop coming.

    Attributes:
        times: the starts that do not depend on the system [ps], ascending; in a closed loop those of the
            clients' first requests.
        clients: the clients of a closed loop; None = open.
        limit: most requests.
        until_ps: no request arrives then or later [ps].
        expected: how many requests will come, at most; None = unknown.
        pace: the field of the workload that sets ``times``, and its value.
        think: the field that sets how soon a client or a session goes on, and its value.
    """

    times: Iterator[int]
    clients: Clients | None
    limit: int
    until_ps: int
    expected: int | None
    pace: tuple[str, object] = ("workload.arrivals", None)
    think: tuple[str, object] = ("workload.arrivals.think_time_s", None)


class OneShotStream(RequestStream):
    """Requests that have nothing to do with each other, or only a prefix.

    Args:
        starts: when they come.
        contents: what they are, in order of their ids.
    """

    def __init__(self, starts: Starts, contents: Iterator[Content]) -> None:
        super().__init__(starts.expected)
        self._starts = starts
        self._contents = contents
        self._created = 0

    def __iter__(self) -> Iterator[Request]:
        """The open arrivals, or the first request of each client."""
        until, limit = self._starts.until_ps, self._starts.limit
        for arrival in self._starts.times:
            if arrival >= until or self._created >= limit:
                return
            yield self._create(in_time(arrival, *self._starts.pace))

    def on_finished(self, request: Request, visible_ps: int) -> Request | None:
        """The next request of the client whose request this was; None in an open stream."""
        starts = self._starts
        if starts.clients is None or self._created >= starts.limit:
            return None
        arrival = starts.clients.returns_ps(request, visible_ps)
        return self._create(in_time(arrival, *starts.think)) if arrival < starts.until_ps else None

    def _create(self, arrival_ps: int) -> Request:
        prompt, output, segments, kind = next(self._contents)
        request = Request(self._created, arrival_ps, prompt, output, segments)
        self._created += 1
        if kind is not None:
            kind.stamp(request)
        if prompt + output > self.max_tokens_seen:
            self.max_tokens_seen = prompt + output
        return request


class TraceStream(RequestStream):
    """The requests of a recorded trace.

    Args:
        trace: the trace.
        kinds: the class of one request after the other; None = no classes.
        limit: most requests.
        until_ps: no request arrives then or later [ps].
    """

    def __init__(self, trace: Trace, kinds: Iterator[Kind] | None, limit: int, until_ps: int) -> None:
        super().__init__(min(len(trace.times_ps), limit))
        self.trace_block_hit_rate_infinite = infinite_hit_rate(trace)
        self.trace_counts = trace.counts
        self._trace = trace
        self._kinds = kinds
        self._until_ps = until_ps

    def __iter__(self) -> Iterator[Request]:
        """The requests in order of arrival."""
        trace, until, size = self._trace, self._until_ps, self._trace.block_tokens
        blocks: Iterator[tuple[int, ...]] = iter(trace.blocks) if size else repeat(())
        columns = zip(range(self.expected or 0), trace.times_ps, trace.prompts, trace.outputs, blocks, strict=False)
        for number, arrival, prompt, output, ids in columns:
            if arrival >= until:
                return
            request = Request(number, arrival, prompt, output, block_segments(ids, prompt, size))
            if self._kinds is not None:
                next(self._kinds).stamp(request)
            if prompt + output > self.max_tokens_seen:
                self.max_tokens_seen = prompt + output
            yield request


def block_segments(ids: Sequence[int], prompt_tokens: int, block_tokens: int) -> tuple[Segment, ...]:
    """The segments of a prompt known by its block ids, one a block, whatever the engine's block size."""
    if not ids:
        return ()
    segments: list[Segment] = [(block, block_tokens) for block in ids]
    segments[-1] = (ids[-1], prompt_tokens - block_tokens * (len(ids) - 1))
    return tuple(segments)
