"""The process of a replica with pipeline stages: schedule micro-batches, wait for the oldest, hand out its output.

Source: vLLM ``v1/engine/core.py``, ``step_with_batch_queue``: filling the queue of batches comes before waiting for an
output; where it is full, or nothing can be scheduled, the engine blocks until the oldest batch is done, and sees only
then what has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from simpy.events import Event

from servetwin.engine.audit import audit_rank
from servetwin.engine.batch import NEVER
from servetwin.engine.lane import Lane
from servetwin.engine.look_ahead import LookAhead
from servetwin.engine.pipeline_accounts import PipelineAccounts
from servetwin.engine.process import EngineProcess
from servetwin.engine.protocols import (
    EVERY_OPERATION,
    SKIP_AHEAD,
    EngineSettings,
    KVConnector,
    Scheduler,
    SharedLinks,
)
from servetwin.engine.rank import NOBODY, Rank
from servetwin.engine.stage_clock import StagePrices, launch
from servetwin.engine.stage_devices import StageDevices
from servetwin.engine.steps import StepMaker
from servetwin.kernel import BOUNDARY, Environment, Nap, priority
from servetwin.physics.protocols import StagedStepTime
from servetwin.records import RunLog
from servetwin.request import Request

#: Later than anything.
_NEVER_PS = (1 << 62) - 1


class PipelinedExecutor(EngineProcess):
    """Runs micro-batches through the stages of a pipeline.

    Args:
        env: the environment, with the integer picosecond clock.
        index: the replica's index in the cluster.
        step_time: prices the steps on each stage.
        settings: the engine's settings.
        scheduler: order of the waiting queue and choice of the victim.
        log: receives segments, gaps and phases.
        on_finished: told of each request that ends here, with the visible time of its last token [ps].
        stepping: ``skip-ahead``, ``every-step`` or ``every-operation``; the results are the same.
        gpus: GPUs of each stage.
        strict: count every account again after each plan (slow).
        connector: where else cached KV blocks may lie, or None.
        steps: makes the steps; replicas with the same ``step_time`` and ``settings`` may share it. None = its own.
        noise: the factor on the time of the next step that is planned, one of its own for each step, or None.
        links: the links of its collectives and hand-offs where others use them too, or None. A micro-batch has the
            share of the instant at which it is scheduled, on all stages.
    """

    def __init__(
        self,
        env: Environment,
        index: int,
        step_time: StagedStepTime,
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
    ) -> None:
        steps = StepMaker(settings, step_time) if steps is None else steps
        rank = Rank(settings, steps, scheduler, log.gap, on_finished, lambda: env._now, self._hears, connector, noise)
        self.accounts = PipelineAccounts(index, rank, step_time, log)
        super().__init__(env, index, settings, rank, on_finished, gpus, self.accounts, links)
        self._step_time = step_time
        order = priority(BOUNDARY, index)
        stages = settings.stages
        self._nap = Nap(env, order)
        self._devices = StageDevices(env, order, step_time, stages, gpus) if stepping == EVERY_OPERATION else None
        self._prices = StagePrices(step_time)
        self._noisy = noise is not None
        # A timeline shows every step.
        self._skip_ahead = stepping == SKIP_AHEAD and noise is None and not log.wants_phases
        self._strict = strict
        self._slots = stages + settings.depth
        self._flying = rank.flying
        rank.lanes = [Lane(place, settings.block_size, steps.windows) for place in range(self._slots)]
        #: Lanes that nobody is in, but for the one on top, whose step has just come back.
        self._resting = rank.lanes[::-1]
        #: When the stages are done with the youngest step in flight, and with the last one that has come back [ps].
        self._ends = self._before = [0] * stages
        self._look = LookAhead(stages)
        self._looking = False
        #: Tokens of KV cache in use since the last plan.
        self._held = 0
        env.process(self._run())

    # -- what others call ----------------------------------------------------------------------------------------

    def generated(self, now: int) -> int:
        """Output tokens of the unfinished requests here, as of the last step that ended before ``now`` [ps]."""
        generated = self.rank.generated
        if self._looking:
            generated += self._look.emitted(self._look.back_before(now))
        return generated

    def stop(self, now: int) -> None:
        """Account for what has happened before ``now`` [ps]; see ``EngineProcess``."""
        self._books_waiting(now)
        self._hear_the_rest()
        if not self._flying:
            return
        if self._looking:
            self._look.count = self._look.back_before(now)
            self._settle()
        self.accounts.cut_off(self._flying, self._before, now)

    @property
    def works(self) -> bool:
        """Whether a step is under way."""
        return bool(self._flying)

    def _arrived(self, ready_ps: int, after: bool) -> None:
        if not self._flying or (self._looking and self.rank.admits()):
            self._disturb(max(ready_ps, self._env._now + 1) if after and self._flying else ready_ps)

    def _disturb(self, ready_ps: int) -> None:
        if not self._flying:
            self._nap.shorten(ready_ps)
        elif self._looking and self._look.cut(ready_ps):
            self._nap.shorten(self._look.times[self._look.count])

    # -- the process ---------------------------------------------------------------------------------------------

    def _run(self) -> Generator[Event, None, None]:
        env, nap, rank, flying = self._env, self._nap, self.rank, self._flying
        strict, skip_ahead, devices = self._strict, self._skip_ahead, self._devices
        while True:
            now = env._now
            if strict:
                audit_rank(rank, self.index)
            self._fill(now)
            if not flying:
                if self._begun:
                    self._leave_links()
                wake_ps = rank.next_news_ps()
                self._books_waiting(now)
                # News of this very instant is planned when all that happens now has happened.
                yield nap.forever() if wake_ps == NEVER else nap.until(max(wake_ps, now))
                self._books_waiting(env._now)
                continue
            if devices is not None:
                yield devices.back(flying[0])
                # In its turn among the events of this instant.
                yield nap.until(env._now)
            elif skip_ahead and self._closed():
                self._look_ahead()
                yield nap.until(self._look.times[self._look.count])
                self._settle()
            else:
                yield nap.until(flying[0].end_ps)
            self._land()

    def _fill(self, now: int) -> None:
        """Schedule micro-batches as of ``now`` [ps] until the slots are full or there is nothing to schedule."""
        rank, flying, resting = self.rank, self._flying, self._resting
        size = self.settings.block_size
        while len(flying) < self._slots:
            lane = resting[-1]
            rank.take_up(lane)
            rank.blocked = NOBODY
            if self.settings.balanced:
                rank.most_decodes = -(-len(rank.running) // self.settings.stages)
            if not rank.plan(now):
                # A plan that only preempted is made again at once if there is nothing to wait for.
                if rank.preempted and not flying:
                    continue
                break
            resting.pop()
            step = rank.pipeline.pop()
            if self._links is not None:
                step = self._sharing(step)
            self._prices.fill(lane, step, self._noisy)
            if not flying:
                self.accounts.since_ps = now
            self._ends = launch(lane, self._ends, now)
            if step.chunked is not None:
                self._tell_connector(step, lane.end_ps)
            flying.append(lane)
            if self._devices is not None:
                self._devices.launch(lane)
        self._held = rank.tokens_held - rank.pool.overlap * size

    def _land(self) -> None:
        """The oldest step in flight is back."""
        lane = self._flying.pop(0)
        self.rank.take_up(lane)
        self.accounts.landed(lane, self._held)
        lane.chunked = []
        self._before = lane.ends
        self._resting.append(lane)

    def _closed(self) -> bool:
        """Whether plans will find the decodes of today and nothing else, until a request ends or arrives.

        Of a head of the queue that did not fit into the last plan nothing changes meanwhile: blocks get fewer, and its
        whole prompt needs a place whatever else is in the batch.
        """
        rank, settings = self.rank, self.settings
        if rank.prefilling or rank.paused or rank.returning:
            return False
        if self._links is not None and not self._share_is_settled():
            return False
        if not rank.waiting or len(rank.running) >= settings.max_num_seqs:
            return True
        return rank.blocked[0] >= 0 and settings.reserve_full_prompt and settings.chunked_prefill

    def _look_ahead(self) -> None:
        """Find out how the micro-batches in flight go on."""
        rank = self.rank
        until = _NEVER_PS
        if rank.incoming and rank.admits():
            until = rank.incoming[0].queued_ps
        self._look.look(self._flying, self._ends, rank.pool.free, until, rank.most_decodes)
        self._looking = True

    def _settle(self) -> None:
        """Bring everything to where it would be had each flight that was looked ahead been handled in its turn."""
        self._looking = False
        look, rank, flying = self._look, self.rank, self._flying
        count = look.count
        if not count:
            return
        self.accounts.looked_ahead(look, self._held)
        number = len(look.lanes)
        self._before = look.ends(count - 1)
        self._ends = look.ends(count + number - 1)
        flown = [(look.ends(flight), look.exposed_ps(flight)) for flight in range(count, count + number)]
        for place, lane in enumerate(look.lanes):
            rounds = look.rounds(place)
            batch = lane.batch
            tokens = rounds * batch.size
            rank.pool.take(batch.new_blocks(rounds))
            batch.advance(rounds)
            rank.tokens_held += tokens
            rank.generated += tokens
            self._held += tokens
            lane.next_output += rounds
            lane.done += rounds
        for flight, (ends, exposed) in enumerate(flown, start=count):
            lane = look.lanes[flight % number]
            lane.ends, lane.exposed_ps, lane.end_ps = ends, exposed, ends[-1]
        flying[:] = [look.lanes[(count + place) % number] for place in range(number)]

    # -- links that others use too -------------------------------------------------------------------------------

    def _share_is_settled(self) -> bool:
        """Whether all that is in flight has today's share, which what follows it will have too."""
        assert self._links is not None
        share = 1 / self._links.crowd
        return all(lane.step.shape.link_share == share for lane in self._flying)

    def _share_changed(self, cause: int) -> None:
        """Another replica (``cause``) or a transfer (-1) changes the share of the links, now: micro-batches that are
        scheduled after it are not those that were looked ahead."""
        now = self._env._now
        if self._looking and self._look.cut(now if cause < self.index else now + 1):
            self._nap.shorten(self._look.times[self._look.count])
