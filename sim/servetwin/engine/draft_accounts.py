"""What the steps of a replica that drafts leave behind."""

from __future__ import annotations

from servetwin.engine.accounts import StepAccounts
from servetwin.engine.draft_reading import Packing
from servetwin.engine.plan import PlannedStep
from servetwin.engine.rank import Rank
from servetwin.physics.protocols import StepTime
from servetwin.physics.series import Series
from servetwin.records import RunLog


class DraftAccounts(StepAccounts):
    """The books of a replica that drafts: no two of its steps are equal, and each is a segment of its own.

    Args:
        index: the replica's index in the cluster.
        rank: whose steps they are.
        step_time: prices the steps.
        log: receives segments, phases and choices.
        packing: how the drafts that stand are counted.

    Attributes:
        drafts: steps of requests that verified at least one draft.
        drafted: drafted tokens that were verified.
    """

    __slots__ = ("_by_position", "_choice", "_packing", "_stood", "_stood_most", "drafted", "drafts")

    def __init__(self, index: int, rank: Rank, step_time: StepTime, log: RunLog, packing: Packing) -> None:
        super().__init__(index, rank, step_time, log)
        self.drafts = 0
        self.drafted = 0
        self._packing = packing
        self._by_position = packing.by_position(0)
        #: What stood in the steps since then, packed, and what none of the numbers in there passes.
        self._stood = self._stood_most = 0
        #: Drafts that the last step made, -1 = there was none.
        self._choice = -1

    def steps_ended(self, steps: list[PlannedStep], series: Series, count: int) -> None:
        """The first ``count`` of ``steps``, which are those of ``series``, have ended: enter them.

        The output of the last of them is still to be handed out.
        """
        rank = self._rank
        self.steps += count
        start = series.start_ps
        visible = before = rank.visible_ps
        for index in range(count):
            step = steps[index]
            end = series.boundary(index + 1)
            before = visible
            visible = max(visible, end + self._output_ps * step.shape.requests)
            held = step.held + step.released - rank.released
            self._write(step, start, 1, end - start, visible - before, 0, held)
            start = end
        rank.visible_ps = before

    def _write(
        self, step: PlannedStep, start_ps: int, count: int, first_ps: int, gap_ps: int, done: int, held: int
    ) -> None:
        super()._write(step, start_ps, count, first_ps, gap_ps, done, held)
        drafts = step.shape.drafts
        if drafts != self._choice:
            self._choice = drafts
            self._log.choice(self._index, start_ps, drafts)
        if step.verifying:
            self.drafts += step.verifying
            self.drafted += step.shape.drafted
            most = self._stood_most + step.emitted + step.verifying
            if most >= self._packing.largest:
                self._unpack()
                most = step.emitted + step.verifying
            self._stood += step.stood
            self._stood_most = most

    @property
    def by_position(self) -> list[int]:
        """By position, how many of the drafted tokens stood."""
        self._unpack()
        return self._by_position

    def _unpack(self) -> None:
        self._packing.add_to(self._by_position, self._stood)
        self._stood = self._stood_most = 0
