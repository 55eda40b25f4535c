"""What the steps of a pipeline leave behind: segments in the log, and the time of every stage in the ledger.

On the time axis of the replica, a step lasts from the return of the step before it, or from the end of an idle time, to
its own return: so segments do not overlap and cover the time in which anything is in flight. What it computed is summed
over the stages.
"""

from __future__ import annotations

from collections.abc import Mapping

from servetwin.engine.lane import Lane
from servetwin.engine.look_ahead import LookAhead
from servetwin.engine.outputs import complete
from servetwin.engine.rank import Rank
from servetwin.errors import InvariantError
from servetwin.physics.protocols import StagedStepTime
from servetwin.records import LEDGER_BUCKETS, RunLog, pack_segment


class PipelineAccounts:
    """The books of one replica.

    Args:
        index: the replica's index in the cluster.
        rank: whose steps they are.
        step_time: prices the steps.
        log: receives segments and phases.

    Attributes:
        steps: steps that have ended.
        since_ps: up to when there are segments [ps].
        flown_ps: for how long something was in flight, by the segments [ps].
        stage_busy_ps: by stage, for how long it worked on steps, its collectives included [ps].
    """

    __slots__ = ("_exposed_ps", "_flying_ps", "_host_ps", "_index", "_log", "_output_ps", "_parts", "_rank",
                 "_segments", "_stages", "_step_time", "flown_ps", "since_ps", "stage_busy_ps", "steps")  # fmt: skip

    def __init__(self, index: int, rank: Rank, step_time: StagedStepTime, log: RunLog) -> None:
        self._index = index
        self._rank = rank
        self._step_time = step_time
        self._log = log
        self._segments = log.segments
        self._output_ps = rank.settings.output_ps_per_request
        self._stages = rank.settings.stages
        self.steps = 0
        self.since_ps = 0
        self.flown_ps = 0
        self.stage_busy_ps = [0] * self._stages
        self._host_ps = 0
        self._exposed_ps = 0
        #: Of what was in flight when the run ended: for how long it had been, and its parts.
        self._flying_ps = 0
        self._parts: dict[str, int] = {}

    def landed(self, lane: Lane, held: int) -> None:
        """The step of the lane, which is in its place in the rank, is back: hand out its output and enter it.

        Args:
            lane: the lane.
            held: tokens of KV cache in use since the return before.
        """
        rank, step, end = self._rank, lane.step, lane.end_ps
        before = lane.visible_ps
        complete(rank, step, self.since_ps, end)
        lane.visible_ps = rank.visible_ps
        lane.next_output = rank.next_output
        self._enter(lane, lane.done, 1, end - self.since_ps, rank.visible_ps - before, lane.exposed_ps, held)
        self.since_ps = end
        if self._log.wants_phases:
            self._draw(lane)

    def looked_ahead(self, look: LookAhead, held: int) -> None:
        """The first ``look.count`` flights are back, in which nobody ended.

        Args:
            look: the flights; its lanes still are as they were before.
            held: tokens of KV cache in use when the first of them came back.
        """
        lanes = look.lanes
        number = len(lanes)
        if number == 1 and self._alone(look, held):
            return
        rank = self._rank
        visible = rank.visible_ps
        since = self.since_ps
        for flight in range(look.count):
            lane = lanes[flight % number]
            size = lane.step.emitted
            end = look.times[flight]
            shown = end + self._output_ps * size
            if shown < visible:
                shown = visible
            visible = shown
            done = lane.done + flight // number
            self._enter(lane, done, 1, end - since, shown - lane.visible_ps, look.exposed_ps(flight), held)
            lane.visible_ps = shown
            self.since_ps = since = end
            held += size
        rank.visible_ps = visible

    def _alone(self, look: LookAhead, held: int) -> bool:
        """The same for a single lane, whose steps form one segment; False if they do not."""
        lane, count = look.lanes[0], look.count
        first = look.times[0] - self.since_ps
        whole = sum(lane.spans) + lane.done * sum(lane.growths) + sum(lane.hand_offs)
        output = self._output_ps * lane.step.emitted
        gap = look.times[0] + output - lane.visible_ps
        if first != whole or look.times[0] + output < self._rank.visible_ps:
            return False
        # From the second on, nothing is under way but the hand-off.
        exposed = look.exposed_ps(0) + (count - 1) * sum(lane.hand_offs)
        self._enter(lane, lane.done, count, first, gap, exposed, held)
        self.since_ps = look.times[count - 1]
        lane.visible_ps = self._rank.visible_ps = self.since_ps + output
        return True

    def _enter(self, lane: Lane, done: int, count: int, span_ps: int, gap_ps: int, exposed_ps: int, held: int) -> None:
        """A segment of ``count`` steps, the first of which comes ``done`` steps after the lane's in its series."""
        step = lane.step
        self.steps += count
        self._exposed_ps += exposed_ps
        compute_growth, memory_growth = step.compute_growth_ps, step.memory_growth_ps
        growth = step.growth_ps if count > 1 else 0
        busy, pairs = self.stage_busy_ps, count * (count - 1) >> 1
        waiting = step.total_ps - step.compute_ps - step.memory_ps - step.communication_ps
        waiting_growth = step.growth_ps - compute_growth - memory_growth
        self._host_ps += count * (waiting + done * waiting_growth) + pairs * waiting_growth
        for stage in range(self._stages):
            stage_growth = lane.growths[stage]
            busy[stage] += count * (lane.spans[stage] + done * stage_growth) + pairs * stage_growth
        self.flown_ps += count * span_ps + growth * pairs
        shape = step.shape
        decodes = shape.decodes
        grown = done * decodes
        segments = self._segments
        segments += pack_segment(
            self._index,
            self.since_ps,
            count,
            span_ps,
            growth,
            gap_ps,
            decodes if step.late is None else decodes - len(step.late),
            shape.tokens,
            step.prefill_tokens,
            step.emitted,
            decodes,
            step.context + grown,
            step.attended + grown,
            held,
            step.compute_ps + done * compute_growth,
            step.memory_ps + done * memory_growth,
            step.communication_ps,
            step.recomputed,
            compute_growth if count > 1 else 0,
            memory_growth if count > 1 else 0,
            0,
            0,
            0,
        )
        if len(segments) > self._log.segment_limit:
            self._log.flush_segments()
        if step.prefill_tokens and self._log.wants_chunks:
            self._log.chunks(self._index, self.since_ps, shape.chunks)

    def _draw(self, lane: Lane) -> None:
        """Tell the log what each stage did for the lane's step."""
        step, done = lane.step, lane.done
        shape = step.shape_after(done)
        for stage in range(self._stages):
            start = lane.ends[stage] - lane.span(stage)
            phases = self._step_time.stage_phases(stage, shape)
            self._log.stage_phases(
                self._index, stage, start, shape.tokens, step.prefill_tokens, shape.decodes,
                step.context + done * shape.decodes, phases,
            )  # fmt: skip

    def cut_off(self, flying: list[Lane], before: list[int], now: int) -> None:
        """The run ends at ``now`` [ps] with steps in flight; what they got of each stage is split like their price.

        Args:
            flying: the lanes in flight, the oldest first.
            before: when the stages were done with the step before them [ps].
            now: the end [ps].
        """
        parts = dict.fromkeys(("compute", "hbm", "exposed_communication", "host"), 0)
        for lane in flying:
            left = self.since_ps
            for stage, price in enumerate(self._step_time.stages(lane.step.shape_after(lane.done))):
                total = price.total_ps
                begins = lane.ends[stage] - total
                if stage:
                    parts["exposed_communication"] += max(0, min(begins, now) - max(before[stage], left))
                spent = min(max(now - begins, 0), total)
                shares = {
                    "compute": spent * price.compute_ps // total if total else 0,
                    "exposed_communication": spent * price.communication_ps // total if total else 0,
                    "host": spent * price.host_ps // total if total else 0,
                }
                for bucket, share in shares.items():
                    parts[bucket] += share
                parts["hbm"] += spent - sum(shares.values())
                self.stage_busy_ps[stage] += spent
                left = lane.ends[stage]
            before = lane.ends
        self._parts = parts
        self._flying_ps = now - self.since_ps

    def ledger(self, spent: Mapping[str, int], end_ps: int) -> dict[str, int]:
        """The time of all stages up to ``end_ps`` in each bucket [ps].

        While anything is in flight, a stage that has nothing to do is in the bubble.

        Args:
            spent: what the segments say (``results.spent``); its sum is the time in which something was in flight.
            end_ps: when the run ended [ps].
        """
        flown = sum(spent.values())
        if flown != self.flown_ps:
            raise InvariantError(f"replica {self._index}: in flight for {self.flown_ps} ps, {flown} ps by its segments")
        row = dict.fromkeys(LEDGER_BUCKETS, 0) | dict(spent)
        row["host"] = self._host_ps
        row["exposed_communication"] += self._exposed_ps
        for bucket, time in self._parts.items():
            row[bucket] += time
        flown += self._flying_ps
        row["bubble"] = self._stages * flown - sum(row.values())
        row["idle"] = self._stages * (end_ps - flown)
        if row["bubble"] < 0 or row["idle"] < 0:
            raise InvariantError(f"replica {self._index} was busy for longer than the run lasted")
        return row
