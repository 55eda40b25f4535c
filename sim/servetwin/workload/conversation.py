"""The stream of requests that come in sessions, or from classes with a life of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import repeat

from servetwin.request import Request
from servetwin.workload.contents import Kind
from servetwin.workload.documents import Head
from servetwin.workload.live import LiveSession
from servetwin.workload.script import SessionDraws, write
from servetwin.workload.stream import RequestStream, Starts, in_time


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """A class of requests with all that its prompts and sessions are drawn from.

    Attributes:
        kind: the class, with its lengths.
        heads: what its prompts start with; None = nothing.
        sessions: its sessions; None = single requests.
    """

    kind: Kind
    heads: Iterator[Head] | None
    sessions: SessionDraws | None


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Requests, or sessions, that arrive by one process.

    Attributes:
        starts: when they come.
        lanes: the class of one start after the other.
    """

    starts: Starts
    lanes: Iterator[Lane]


class SessionStream(RequestStream):
    """Sessions and single requests of one or more groups.

    A session draws all that it will say, and reserves the ids of its requests, when it starts: what requests are never
    depends on how the system fares. Sessions are started until their requests make up the limit; the last one is cut.

    Args:
        groups: the arrivals.
        limit: most requests.
        until_ps: no request arrives then or later [ps].
        expected: how many requests will come, at most; None = unknown.
    """

    def __init__(self, groups: Sequence[Group], limit: int, until_ps: int, expected: int | None) -> None:
        super().__init__(expected)
        self._groups = groups
        self._limit = limit
        self._until_ps = until_ps
        self._sessions = 0
        self._reserved = 0
        self._live: dict[int, tuple[LiveSession, Group]] = {}
        # Single requests of closed loops, by their id.
        self._single: dict[int, Group] = {}

    def __iter__(self) -> Iterator[Request]:
        """The requests that do not depend on the system, in order of arrival."""
        groups, until, limit = self._groups, self._until_ps, self._limit
        starts: Iterator[tuple[int, int]] = zip(groups[0].starts.times, repeat(0), strict=False)
        if len(groups) > 1:
            starts = merge(*(zip(group.starts.times, repeat(i), strict=False) for i, group in enumerate(groups)))
        for start, index in starts:
            if start >= until or self._reserved >= limit:
                return
            group = groups[index]
            yield self._open(group, in_time(start, *group.starts.pace))

    def on_finished(self, request: Request, visible_ps: int) -> Sequence[Request]:
        """What follows in the session; after its end, in a closed loop, what the client does next."""
        group = self._single.pop(request.id, None)
        if request.session_id >= 0:
            session, group = self._live[request.session_id]
            following = session.after(request, visible_ps, self._until_ps)
            if following:
                for item in following:
                    self._see(item)
                return following
            if session.running:
                return ()
            del self._live[request.session_id]
        if group is None or group.starts.clients is None or self._reserved >= self._limit:
            return ()
        arrival = group.starts.clients.returns_ps(request, visible_ps)
        return (self._open(group, in_time(arrival, *group.starts.think)),) if arrival < self._until_ps else ()

    def _open(self, group: Group, arrival_ps: int) -> Request:
        lane = next(group.lanes)
        head, head_tokens = next(lane.heads) if lane.heads is not None else ((), 0)
        kind, first = lane.kind, self._reserved
        if lane.sessions is None:
            prompt, output = next(kind.prompts), next(kind.outputs)
            segments = (*head, (("request", first), prompt)) if head else ()
            request = Request(first, arrival_ps, head_tokens + prompt, output, segments)
            kind.stamp(request)
            self._reserved += 1
            if group.starts.clients is not None:
                self._single[first] = group
        else:
            turns, requests = write(lane.sessions, kind, self._limit - first)
            session = LiveSession(self._sessions, first, kind, head, head_tokens, turns, lane.sessions.pauses)
            self._live[session.number] = (session, group)
            self._sessions += 1
            self._reserved += requests
            request = session.open(arrival_ps)
        self._see(request)
        return request

    def _see(self, request: Request) -> None:
        tokens = request.prompt_tokens + request.output_tokens
        if tokens > self.max_tokens_seen:
            self.max_tokens_seen = tokens
