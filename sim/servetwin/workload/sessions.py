"""Conversations and agents: each turn repeats all that was said before and adds to it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from servetwin.workload.base import Part
from servetwin.workload.lengths import ConstantLength, Lengths
from servetwin.workload.times import ConstantDuration, Durations

Probability = Annotated[float, Field(strict=True, gt=0, le=1)]
"""A probability above 0."""


class Forks(Part):
    """Answers that split into parallel branches, whose results the next turn brings together.

    A branch is one request, or several in a row (``steps``). The prompt of its first step is all that the session has
    said so far and the branch's task; later steps repeat the branch so far and add a tool's result. When the last
    branch has ended, the session's next turn follows: its prompt is the session's history, the last answer of every
    branch and its own new tokens.
    """

    probability: Probability = Field(
        description="Chance that an answer forks; the last answer of a session never does."
    )
    branches: Lengths = Field(description="Branches of a fork.")
    prompts: Lengths = Field(description="New prompt tokens of a branch's first step: its task.")
    outputs: Lengths | None = Field(None, description="Output tokens of a step; null = as ``outputs``.")
    steps: Lengths = Field(ConstantLength(value=1), description="Requests of a branch, one after the other.")
    step_prompts: Lengths | None = Field(
        None, description="New prompt tokens of later steps, such as a tool's result; null = as ``prompts`` here."
    )
    tool_time_s: Durations = Field(
        ConstantDuration(value=0.0), description="From a step's last token to the branch's next step."
    )

    @model_validator(mode="after")
    def _sensible(self) -> Forks:
        if self.steps.only == 1:
            for field in ("step_prompts", "tool_time_s"):
                value = getattr(self, field)
                if value is not None and value != type(self).model_fields[field].default:
                    raise ValueError(f"{field} has no effect: a branch has one step")
        return self


class Sessions(Part):
    """Multi-turn sessions: arrivals start sessions, and a session's next turn follows its last answer.

    The prompt of turn k is the shared prefix and documents (if any), every message and answer of the turns before, and
    new tokens. A session ends early if one of its requests is refused or lost. For an agent, the new tokens of later
    turns are the results of tools, and the think time is how long the tools take.
    """

    turns: Lengths = Field(description="Number of turns of a session.")
    think_time_s: Durations = Field(description="From an answer's last token to the next message.")
    turn_prompts: Lengths | None = Field(
        None, description="New prompt tokens of every turn but the first; null = as ``prompts``."
    )
    forks: Forks | None = Field(None, description="Agents that work on parts of the task in parallel.")

    @model_validator(mode="after")
    def _sensible(self) -> Sessions:
        if self.forks is not None and self.turns.only == 1:
            raise ValueError("forks has no effect: a session has one turn, and its last answer never forks")
        return self
