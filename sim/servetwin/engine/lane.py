"""The micro-batches of a pipeline.

A request stays in the micro-batch that computed its last prompt token: what is not in flight when a batch is scheduled
is what the batch that has just come back had in it, and whoever is new. So a micro-batch keeps its sums in a
``DecodeBatch`` of its own, and a lane is the batch together with its step that is in flight.

Source: vLLM ``v1/engine/core.py`` (``step_with_batch_queue``), pull request 32359: a request is in at most one batch in
    flight, with asynchronous scheduling too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.batch import DecodeBatch
from servetwin.engine.plan import PlannedStep
from servetwin.physics.protocols import StepShape
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank

#: Stands where no step is under way.
NO_STEP = PlannedStep(StepShape(0, 0, False, 0, 0, (0,), (0,)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, 0, 0, 0)

#: No batch sees so many joins.
_JOIN_BITS = 40


class Lane:
    """One micro-batch, and its step in flight.

    Args:
        index: its number among the lanes of a rank.
        block_size: tokens per KV block.
        windows: attention windows of the model besides full attention [tokens].

    Attributes:
        batch: the requests that decode in it.
        ended: by step, requests whose last token it yields.
        next_output: the next of its steps whose output is still to come.
        visible_ps: when the tokens of its last step became visible [ps].
        step: what is in flight, or the step ``done`` steps before it in the same series.
        done: see ``step``.
        chunked: requests with a prefill chunk in flight here.
        spans: what ``step`` takes on each stage [ps].
        growths: by how much longer the next step of its series takes on each stage [ps].
        hand_offs: how long its output travels from each stage to the next [ps]; 0 from the last.
        ends: when the step in flight leaves each stage [ps].
        end_ps: when it leaves the last one [ps].
        exposed_ps: for how long stages wait for its hand-offs with nothing else to do, summed over stages [ps].
    """

    __slots__ = ("batch", "chunked", "done", "end_ps", "ended", "ends", "exposed_ps", "growths", "hand_offs",
                 "next_output", "spans", "step", "visible_ps")  # fmt: skip

    def __init__(self, index: int, block_size: int, windows: tuple[int, ...]) -> None:
        self.batch = DecodeBatch(block_size, windows, index << _JOIN_BITS)
        self.ended: dict[int, list[Request]] = {}
        self.next_output = 0
        self.visible_ps = 0
        self.step = NO_STEP
        self.done = 0
        self.chunked: list[Request] = []
        self.spans: list[int] = []
        self.growths: list[int] = []
        self.hand_offs: list[int] = []
        self.ends: list[int] = []
        self.end_ps = 0
        self.exposed_ps = 0

    def span(self, stage: int) -> int:
        """What the step in flight takes on a stage [ps]."""
        return self.spans[stage] + self.done * self.growths[stage]

    def steps_ahead(self) -> int:
        """How many more steps will surely be of today's decodes, if the step in flight is, and grow as it does: before
        one of them ends."""
        batch = self.batch
        if not self.step.steady or self.step.version != batch.version:
            return 0
        limit = batch.next_finish()
        if batch.windows:
            limit = min(limit, batch.next_crossing())
        return min(limit - batch.step, self.step.lasts - 1 - self.done)


def in_flight(rank: Rank) -> set[Request]:
    """The requests that a step in flight computes for. Linear in their number, for rare paths."""
    found: set[Request] = set()
    for lane in rank.flying:
        found.update(lane.chunked)
        found.update(lane.batch.members())
    return found
