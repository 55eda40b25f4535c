"""The process of one replica: plan a run of equal steps, sleep until its end, account for it."""

from __future__ import annotations

from collections.abc import Callable, Generator

from simpy.events import Event

from servetwin.engine.accounts import StepAccounts
from servetwin.engine.audit import audit_rank
from servetwin.engine.batch import NEVER, DecodeBatch
from servetwin.engine.device import Device
from servetwin.engine.evacuation import evacuate
from servetwin.engine.lane import NO_STEP
from servetwin.engine.outputs import complete
from servetwin.engine.plan import PlannedStep
from servetwin.engine.process import EngineProcess
from servetwin.engine.protocols import (
    EVERY_OPERATION,
    SKIP_AHEAD,
    EngineSettings,
    KVConnector,
    Scheduler,
    SharedLinks,
)
from servetwin.engine.rank import Rank
from servetwin.engine.steps import StepMaker
from servetwin.kernel import BOUNDARY, Environment, Nap, priority
from servetwin.physics.protocols import StepTime
from servetwin.physics.series import Series
from servetwin.records import RunLog
from servetwin.request import Request


class Executor(EngineProcess):
    """Runs the steps that its rank plans.

    Args:
        env: the environment, with the integer picosecond clock.
        index: the replica's index in the cluster.
        step_time: prices the steps.
        settings: the engine's settings.
        scheduler: order of the waiting queue and choice of the victim.
        log: receives segments, gaps and phases.
        on_finished: told of each request that ends here, with the visible time of its last token [ps].
        stepping: ``skip-ahead``, ``every-step`` or ``every-operation``; the results are the same.
        gpus: GPUs of the replica.
        strict: count every account again after each plan (slow).
        connector: where else cached KV blocks may lie, or None.
        steps: makes the steps; replicas with the same ``step_time`` and ``settings`` may share it. None = its own.
        noise: the factor on the time of the next step that is planned, one of its own for each step, or None. No two
            steps are equal then, so every step is taken alone at all levels.
        links: the links of its collectives where others use them too, or None. A step has the share of its start.
        batch: for the requests that decode; None = a ``DecodeBatch``.
    """

    def __init__(
        self,
        env: Environment,
        index: int,
        step_time: StepTime,
        settings: EngineSettings,
        scheduler: Scheduler,
        log: RunLog,
        on_finished: Callable[[Request, int], None],
        stepping: str = SKIP_AHEAD,
        gpus: int = 1,
        strict: bool = False,
        connector: KVConnector | None = None,
        steps: StepMaker | None = None,
        noise: Callable[[], float] | None = None,
        links: SharedLinks | None = None,
        batch: DecodeBatch | None = None,
    ) -> None:
        rank = Rank(
            settings,
            StepMaker(settings, step_time) if steps is None else steps,
            scheduler,
            log.gap,
            on_finished,
            lambda: env._now,
            self._hears,
            connector,
            noise,
            batch,
        )
        self.accounts = self._new_accounts(index, rank, step_time, log)
        super().__init__(env, index, settings, rank, on_finished, gpus, self.accounts, links)
        self._step_time = step_time
        self._strict = strict
        self._skip_ahead = stepping == SKIP_AHEAD and noise is None
        order = priority(BOUNDARY, index)
        self._device = Device(env, order, gpus) if stepping == EVERY_OPERATION else None
        self._nap = Nap(env, order)
        self._depth = settings.depth
        #: Steps between the boundary at which a run is disturbed and its end. A plan that makes a connector begin to
        #: load is made when it is due: the run ends there, in the middle of planned steps. Other plans can be made up
        #: for when the steps planned before have ended.
        self._lag = settings.depth if connector is None else 0
        #: What is under way: perhaps a first step of its own kind, then ``_series``, whose first step is ``_step``.
        self._busy = False
        self._head: PlannedStep | None = None
        self._step: PlannedStep = NO_STEP
        self._series = self._new_series()
        #: How many steps of the series had been planned one by one before it started.
        self._planned = 0
        #: Whether an arrival may cut the series short.
        self._may_cut = False
        #: Whether the next step is still to be planned, as of the boundary before this one, as a step of decodes.
        self._put_off = False
        #: Whether the run ends in the middle of planned steps: where the share of the links changes, or the growth, or
        #: where a connector has something to say.
        self._goes_on = False
        #: Told of the requests that are here when the replica leaves, as it is about to; None = it is not.
        self._leaving: Callable[[list[Request]], None] | None = None
        env.process(self._run())

    # -- what others call ----------------------------------------------------------------------------------------

    def generated(self, now: int) -> int:
        """Output tokens of the unfinished requests here, as of the last step that ended before ``now`` [ps]."""
        generated = self.rank.generated
        if self._may_cut and self._busy:
            series = self._series
            if self._head is not None and now > series.start_ps:
                generated += self._head.emitted
            generated += self._emitted(min(series.count, series.steps_before(now)))
        return generated

    def _emitted(self, count: int) -> int:
        """Output tokens of the first ``count`` steps of the run under way."""
        return self._step.emitted * count

    def stop(self, now: int) -> None:
        """Account for what has happened before ``now`` [ps]; see ``EngineProcess``."""
        self._books_waiting(now)
        self._hear_the_rest()
        if not self._busy:
            return
        self._busy = False
        series, head, accounts = self._series, self._head, self.accounts
        if head is not None:
            start = series.start_ps - head.total_ps
            if now <= series.start_ps:
                accounts.step_cut_off(head, 0, now - start)
                return
            accounts.step_ended(head, start, series.start_ps)
        done = min(series.count, series.steps_before(now))
        if done:
            self._account(done)
        if done < series.count:
            begun = series.boundary(done)
            self._cut_off(done, now - begun)
            if self._may_cut and self._depth and done == series.count - 1 and begun < now:
                # The last step of the run has begun, and with it the plan of the next was made.
                self._plan_run(series.count)
                self._skip(done)
                if not self._goes_on:
                    self._plan_late(begun)

    @property
    def works(self) -> bool:
        """Whether a step is under way."""
        return self._busy

    def _arrived(self, ready_ps: int, after: bool) -> None:
        if not self._busy or (self._may_cut and self.rank.admits()):
            self._disturb(max(ready_ps, self._env._now + 1) if after and self._busy else ready_ps)

    def _disturb(self, ready_ps: int) -> None:
        if not self._busy:
            self._nap.shorten(ready_ps)
        elif self._may_cut and self._cut(ready_ps):
            self._nap.shorten(self._series.boundary(self._series.count))

    def leave(self, left: Callable[[list[Request]], None]) -> None:
        """The replica leaves at the end of the step under way; see ``EngineProcess``."""
        self._leaving = left
        now = self._env._now
        if not self._busy:
            self._nap.shorten(now)
        elif self._may_cut:
            series = self._series
            count = series.first_boundary_from(now)
            if count < series.count:
                series.count = count
                self._goes_on = True
                self._nap.shorten(series.boundary(count))

    # -- the process ---------------------------------------------------------------------------------------------

    def _new_accounts(self, index: int, rank: Rank, step_time: StepTime, log: RunLog) -> StepAccounts:
        return StepAccounts(index, rank, step_time, log)

    def _new_series(self) -> Series:
        return Series(0, 1, 1, 0)

    def _run(self) -> Generator[Event, None, None]:
        env, nap, rank, series = self._env, self._nap, self.rank, self._series
        pipeline = rank.pipeline
        skip_ahead, strict, device = self._skip_ahead, self._strict, self._device
        ahead = self._depth + 1
        while True:
            now = env._now
            if strict:
                audit_rank(rank, self.index)
            if self._leaving is not None:
                self.left_ps = now
                if self._begun:
                    self._leave_links()
                self._leaving(evacuate(rank))
                return
            if not (skip_ahead and rank.settled(now) and self._start_run(now)):
                if self._put_off:
                    self._put_off = False
                    rank.plan_decodes()
                rank.plan_ahead(now, ahead)
                if not pipeline:
                    if self._begun:
                        self._leave_links()
                    wake_ps = rank.next_news_ps()
                    self._books_waiting(now)
                    # News of this very instant is planned when all that happens now has happened.
                    yield nap.forever() if wake_ps == NEVER else nap.until(max(wake_ps, now))
                    self._books_waiting(env._now)
                    continue
                if not (skip_ahead and rank.settled(now) and self._start_run(now)):
                    self._start_step(now)
            self._put_off = False
            if device is None:
                yield nap.until(series.boundary(series.count))
            else:
                yield device.execute(self._step_time.phases(self._step.shape_after(0)))
            self._busy = False
            if self._may_cut:
                self._end_run()
            else:
                del pipeline[0]
                self.accounts.step_ended(self._step, now, env._now)

    def _start_step(self, now: int) -> None:
        """Start the next planned step alone."""
        series = self._series
        self._busy = True
        self._may_cut = False
        self._head = None
        step = self.rank.pipeline[0]
        if self._links is not None:
            step = self._sharing(step)
        self._step = step
        series.restart(now, 1, step.total_ps, step.growth_ps)
        if step.chunked is not None:
            self._tell_connector(step, now + step.total_ps)

    def _start_run(self, now: int) -> bool:
        """Start as many equal steps as will surely be planned, perhaps behind one that is planned; else False.

        The plan is settled: whatever is planned from now on is a step of today's decodes.
        """
        rank = self.rank
        pipeline = rank.pipeline
        planned = len(pipeline)
        head = None
        count = rank.batch.steps_ahead(rank.pool.free)
        on_time = self._lag < self._depth and bool(rank.waiting)
        if on_time:
            count -= self._depth
        if planned and (step := pipeline[0]).steady and step.version == rank.batch.version:
            # Nobody has joined or left since it was planned, so the planned steps behind it are its successors.
            count += planned
            if count <= 0:
                return False
        elif planned == 0 or (planned == 1 and rank.ends_nobody()):
            if count <= 0:
                return False
            if planned:
                head = pipeline[0]
                planned = 0
            step = rank.steps.decodes(rank)
        else:
            return False
        if self._links is not None:
            step = self._sharing(step)
            head = None if head is None else self._sharing(head)
        series = self._series
        self._busy = self._may_cut = True
        self._goes_on = on_time or step.lasts < count
        count = min(count, step.lasts)
        self._head = head
        self._step = step
        self._planned = planned
        series.restart(now if head is None else now + head.total_ps, count, step.total_ps, step.growth_ps)
        if rank.incoming and rank.admits():
            self._cut(rank.incoming[0].queued_ps)
        if rank.returning:
            self._cut(rank.returning[0][0])
        return True

    def _cut(self, ready_ps: int) -> bool:
        """End the run where a request that reaches the queue at ``ready_ps`` [ps] could take part for the first time.

        It is seen by the plan made at the first boundary from ``ready_ps`` on, which is for the step ``depth``
        later, or with a connector there. Returns whether the run got shorter.
        """
        series = self._series
        count = series.first_boundary_from(ready_ps) + self._lag
        if count > series.count:
            return False
        if self._lag == self._depth:
            # The plan of the step behind the run is to see the request.
            self._goes_on = False
            if count == series.count:
                return False
        elif count == series.count:
            return False
        else:
            self._goes_on = True
        series.count = count
        return True

    # -- links that others use too -------------------------------------------------------------------------------

    def _share_changed(self, cause: int) -> None:
        """Another replica (``cause``) or a transfer (-1) changes the share of the links, now: steps that start after
        it are not those of the run any more."""
        if not (self._busy and self._may_cut):
            return
        series, now = self._series, self._env._now
        count = series.first_boundary_from(now if cause < self.index else now + 1)
        if not count and self._head is None:
            # The step that starts at this very instant has started.
            count = 1
        if count < series.count:
            series.count = count
            self._goes_on = True
            self._nap.shorten(series.boundary(count))

    def _end_run(self) -> None:
        """Bring the plan to where it would be had each step of the run been planned in its turn, and account for it."""
        rank, series, head = self.rank, self._series, self._head
        now = self._env._now
        count = series.count
        self._plan_run(count)
        if head is not None:
            self.accounts.step_ended(head, series.start_ps - head.total_ps, series.start_ps)
            if not count:
                return
        self._account(count)
        self._skip(count - 1)
        if self._depth and not self._goes_on:
            self._plan_late(series.boundary(count - 1))
        step = self._at(count - 1)
        complete(rank, step, now - step.total_ps, now)

    def _at(self, index: int) -> PlannedStep:
        """A step of the run, or one like it but for its context."""
        return self._step

    def _account(self, count: int) -> None:
        """Enter the first ``count`` steps of the run; the output of the last is still to be handed out."""
        self.accounts.series_ended(self._step, self._series, count)

    def _cut_off(self, index: int, elapsed_ps: int) -> None:
        """The end of everything cuts off the step ``index`` of the run after ``elapsed_ps`` [ps]."""
        self.accounts.step_cut_off(self._step, index, elapsed_ps)

    def _skip(self, count: int) -> None:
        """The outputs of the first ``count`` steps of the run are there; they end nobody."""
        self.rank.skip_outputs(self._step, count)

    def _plan_run(self, count: int) -> None:
        """Plan the ``count`` steps of the run that had not been planned one by one before it.

        A run that ends where the share of its links or its growth changes has more of its kind behind it, which are
        planned too.
        """
        rank = self.rank
        pipeline = rank.pipeline
        del pipeline[: count if self._head is None else 1]
        if count > self._planned:
            rank.plan_series(count - self._planned)
        if self._goes_on:
            while len(pipeline) < self._depth:
                rank.plan_decodes()

    def _plan_late(self, begun_ps: int) -> None:
        """Make the plan of the step after the run, which was due when the last step of the run began.

        Nothing had ended by then, and only requests that had reached the queue by then count. A plan that finds the
        same decodes again is put off: a run may start with them.
        """
        rank = self.rank
        rank.retire()
        if rank.settled(begun_ps) and rank.fits_decodes():
            self._put_off = True
        else:
            rank.plan_late(begun_ps)
