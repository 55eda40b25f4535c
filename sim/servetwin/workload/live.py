"""A session under way: how far it has come in its script."""

from __future__ import annotations

from typing import NamedTuple

from servetwin.request import Request, Segment
from servetwin.workload.contents import Kind
from servetwin.workload.script import Place, Step
from servetwin.workload.stream import LOST, in_time


class Branch(NamedTuple):
    """A branch of a fork, while one of its requests is under way.

    Attributes:
        first_id: the id of its first request.
        steps: what it will say.
        done: how many of the steps have begun.
        said: what has been said in it, with the answer that is under way [tokens].
    """

    first_id: int
    steps: list[Step]
    done: int
    said: int


class LiveSession:
    """A session under way.

    Its requests are numbered in the order of the script: a turn, the steps of its branches one branch after the other,
    the next turn. ``turn`` of a request is its place in that order.

    Args:
        number: its number in the run.
        first_id: the id of its first request.
        kind: its class.
        head: what all of its prompts start with.
        head_tokens: the length of that [tokens].
        turns: what it will say.
        pauses: the fields that set think times and tool times, for messages.

    Attributes:
        number: its number in the run.
        running: how many of its requests are under way or on their way.
    """

    __slots__ = (
        "_branches",
        "_broken",
        "_first_id",
        "_head",
        "_head_tokens",
        "_history",
        "_joined",
        "_kind",
        "_latest_ps",
        "_next_id",
        "_next_turn",
        "_pauses",
        "_turns",
        "number",
        "running",
    )

    def __init__(
        self,
        number: int,
        first_id: int,
        kind: Kind,
        head: tuple[Segment, ...],
        head_tokens: int,
        turns: list[Step],
        pauses: tuple[Place, Place],
    ) -> None:
        self.number = number
        self.running = 0
        self._first_id = first_id
        self._kind = kind
        self._head = head
        self._head_tokens = head_tokens
        self._turns = turns
        self._pauses = pauses
        self._next_turn = 0
        self._next_id = first_id
        # All that was said on the trunk [tokens], and what the branches add to it [tokens].
        self._history = 0
        self._joined = 0
        self._latest_ps = 0
        self._broken = False
        # By the id of the request under way.
        self._branches: dict[int, Branch] | None = None

    def open(self, arrival_ps: int) -> Request:
        """The first turn, which arrives at ``arrival_ps`` [ps]."""
        return self._turn(arrival_ps)

    def after(self, request: Request, visible_ps: int, until_ps: int) -> list[Request]:
        """What follows now that ``request`` has met its end at ``visible_ps`` [ps]: in general one request or none.

        A session without followers and without ``running`` requests is over. Nothing arrives at ``until_ps`` or later.
        """
        self.running -= 1
        if request.outcome in LOST:
            self._broken = True
        if visible_ps > self._latest_ps:
            self._latest_ps = visible_ps
        branch = None if self._branches is None else self._branches.pop(request.id, None)
        if branch is not None:
            following = self._along(branch, request, visible_ps, until_ps)
            if following is not None:
                return [following]
        elif not self._broken and self._turns[self._next_turn - 1].branches:
            return self._fork(visible_ps, until_ps)
        if self.running or self._broken or self._next_turn == len(self._turns):
            return []
        arrival = self._latest_ps + self._turns[self._next_turn].pause_ps
        return [self._turn(in_time(arrival, *self._pauses[0]))] if arrival < until_ps else []

    def _turn(self, arrival_ps: int) -> Request:
        turn = self._turns[self._next_turn]
        said = self._history + self._joined + turn.new_tokens
        prompt, trunk = self._head_tokens + said, ((("session", self.number), said),)
        request = self._request(self._next_id, arrival_ps, prompt, turn.output_tokens, trunk)
        self._next_turn += 1
        self._next_id += 1
        self._joined = 0
        self._history = said + turn.output_tokens
        return request

    def _fork(self, visible_ps: int, until_ps: int) -> list[Request]:
        """The first steps of the branches of the turn that has ended."""
        if visible_ps >= until_ps:
            self._broken = True
            return []
        started = []
        self._branches = {}
        for steps in self._turns[self._next_turn - 1].branches:
            started.append(self._step(Branch(self._next_id, steps, 0, 0), visible_ps))
            self._next_id += len(steps)
        return started

    def _along(self, branch: Branch, request: Request, visible_ps: int, until_ps: int) -> Request | None:
        """The next step of a branch; None if it has come to its end, good or bad."""
        if self._broken:
            return None
        if branch.done == len(branch.steps):
            self._joined += request.output_tokens
            return None
        arrival = visible_ps + branch.steps[branch.done].pause_ps
        if arrival >= until_ps:
            self._broken = True
            return None
        return self._step(branch, in_time(arrival, *self._pauses[1]))

    def _step(self, branch: Branch, arrival_ps: int) -> Request:
        first, steps, done, history = branch
        step, number = steps[done], first + done
        said = history + step.new_tokens
        # The branch's own stream stands behind the trunk as it was when the fork began.
        segments = (self._trunk(self._history), (("branch", self.number, first), said))
        prompt = self._head_tokens + self._history + said
        request = self._request(number, arrival_ps, prompt, step.output_tokens, segments)
        assert self._branches is not None, "a step belongs to a fork"
        self._branches[number] = Branch(first, steps, done + 1, said + step.output_tokens)
        return request

    def _trunk(self, tokens: int) -> Segment:
        return (("session", self.number), tokens)

    def _request(
        self, number: int, arrival_ps: int, prompt_tokens: int, output_tokens: int, segments: tuple[Segment, ...]
    ) -> Request:
        request = Request(
            number,
            arrival_ps,
            prompt_tokens,
            output_tokens,
            (*self._head, *segments),
            continues=True,
            session_id=self.number,
            turn=number - self._first_id,
        )
        self._kind.stamp(request)
        self.running += 1
        return request
