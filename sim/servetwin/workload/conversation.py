"""The stream of multi-turn sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from servetwin.request import Request, Segment
from servetwin.workload.contents import Kind
from servetwin.workload.stream import LOST, RequestStream, Starts, in_time


@dataclass(slots=True)
class SessionDraws:
    """Where sessions take their contents from, one after the other.

    Attributes:
        kinds: their classes, with the lengths of first prompts and of outputs.
        turns: numbers of turns.
        turn_prompts: new tokens of later turns; None = as first prompts.
        thinks: think times [ps].
        heads: shared prefixes; None = no prefix.
        pause: the field of the workload that sets ``thinks``, and its value.
    """

    kinds: Iterator[Kind]
    turns: Iterator[int]
    turn_prompts: Iterator[int] | None
    thinks: Iterator[int]
    heads: Iterator[Segment] | None
    pause: tuple[str, object] = ("workload.sessions.think_time_s", None)


@dataclass(slots=True)
class _Turn:
    new_tokens: int
    output_tokens: int
    think_ps: int


@dataclass(slots=True)
class _Session:
    number: int
    first_id: int
    kind: Kind
    head: tuple[Segment, ...]
    head_tokens: int
    turns: list[_Turn]
    next_turn: int = 0
    history: int = 0


class SessionStream(RequestStream):
    """Sessions that start on their own, each of whose later turns follows the answer to the one before.

    Args:
        starts: when they start; the clients of a closed loop hold one session after the other. Sessions are
            started until their turns make up the limit of requests, the last one is cut.
        draws: where their contents come from.
    """

    def __init__(self, starts: Starts, draws: SessionDraws) -> None:
        super().__init__(starts.expected)
        self._starts = starts
        self._draws = draws
        self._sessions = 0
        self._reserved = 0
        self._live: dict[int, _Session] = {}

    def __iter__(self) -> Iterator[Request]:
        """The first turns of sessions that start on their own."""
        until, limit = self._starts.until_ps, self._starts.limit
        for start in self._starts.times:
            if start >= until or self._reserved >= limit:
                return
            yield self._open(in_time(start, *self._starts.pace))

    def on_finished(self, request: Request, visible_ps: int) -> Request | None:
        """The next turn; after the last, in a closed loop, the first turn of the client's next session."""
        session, starts = self._live[request.session_id], self._starts
        if request.outcome not in LOST and session.next_turn < len(session.turns):
            arrival = visible_ps + session.turns[session.next_turn].think_ps
            if arrival < starts.until_ps:
                return self._turn(session, in_time(arrival, *self._draws.pause))
        del self._live[session.number]
        if starts.clients is None or self._reserved >= starts.limit:
            return None
        arrival = starts.clients.returns_ps(request, visible_ps)
        return self._open(in_time(arrival, *starts.think)) if arrival < starts.until_ps else None

    def _open(self, arrival_ps: int) -> Request:
        draws = self._draws
        kind = next(draws.kinds)
        head = next(draws.heads) if draws.heads is not None else None
        number = min(next(draws.turns), self._starts.limit - self._reserved)
        later = draws.turn_prompts if draws.turn_prompts is not None else kind.prompts
        turns = [_Turn(next(kind.prompts), next(kind.outputs), 0)]
        turns += [_Turn(next(later), next(kind.outputs), next(draws.thinks)) for _ in range(number - 1)]
        session = _Session(self._sessions, self._reserved, kind, (head,) if head else (), head[1] if head else 0, turns)
        self._live[session.number] = session
        self._sessions += 1
        self._reserved += number
        return self._turn(session, arrival_ps)

    def _turn(self, session: _Session, arrival_ps: int) -> Request:
        index = session.next_turn
        turn = session.turns[index]
        said = session.history + turn.new_tokens
        prompt = session.head_tokens + said
        request = Request(
            session.first_id + index,
            arrival_ps,
            prompt,
            turn.output_tokens,
            (*session.head, (("session", session.number), said)),
            continues=True,
            session_id=session.number,
            turn=index,
        )
        session.kind.stamp(request)
        session.history = said + turn.output_tokens
        session.next_turn = index + 1
        self.max_tokens_seen = max(self.max_tokens_seen, prompt + turn.output_tokens)
        return request
