"""What the steps of a replica leave behind: segments in the log."""

from __future__ import annotations

from collections.abc import Mapping

from servetwin.engine.outputs import complete
from servetwin.engine.plan import PlannedStep
from servetwin.engine.rank import Rank
from servetwin.errors import InvariantError
from servetwin.physics.protocols import StepTime
from servetwin.physics.series import Series
from servetwin.records import LEDGER_BUCKETS, RunLog, pack_segment


class StepAccounts:
    """The books of one replica: every step that ends is in one segment.

    Args:
        index: the replica's index in the cluster.
        rank: whose steps they are.
        step_time: prices the steps.
        log: receives segments and phases.

    Attributes:
        steps: steps that have ended.
        cut_off: by bucket of the ledger, the time of the step that was under way when the run ended [ps].
        stage_busy_ps: see ``process.Accounts``; there is one stage.
    """

    __slots__ = ("_index", "_limit", "_log", "_output_ps", "_rank", "_segments", "_step_time", "_wants_chunks",
                 "_wants_phases", "cut_off", "stage_busy_ps", "steps")  # fmt: skip

    def __init__(self, index: int, rank: Rank, step_time: StepTime, log: RunLog) -> None:
        self._index = index
        self._rank = rank
        self._step_time = step_time
        self._log = log
        # Read once: the log is known by its protocol only, and that is slow to ask for each segment.
        self._segments = log.segments
        self._limit = log.segment_limit
        self._wants_chunks = log.wants_chunks
        self._wants_phases = log.wants_phases
        self._output_ps = rank.settings.output_ps_per_request
        self.steps = 0
        self.cut_off: dict[str, int] = {}
        self.stage_busy_ps: list[int] = []

    def step_ended(self, step: PlannedStep, start_ps: int, end_ps: int) -> None:
        """A single step has ended: hand out its output and enter it."""
        rank = self._rank
        before = rank.visible_ps
        held = step.held + step.released - rank.released
        complete(rank, step, start_ps, end_ps)
        self.steps += 1
        self._write(step, start_ps, 1, step.total_ps, rank.visible_ps - before, 0, held)

    def series_ended(self, step: PlannedStep, series: Series, count: int) -> None:
        """The first ``count`` steps of ``series``, which starts with ``step``, have ended: enter them.

        The output of the last of them is still to be handed out.
        """
        rank = self._rank
        self.steps += count
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

    def step_cut_off(self, step: PlannedStep, done: int, elapsed_ps: int) -> None:
        """A step was under way when the run ended; its time is split like that of the whole step, all of it useful.

        Args:
            step: the first step of its series.
            done: steps of the series before it.
            elapsed_ps: for how long it has run [ps].
        """
        total = step.total_ps + done * step.growth_ps
        compute = step.compute_ps + done * step.compute_growth_ps
        memory = step.memory_ps + done * step.memory_growth_ps
        host = total - compute - memory - step.communication_ps - step.draft_ps
        parts = {
            "compute": elapsed_ps * compute // total,
            "exposed_communication": elapsed_ps * step.communication_ps // total,
            "host": elapsed_ps * host // total,
            "draft": elapsed_ps * step.draft_ps // total,
        }
        self.cut_off = {**parts, "hbm": elapsed_ps - sum(parts.values())}

    def ledger(self, spent: Mapping[str, int], end_ps: int) -> dict[str, int]:
        """The replica's time up to ``end_ps`` in each bucket [ps]: what no step took was idle.

        Args:
            spent: what its segments say (``results.spent``).
            end_ps: when the run ended [ps].
        """
        row = dict.fromkeys(LEDGER_BUCKETS, 0)
        for part in (spent, self.cut_off):
            for bucket, time in part.items():
                row[bucket] += time
        row["idle"] = end_ps - sum(row.values())
        if row["idle"] < 0:
            raise InvariantError(f"replica {self._index} was busy for longer than the run lasted")
        return row

    def _write(
        self, step: PlannedStep, start_ps: int, count: int, first_ps: int, gap_ps: int, done: int, held: int
    ) -> None:
        """A segment of ``count`` steps, the first of which comes ``done`` steps after ``step`` in its series."""
        shape = step.shape
        decodes = shape.decodes
        context, attended, compute, memory = step.context, step.attended, step.compute_ps, step.memory_ps
        if done:
            grown = done * decodes
            context += grown
            attended += grown
            held += grown
            compute += done * step.compute_growth_ps
            memory += done * step.memory_growth_ps
        segments = self._segments
        segments += pack_segment(
            self._index,
            start_ps,
            count,
            first_ps,
            step.growth_ps,
            gap_ps,
            decodes if step.late is None else decodes - len(step.late),
            shape.tokens,
            step.prefill_tokens,
            step.emitted,
            decodes,
            context,
            attended,
            held,
            compute,
            memory,
            step.communication_ps,
            step.recomputed,
            step.compute_growth_ps,
            step.memory_growth_ps,
            step.draft_ps,
            shape.drafted,
            step.accepted,
        )
        if len(segments) > self._limit:
            self._log.flush_segments()
        if self._wants_chunks and step.prefill_tokens:
            self._log.chunks(self._index, start_ps, shape.chunks)
        if self._wants_phases:
            self._log.phases(self._index, start_ps, self._step_time.phases(step.shape_after(done)))
