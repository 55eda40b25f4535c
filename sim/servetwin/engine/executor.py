"""The process of one replica: plan a run of equal steps, sleep until its end, account for it."""

from __future__ import annotations

from collections.abc import Callable, Generator

import simpy
from simpy.events import Event

from servetwin.engine.audit import audit_rank
from servetwin.engine.device import Device
from servetwin.engine.ledger import StepLedger
from servetwin.engine.plan import PlannedStep
from servetwin.engine.protocols import EVERY_OPERATION, SKIP_AHEAD, EngineSettings, KVConnector, Scheduler
from servetwin.engine.rank import Rank
from servetwin.kernel import BOUNDARY, Nap, priority
from servetwin.physics.protocols import StepTime
from servetwin.physics.series import Series
from servetwin.records import RunLog
from servetwin.request import REJECTED, Request


class Executor:
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
    """

    def __init__(
        self,
        env: simpy.Environment,
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
    ) -> None:
        self.index = index
        self.gpus = gpus
        self.settings = settings
        self.rank = Rank(
            settings, step_time, scheduler, log.gap, on_finished, lambda: env._now, self._returning, connector
        )
        self.ledger = StepLedger()
        #: Steps that have ended.
        self.steps = 0
        self._env = env
        self._step_time = step_time
        self._log = log
        self._on_finished = on_finished
        self._strict = strict
        self._skip_ahead = stepping == SKIP_AHEAD
        order = priority(BOUNDARY, index)
        self._device = Device(env, order, gpus) if stepping == EVERY_OPERATION else None
        self._nap = Nap(env, order)
        #: The steps under way, None when idle; and whether an arrival may cut them short.
        self._series: Series | None = None
        self._step: PlannedStep | None = None
        self._offset = 0
        #: Tokens of KV cache released between the planning of the step and its start.
        self._released = 0
        self._may_cut = False
        self._front_end_ps = 0
        env.process(self._run())

    # -- what others call ----------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Take a request in, now; it reaches the waiting queue when the front end is done with it.

        A request that can never fit is rejected at once, with its reason.
        """
        settings = self.settings
        reason = self._misfit(request)
        if reason:
            request.outcome = REJECTED
            request.reason = reason
            self._on_finished(request, self._env._now)
            return
        ready = self._env._now + settings.front_end_ps + settings.front_end_per_token_ps * request.prompt_tokens
        if ready < self._front_end_ps:
            ready = self._front_end_ps
        self._front_end_ps = ready
        request.queued_ps = ready
        self.rank.incoming.append(request)
        if self._series is None or self.rank.admits():
            self._disturb(ready)

    def _returning(self) -> None:
        """A request is back from a connector, now: it takes part as soon as one that arrives now could."""
        self._disturb(self._env._now)

    def _disturb(self, ready_ps: int) -> None:
        series = self._series
        if series is None:
            self._nap.shorten(ready_ps)
        elif self._may_cut and self._cut(series, ready_ps):
            self._nap.shorten(series.boundary(series.count))

    def generated(self, now: int) -> int:
        """Output tokens of the unfinished requests here, as of the last step that ended before ``now`` [ps]."""
        series = self._series
        if series is None or series.count == 1:
            return self.rank.generated
        assert self._step is not None
        return self.rank.generated + self._step.emitted * series.steps_before(now)

    def stop(self, now: int) -> None:
        """Account for what has happened up to ``now`` [ps], in the middle of a run or not; the executor is over."""
        series, step = self._series, self._step
        if series is None or step is None:
            return
        done = series.count if series.boundary(series.count) <= now else series.steps_before(now + 1)
        if done:
            self._account(series, step, self._offset, done)
            self.rank.generated += step.emitted * done
        self.ledger.add_partial(step.price, self._offset + done, now - series.boundary(done))
        self._series = None

    # -- the process ---------------------------------------------------------------------------------------------

    def _run(self) -> Generator[Event, None, None]:
        env, nap, rank = self._env, self._nap, self.rank
        ahead = self.settings.depth + 1
        while True:
            rank.plan_ahead(env._now, ahead)
            if self._strict:
                audit_rank(rank, self.index)
            if not rank.pipeline:
                incoming = rank.incoming
                yield nap.until(incoming[0].queued_ps) if incoming else nap.forever()
                continue
            series, step = self._start(env._now, ahead)
            if self._device is None:
                yield nap.until(series.boundary(series.count))
            else:
                shape = step.shape_after(self._offset)
                yield self._device.execute(self._step_time.phases(shape))
            self._series = None
            self._account(series, step, self._offset, series.count)
            self._finish(series, step, env._now)

    def _start(self, now: int, ahead: int) -> tuple[Series, PlannedStep]:
        """Start the next planned step, and as many equal ones after it as will surely be planned."""
        rank = self.rank
        pipeline = rank.pipeline
        step, offset = pipeline[0]
        price = step.price
        series = Series(now, 1, price.total_ps + offset * price.growth_ps, price.growth_ps)
        self._series, self._step, self._offset = series, step, offset
        self._released = rank.released - step.released
        self._may_cut = False
        if (
            self._skip_ahead
            and step.steady
            and rank.stable
            and len(pipeline) == ahead
            and pipeline[-1][0].version == step.version
            and pipeline[-1][0].steady
        ):
            series.count = ahead + rank.further_steps(step)
            self._may_cut = True
            if rank.incoming and rank.admits():
                self._cut(series, rank.incoming[0].queued_ps)
        return series, step

    def _cut(self, series: Series, ready_ps: int) -> bool:
        """End the run where a request that reaches the queue at ``ready_ps`` [ps] could take part for the first time.

        It is seen by the plan made at the first boundary from ``ready_ps`` on, which is for the step ``depth``
        later. Returns whether the run got shorter.
        """
        count = series.first_boundary_from(ready_ps) + self.settings.depth
        if count >= series.count:
            return False
        series.count = count
        return True

    def _finish(self, series: Series, step: PlannedStep, now: int) -> None:
        """The run has ended: bring the plan up to where it would be, and hand out the last step's output."""
        rank = self.rank
        count = series.count
        if not self._may_cut:
            rank.pipeline.popleft()
            rank.complete(step, now)
            return
        depth = self.settings.depth
        rank.pipeline.clear()
        rank.plan_series(step, count - depth - 1)
        rank.skip_outputs(step, count - 1)
        # What a plan made at an earlier boundary would have found: nothing has ended since, and requests are taken
        # from the front end up to that boundary only.
        for planned in range(1, depth + 1):
            rank.plan_late(series.boundary(count - depth + planned - 1), planned)
        rank.complete(step, now)

    def _account(self, series: Series, step: PlannedStep, offset: int, count: int) -> None:
        """Write ``count`` steps of a run to the log and the ledger."""
        self.steps += count
        self.ledger.add(step, offset, count)
        log = self._log
        rank = self.rank
        output = self.settings.output_ps_per_request * step.shape.requests
        visible = rank.visible_ps
        gap = series.start_ps + series.first_ps + output - visible
        done = 0
        # Tokens of a smaller batch may not overtake those of the step before; rare, and then step by step.
        while gap < 0 and done < count:
            self._segment(series, step, offset, done, 1, 0)
            done += 1
            gap = series.boundary(done + 1) + output - visible
        if done < count:
            self._segment(series, step, offset, done, count - done, gap)
            if count > 1:
                # The output of the steps before the last; the last is completed by the rank.
                rank.visible_ps = max(visible, series.boundary(count - 1) + output)
        if log.wants_phases:
            log.phases(self.index, series.start_ps, self._step_time.phases(step.shape_after(offset)))
        if len(log.segments) > log.segment_limit:
            log.flush_segments()

    def _segment(self, series: Series, step: PlannedStep, offset: int, done: int, count: int, gap: int) -> None:
        shape, price = step.shape, step.price
        decodes = shape.decodes
        ahead = offset + done
        late = 0 if step.late is None or ahead else len(step.late)
        grown = ahead * decodes
        self._log.segments += (
            self.index,
            series.boundary(done) if done else series.start_ps,
            count,
            series.first_ps + done * series.growth_ps,
            series.growth_ps,
            gap,
            decodes - late,
            shape.tokens,
            step.prefill_tokens,
            step.emitted,
            decodes,
            step.context + grown,
            step.attended + grown,
            step.held + grown - self._released,
            price.compute_ps + ahead * price.compute_growth_ps,
            price.memory_ps + ahead * price.memory_growth_ps,
            price.compute_growth_ps,
        )

    def _misfit(self, request: Request) -> str:
        """Why the request can never run here, or nothing."""
        settings = self.settings
        tokens = request.prompt_tokens + request.output_tokens
        if tokens > settings.max_model_len:
            return f"{tokens} tokens exceed max_model_len {settings.max_model_len}"
        blocks = -(-(tokens - 1) // settings.block_size)
        if blocks > settings.num_blocks - 1:
            return f"needs {blocks} KV blocks, the replica has {settings.num_blocks - 1}"
        return ""
