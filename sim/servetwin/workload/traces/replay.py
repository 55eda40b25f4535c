"""The requests of a recorded trace, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from servetwin.errors import ScenarioError, nearest_name
from servetwin.request import Request, Segment
from servetwin.workload.classes import RequestClass
from servetwin.workload.contents import Kind, nothing
from servetwin.workload.stream import RequestStream
from servetwin.workload.traces.trace import Trace, infinite_hit_rate

Stamp = Callable[[int, Request], None]
"""Makes a request one of its class; told the number that its class has in the trace."""


class TraceStream(RequestStream):
    """The requests of a recorded trace.

    Args:
        trace: the trace.
        stamp: gives each request its class; None = no classes.
        limit: most requests.
        until_ps: no request arrives then or later [ps].
    """

    def __init__(self, trace: Trace, stamp: Stamp | None, limit: int, until_ps: int) -> None:
        super().__init__(min(len(trace), limit))
        self.reacts = False
        self.trace_block_hit_rate_infinite = infinite_hit_rate(trace)
        self.trace_counts = trace.counts
        self._trace = trace
        self._stamp = stamp
        self._until_ps = until_ps

    def __iter__(self) -> Iterator[Request]:
        """The requests in order of arrival."""
        trace, until, stamp = self._trace, self._until_ps, self._stamp
        rows = zip(trace.records(0, self.expected or 0), trace.times_ps, strict=False)
        for number, ((prompt, output, blocks, kind, session, _, turn), arrival) in enumerate(rows):
            if arrival >= until:
                return
            segments = block_segments(blocks, prompt, trace.block_tokens)
            request = Request(number, arrival, prompt, output, segments, session_id=session, turn=turn)
            if stamp is not None:
                stamp(kind, request)
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


def class_stamp(trace: Trace, classes: Sequence[RequestClass], kinds: Iterator[Kind]) -> Stamp | None:
    """What gives the requests of a trace their classes.

    Where the trace names classes, those of the workload explain them by name: priority and deadline. Otherwise
    requests are dealt out among the workload's classes by their shares.

    Args:
        trace: the trace.
        classes: the workload's classes.
        kinds: the class of one request after the other, drawn by the shares.

    Raises:
        ScenarioError: no request of the trace has a class that the workload explains, or a share is given for it.
    """
    if not trace.classes:
        return (lambda kind, request: next(kinds).stamp(request)) if classes else None
    known = {name: Kind(name, 0, -1, nothing(), nothing()) for name in trace.class_names}
    for index, item in enumerate(classes):
        if item.name not in known:
            raise ScenarioError(
                "the trace names classes of its own, and this is none of them",
                path=f"workload.classes.{index}.name",
                found=item.name,
                allowed=[name for name in trace.class_names if name],
                nearest=nearest_name(item.name, [name for name in trace.class_names if name]),
            )
        if item.share != 1.0:
            raise ScenarioError(
                "share has no effect: the trace says which class each request has",
                path=f"workload.classes.{index}.share",
                found=item.share,
                allowed="no share",
            )
        known[item.name] = Kind(item.name, item.priority, item.ttft_ps, nothing(), nothing())
    by_number = [known[name] for name in trace.class_names]
    return lambda kind, request: by_number[kind].stamp(request)
