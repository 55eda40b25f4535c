"""Exact totals over the segments of a run: the same however its steps are cut into segments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from servetwin.results.columns import ColumnStore
from servetwin.results.exact import ExactBins, Ints, exact_dot, exact_sum
from servetwin.results.gaps import GapSet
from servetwin.results.steps import Rows, pairs, steps_until


class Totals:
    """Sums over all steps.

    Attributes:
        steps: engine steps.
        tokens: tokens scheduled.
        prefill_tokens: prompt or recomputed tokens among them.
        emitted: output tokens that the steps yielded.
        busy_ps: per replica, how long its steps lasted together [ps].
        computing_ps: the same over all replicas and the stages of their pipelines [ps].
        compute_ps: part of it that was bound by arithmetic [ps], all replicas.
        memory_ps: part of it that was bound by HBM [ps], all replicas.
        held_most: per replica, the most KV cache in use when a step started [tokens].
        end_ps: when the last step ended [ps].
    """

    def __init__(self, store: ColumnStore, stages: Sequence[int]) -> None:
        replicas = len(stages)
        self.steps = self.tokens = self.prefill_tokens = self.emitted = 0
        self.compute_ps = self.memory_ps = self.end_ps = 0
        busy = ExactBins(replicas)
        most: Ints = np.zeros(replicas, np.int64)
        for chunk in store:
            rows = Rows.of(chunk)
            span = rows.span_ps()
            compute = rows.compute_in_all_ps()
            self.steps += exact_sum(rows.count)
            self.tokens += exact_dot(rows.tokens, rows.count)
            self.prefill_tokens += exact_dot(rows.prefill_tokens, rows.count)
            self.emitted += exact_dot(rows.emitted, rows.count)
            self.compute_ps += exact_sum(compute)
            memory = chunk["memory_ps"] * rows.count + chunk["memory_growth"] * pairs(rows.count)
            self.memory_ps += exact_sum(memory)
            self.end_ps = max(self.end_ps, int((rows.start_ps + span).max()))
            busy.add(rows.replica, span)
            np.maximum.at(most, rows.replica, rows.held + rows.decodes * (rows.count - 1))
        self.busy_ps = busy.integers()
        self.computing_ps = sum(each * time for each, time in zip(stages, self.busy_ps, strict=True))
        self.held_most: list[int] = most.tolist()


class RunSegments:
    """The segments of a run.

    Args:
        store: the columns of ``servetwin.records.SEGMENT_COLUMNS``.
        gaps: inter-token gaps that no segment holds, in ``gap_ps``.
        stages: the stages of each replica's pipeline.
    """

    def __init__(self, store: ColumnStore, gaps: ColumnStore, stages: Sequence[int]) -> None:
        self.store = store
        self.extra_gaps = gaps
        self.stages = stages
        self.replicas = len(stages)

    @cached_property
    def totals(self) -> Totals:
        """Sums over all steps."""
        return Totals(self.store, self.stages)

    def gaps(self, after_ps: int = 0) -> GapSet:
        """All inter-token gaps, or those that end with steps which start at ``after_ps`` [ps] or later."""
        return GapSet(self.store, self.extra_gaps, after_ps=after_ps)

    def emitted_until(self, time_ps: int) -> int:
        """Output tokens of the steps that ended at ``time_ps`` [ps] or before."""
        emitted = 0
        for chunk in self.store:
            start, count, tokens = chunk["start_ps"], chunk["count"], chunk["emitted"]
            first, growth = chunk["first_ps"], chunk["growth_ps"]
            done = start + first * count + growth * pairs(count) <= time_ps
            emitted += exact_dot(tokens[done], count[done])
            for row in np.flatnonzero(~done & (start < time_ps)).tolist():
                steps = steps_until(time_ps - int(start[row]), int(count[row]), int(first[row]), int(growth[row]))
                emitted += steps * int(tokens[row])
        return emitted
