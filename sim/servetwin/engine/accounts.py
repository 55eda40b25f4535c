"""What the steps of a replica leave behind: segments in the log, and where their time went."""

from __future__ import annotations

from servetwin.engine.outputs import complete
from servetwin.engine.plan import PlannedStep
from servetwin.engine.rank import Rank
from servetwin.physics.protocols import StepPrice, StepShape, StepTime
from servetwin.physics.series import Series
from servetwin.records import RunLog


class StepAccounts:
    """The books of one replica.

    A step is first split by tokens into useful and recomputed ones; only the useful part counts as compute, HBM or
    communication. Time that the GPU waits for the CPU is host time, whosever tokens it serves.

    Args:
        index: the replica's index in the cluster.
        rank: whose steps they are.
        step_time: prices the steps.
        log: receives segments and phases.

    Attributes:
        steps: steps that have ended.
        compute_ps, memory_ps, communication_ps, host_ps, recompute_ps: what the time of the steps went to [ps].
    """

    __slots__ = (
        "_index",
        "_log",
        "_output_ps",
        "_rank",
        "_step_time",
        "communication_ps",
        "compute_ps",
        "host_ps",
        "memory_ps",
        "recompute_ps",
        "steps",
    )

    def __init__(self, index: int, rank: Rank, step_time: StepTime, log: RunLog) -> None:
        self._index = index
        self._rank = rank
        self._step_time = step_time
        self._log = log
        self._output_ps = rank.settings.output_ps_per_request
        self.steps = 0
        self.compute_ps = 0
        self.memory_ps = 0
        self.communication_ps = 0
        self.host_ps = 0
        self.recompute_ps = 0

    @property
    def busy_ps(self) -> int:
        """All time in which the replica had a step under way [ps]."""
        return self.compute_ps + self.memory_ps + self.communication_ps + self.host_ps + self.recompute_ps

    def step_ended(self, step: PlannedStep, start_ps: int, end_ps: int) -> None:
        """A single step has ended: hand out its output and enter it."""
        rank, price = self._rank, step.price
        before = rank.visible_ps
        held = step.held + step.released - rank.released
        complete(rank, step, end_ps)
        self.steps += 1
        self.host_ps += price.host_ps
        if step.recomputed:
            self._add_recomputing(step)
        else:
            self.compute_ps += price.compute_ps
            self.memory_ps += price.memory_ps
            self.communication_ps += price.communication_ps
        self._write(step, start_ps, 1, price.total_ps, rank.visible_ps - before, 0, held)

    def series_ended(self, step: PlannedStep, series: Series, count: int) -> None:
        """The first ``count`` steps of ``series``, which starts with ``step``, have ended: enter them.

        The output of the last of them is still to be handed out.
        """
        rank, price = self._rank, step.price
        self.steps += count
        growths = count * (count - 1) >> 1
        self.host_ps += price.host_ps * count
        self.compute_ps += price.compute_ps * count + price.compute_growth_ps * growths
        self.memory_ps += price.memory_ps * count + price.memory_growth_ps * growths
        self.communication_ps += price.communication_ps * count
        output = self._output_ps * step.shape.requests
        start, first = series.start_ps, series.first_ps
        held = step.held + step.released - rank.released
        gap = start + first + output - rank.visible_ps
        done = 0
        # Tokens of a smaller batch may not overtake those of the step before; rare, and then step by step.
        while gap < 0 and done < count:
            self._write(step, series.boundary(done), 1, first + done * series.growth_ps, 0, done, held)
            done += 1
            gap = series.boundary(done + 1) + output - rank.visible_ps
        if done < count:
            if done:
                start = series.boundary(done)
                first += done * series.growth_ps
            self._write(step, start, count - done, first, gap, done, held)
            if count > 1:
                # The output of the steps before the last; the last is completed by itself.
                rank.visible_ps = max(rank.visible_ps, series.boundary(count - 1) + output)

    def step_cut_off(self, price: StepPrice, done: int, elapsed_ps: int) -> None:
        """A step was under way when the run ended; its time is split like that of the whole step, all of it useful.

        Args:
            price: of the first step of its series.
            done: steps of the series before it.
            elapsed_ps: for how long it has run [ps].
        """
        total = price.total_ps + done * price.growth_ps
        compute = elapsed_ps * (price.compute_ps + done * price.compute_growth_ps) // total
        communication = elapsed_ps * price.communication_ps // total
        host = elapsed_ps * price.host_ps // total
        self.compute_ps += compute
        self.communication_ps += communication
        self.host_ps += host
        self.memory_ps += elapsed_ps - compute - communication - host

    def _add_recomputing(self, step: PlannedStep) -> None:
        price = step.price
        tokens = step.shape.tokens
        parts = (price.compute_ps, price.memory_ps, price.communication_ps)
        again = [part * step.recomputed // tokens for part in parts]
        self.compute_ps += parts[0] - again[0]
        self.memory_ps += parts[1] - again[1]
        self.communication_ps += parts[2] - again[2]
        self.recompute_ps += sum(again)

    def _write(
        self, step: PlannedStep, start_ps: int, count: int, first_ps: int, gap_ps: int, done: int, held: int
    ) -> None:
        """A segment of ``count`` steps, the first of which comes ``done`` steps after ``step`` in its series."""
        shape, price, log = step.shape, step.price, self._log
        decodes = shape.decodes
        grown = done * decodes
        segments = log.segments
        segments += (
            self._index,
            start_ps,
            count,
            first_ps,
            price.growth_ps,
            gap_ps,
            decodes if step.late is None else decodes - len(step.late),
            shape.tokens,
            step.prefill_tokens,
            step.emitted,
            decodes,
            step.context + grown,
            step.attended + grown,
            held + grown,
            price.compute_ps + done * price.compute_growth_ps,
            price.memory_ps + done * price.memory_growth_ps,
            price.compute_growth_ps,
        )
        if len(segments) > log.segment_limit:
            log.flush_segments()
        if log.wants_phases:
            log.phases(self._index, start_ps, self._step_time.phases(_later(shape, done)))


def _later(shape: StepShape, done: int) -> StepShape:
    """The shape of the step that comes ``done`` steps later in its series."""
    if not done:
        return shape
    context = tuple(now + done * growing for now, growing in zip(shape.context, shape.growing, strict=True))
    return StepShape(
        shape.tokens, shape.padded_tokens, shape.graph, shape.requests, shape.decodes, context, shape.growing,
        shape.chunks, shape.width, shape.link_share,
    )  # fmt: skip
