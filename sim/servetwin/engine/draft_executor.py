"""The process of a replica that drafts: like any other, but no two of its steps are equal."""

from __future__ import annotations

from servetwin.engine.accounts import StepAccounts
from servetwin.engine.draft_accounts import DraftAccounts
from servetwin.engine.draft_batch import DraftBatch
from servetwin.engine.executor import Executor
from servetwin.engine.plan import PlannedStep
from servetwin.engine.rank import Rank
from servetwin.engine.verify_steps import VerifyMaker
from servetwin.physics.protocols import StepTime
from servetwin.physics.series import Series, UnevenSeries
from servetwin.records import RunLog


class DraftingExecutor(Executor):
    """Runs the steps that its rank plans, as many at once as will surely be planned.

    Its ``accounts`` are ``DraftAccounts``, and its rank's batch and steps a ``DraftBatch`` and a ``VerifyMaker``.
    Arguments are those of ``Executor``.
    """

    #: The steps of the run under way, as far as they were made: the first ``_planned`` of them, and what was needed.
    _steps: list[PlannedStep]

    def _emitted(self, count: int) -> int:
        batch, planned = self.rank.batch, self._planned
        made = sum([step.emitted for step in self._steps[:count]])
        return made + sum([batch.gains(index - planned) for index in range(len(self._steps), count)])

    def _new_accounts(self, index: int, rank: Rank, step_time: StepTime, log: RunLog) -> StepAccounts:
        batch = rank.batch
        assert isinstance(batch, DraftBatch)
        return DraftAccounts(index, rank, step_time, log, batch.packing)

    def _new_series(self) -> Series:
        self._steps = []
        return UnevenSeries()

    def _start_run(self, now: int) -> bool:
        """Start as many steps of today's decodes as will surely be planned, perhaps behind one that is planned of
        another kind; else False. See ``Executor``."""
        rank = self.rank
        pipeline = rank.pipeline
        planned = len(pipeline)
        head = None
        batch = rank.batch
        count = batch.steps_ahead(rank.pool.free)
        if rank.waiting:
            assert isinstance(batch, DraftBatch)
            count = batch.steps_alike(count)
        on_time = self._lag < self._depth and bool(rank.waiting)
        if on_time:
            count -= self._depth
        if planned and (first := pipeline[0]).steady and first.version == rank.batch.version:
            if count < 0:
                return False
            steps = list(pipeline)
        elif planned == 0 or (planned == 1 and rank.ends_nobody()):
            if count <= 0:
                return False
            if planned:
                head = pipeline[0]
                planned = 0
            steps = []
        else:
            return False
        self._busy = self._may_cut = True
        self._goes_on = on_time
        self._planned = planned
        maker = rank.steps
        assert isinstance(maker, VerifyMaker)
        if self._links is not None or rank.batch.windows:
            steps += maker.ahead(rank, 0, count)
            if self._links is not None:
                steps = [self._sharing(step) for step in steps]
                head = None if head is None else self._sharing(head)
            spans = [step.total_ps for step in steps]
        else:
            # Most runs are cut short, so that a step is made when it is known to have run.
            spans = [step.total_ps for step in steps] + maker.spans(rank, count)
        self._head = head
        self._steps = steps
        series = self._series
        assert isinstance(series, UnevenSeries)
        series.run(now if head is None else now + head.total_ps, spans)
        if rank.incoming and rank.admits():
            self._cut(rank.incoming[0].queued_ps)
        if rank.returning:
            self._cut(rank.returning[0][0])
        return True

    def _make(self, count: int) -> None:
        """Make the first ``count`` steps of the run, as far as they are not there; the batch is as it was before."""
        steps = self._steps
        if count > len(steps):
            maker = self.rank.steps
            assert isinstance(maker, VerifyMaker)
            steps += maker.ahead(self.rank, len(steps) - self._planned, count - self._planned)

    def _plan_run(self, count: int) -> None:
        self._make(count)
        super()._plan_run(count)

    def _at(self, index: int) -> PlannedStep:
        return self._steps[index]

    def _account(self, count: int) -> None:
        self._make(count)
        accounts = self.accounts
        assert isinstance(accounts, DraftAccounts)
        accounts.steps_ended(self._steps, self._series, count)

    def _cut_off(self, index: int, elapsed_ps: int) -> None:
        if self._may_cut:
            self._make(index + 1)
        self.accounts.step_cut_off(self._at(index) if self._may_cut else self._step, 0, elapsed_ps)

    def _skip(self, count: int) -> None:
        for step in self._steps[:count]:
            self.rank.skip_outputs(step, 1)
