"""Conversations: each turn repeats all that was said before and adds to it."""

from __future__ import annotations

from pydantic import Field

from servetwin.workload.base import Part
from servetwin.workload.lengths import Lengths
from servetwin.workload.times import Durations


class Sessions(Part):
    """Multi-turn sessions: arrivals start sessions, and a session's next turn follows its last answer.

    The prompt of turn k is the shared prefix (if any), every message and answer of the turns before, and new
    tokens. A session ends early if one of its requests is refused or lost.
    """

    turns: Lengths = Field(description="Number of turns of a session.")
    think_time_s: Durations = Field(description="From an answer's last token to the next message.")
    turn_prompts: Lengths | None = Field(
        None, description="New prompt tokens of every turn but the first; null = as ``prompts``."
    )
