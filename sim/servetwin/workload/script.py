"""What a session will say, written down when it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from servetwin.errors import ScenarioError
from servetwin.workload.contents import Kind

MAX_TURNS = 100_000
"""Most turns of a session, and most branches of a fork: it is all held in memory."""

Place = tuple[str, object]
"""A field of the workload, and its value, for messages."""


@dataclass(slots=True)
class Step:
    """One request of a session.

    Attributes:
        new_tokens: what its prompt adds to what was said before [tokens].
        output_tokens: its answer [tokens].
        pause_ps: from the last token of what it follows to its arrival [ps].
        branches: what its answer forks into, each a list of steps.
    """

    new_tokens: int
    output_tokens: int
    pause_ps: int
    branches: Sequence[list[Step]] = ()


@dataclass(slots=True)
class ForkDraws:
    """Where forks take their contents from, one after the other.

    Attributes:
        chances: draws a uniform number in [0, 1), for each answer that may fork.
        probability: an answer forks if its number is below this.
        branches: numbers of branches.
        steps: numbers of steps.
        prompts: new tokens of first steps.
        step_prompts: new tokens of later steps.
        outputs: answers.
        tool_times: pauses before later steps [ps].
    """

    chances: Callable[[], float]
    probability: float
    branches: Iterator[int]
    steps: Iterator[int]
    prompts: Iterator[int]
    step_prompts: Iterator[int]
    outputs: Iterator[int]
    tool_times: Iterator[int]


@dataclass(slots=True)
class SessionDraws:
    """Where sessions take their contents from, one after the other.

    Attributes:
        turns: numbers of turns.
        turn_prompts: new tokens of later turns; None = as first prompts.
        thinks: think times [ps].
        forks: the draws of forks; None = no answer forks.
        place: the part of the workload that describes the sessions, for messages.
        pauses: the fields that set think times and tool times, and their values.
    """

    turns: Iterator[int]
    turn_prompts: Iterator[int] | None
    thinks: Iterator[int]
    forks: ForkDraws | None
    place: str
    pauses: tuple[Place, Place]


def write(draws: SessionDraws, kind: Kind, budget: int) -> tuple[list[Step], int]:
    """The turns of a new session, cut where its requests exceed a budget.

    Args:
        draws: what they are drawn from.
        kind: the class of the session, with its lengths.
        budget: most requests of the session.

    Returns:
        the turns, and how many requests they are, branches included.

    Raises:
        ScenarioError: there are too many turns or branches to hold.
    """
    number = next(draws.turns)
    if number > MAX_TURNS:
        _check_held(number, f"{draws.place}.turns", budget)
    if number > budget:
        number = budget
    turns = [Step(next(kind.prompts), next(kind.outputs), 0)]
    if number > 1:
        later = draws.turn_prompts if draws.turn_prompts is not None else kind.prompts
        turns += [Step(next(later), next(kind.outputs), next(draws.thinks)) for _ in range(number - 1)]
    if draws.forks is None:
        return turns, number
    used = 0
    for index, turn in enumerate(turns):
        if used == budget:
            del turns[index:]
            break
        used += 1
        if index + 1 < number and draws.forks.chances() < draws.forks.probability:
            turn.branches = _fork(draws.forks, draws.place, budget - used)
            used += sum(map(len, turn.branches))
    return turns, used


def _fork(draws: ForkDraws, place: str, budget: int) -> list[list[Step]]:
    """The branches of one fork, of at most ``budget`` steps altogether."""
    branches = []
    number = next(draws.branches)
    _check_held(number, f"{place}.forks.branches", budget)
    for _ in range(number):
        if budget == 0:
            break
        steps = next(draws.steps)
        _check_held(steps, f"{place}.forks.steps", budget)
        steps = min(steps, budget)
        budget -= steps
        branch = [Step(next(draws.prompts), next(draws.outputs), 0)]
        branch += [
            Step(next(draws.step_prompts), next(draws.outputs), next(draws.tool_times)) for _ in range(steps - 1)
        ]
        branches.append(branch)
    return branches


def _check_held(number: int, path: str, budget: int) -> None:
    if number > MAX_TURNS and budget > MAX_TURNS:
        raise ScenarioError(
            f"a session would be of {number:,} parts",
            path=path,
            found=number,
            allowed=f"at most {MAX_TURNS:,}, unless run.requests is less",
        )
