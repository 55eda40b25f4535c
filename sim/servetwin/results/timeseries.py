"""The load of each replica over time, in intervals of a round width.

Where a number comes from: steps are counted, with their tokens, in the interval in which they end; busy time and KV
use are split exactly where an interval ends inside a step. A request waits from its entry into the waiting queue to the
step that first takes it, and runs from there to its last token; the stamps do not tell the times in between at which a
preempted request waits again, so it counts as running. Drafted and accepted tokens are those that the steps verified;
how many are to be drafted is what the controller chose, averaged over the time in which a choice of its stood.

A request that one replica prefills and another decodes is at both: it waits for, and runs until the end of, its prefill
on the first; on the second it waits until the first step there that takes it, and runs to its last token. It arrives at
the first and completes at the second. KV cache is stranded while it serves nobody: on the first from the end of the
prefill until it has been fetched, on the second, as room, until it has come; what requests share counts for each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from servetwin.request import COMPLETED, UNFINISHED
from servetwin.results.choices import Choices
from servetwin.results.exact import MOST_STEPS, Bools, ExactBins, Floats, Ints, exact_dot
from servetwin.results.hand_overs import HandOverBlock, HandOverTable
from servetwin.results.requests import LABELS_COLUMN, RequestBlock, RequestTable
from servetwin.results.segments import RunSegments
from servetwin.results.steps import Rows, spread

MOST_INTERVALS = 2_000
MOST_ROWS = 200_000
_BLOCK_ROWS = 1 << 15
_BLOCK_STEPS = 1 << 16


def round_width(horizon_ps: int, intervals: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, … ps that divides ``horizon_ps`` [ps] into at most ``intervals``."""
    scale = 1
    while True:
        for digit in (1, 2, 5):
            if -(-horizon_ps // (digit * scale)) <= intervals:
                return digit * scale
        scale *= 10


class TimeSeries:
    """Sums per replica and interval.

    Args:
        segments: the steps.
        requests: the requests.
        end_ps: when the run ended [ps]; the series goes on to the end of the last step if that is later.
        choices: how many tokens controllers of speculation chose to draft.
        hand_overs: how requests got from replicas that prefill to replicas that decode.

    Attributes:
        width_ps: length of an interval [ps]; the last one may be shorter.
        intervals: intervals per replica.
    """

    def __init__(
        self, segments: RunSegments, requests: RequestTable, end_ps: int, choices: Choices, hand_overs: HandOverTable
    ) -> None:
        self._choices = choices
        self.replicas = replicas = segments.replicas
        self._stages = segments.stages
        self.horizon_ps = max(end_ps, segments.totals.end_ps, 1)
        self.width_ps = round_width(self.horizon_ps, min(MOST_INTERVALS, max(MOST_ROWS // max(replicas, 1), 1)))
        self.intervals = -(-self.horizon_ps // self.width_ps)
        bins = replicas * self.intervals
        self.busy_ps, self.steps, self.tokens, self.prefill_tokens, self.emitted = _zeros(bins, 5)
        self.drafted, self.accepted = _zeros(bins, 2)
        self.arrivals, self.completed = _zeros(bins, 2)
        self._ended_ps, self._compute_ps = ExactBins(bins), ExactBins(bins)
        self._held = ExactBins(bins)
        self._running, self._waiting = _Occupancy(self), _Occupancy(self)
        self._stranded = _Occupancy(self) if len(hand_overs) else None
        for chunk in segments.store:
            self._add_segments(Rows.of(chunk))
        completes, unfinished = (
            np.array([outcome == wanted for outcome in requests.names(1)], bool) for wanted in (COMPLETED, UNFINISHED)
        )
        for block in requests.blocks(_BLOCK_ROWS):
            moves = hand_overs.of(block["id"])
            self._add_requests(block, completes, moves)
            if moves.some:
                self._add_hand_overs(block, unfinished[block[LABELS_COLUMN]], moves)

    def replica_columns(self, replica: int, kv_capacity_tokens: int) -> dict[str, Floats | Ints]:
        """The finished columns of one replica; missing shares are NaN.

        Args:
            replica: its index.
            kv_capacity_tokens: KV cache room of the replica [tokens].
        """
        mine = self._of(replica)
        start = np.arange(self.intervals) * self.width_ps
        end = np.minimum(start + self.width_ps, self.horizon_ps)
        width = (end - start).astype(np.float64)
        ended = self._ended_ps.floats(mine) * self._stages[replica]
        return {
            "start_ps": start,
            "end_ps": end,
            "running": self._running.mean(mine, width),
            "waiting": self._waiting.mean(mine, width),
            "kv_use": self._held.floats(mine) / (width * max(kv_capacity_tokens, 1)),
            "kv_stranded": self._stranded_share(mine, width, kv_capacity_tokens),
            "tokens": self.tokens[mine],
            "prefill_tokens": self.prefill_tokens[mine],
            "output_tokens": self.emitted[mine],
            "steps": self.steps[mine],
            "utilisation": self.busy_ps[mine] / width,
            "compute_bound": np.where(ended > 0, self._compute_ps.floats(mine) / np.maximum(ended, 1), np.nan),
            "k": self._choices.mean(replica, self.width_ps, self.horizon_ps),
            "drafted_tokens": self.drafted[mine],
            "accepted_tokens": self.accepted[mine],
            "arrivals": self.arrivals[mine],
            "completed": self.completed[mine],
        }

    def held_token_ps(self, replica: int) -> int:
        """The integral of a replica's KV use over the run [token·ps]."""
        return sum(self._held.integers(self._of(replica)))

    def stranded_token_ps(self, replica: int) -> int:
        """The integral of a replica's stranded KV cache over the run [token·ps]."""
        return 0 if self._stranded is None else self._stranded.total(self._of(replica))

    def _of(self, replica: int) -> slice:
        return slice(replica * self.intervals, (replica + 1) * self.intervals)

    def _stranded_share(self, mine: slice, width: Floats, kv_capacity_tokens: int) -> Floats:
        if self._stranded is None:
            return np.full(self.intervals, np.nan)
        return self._stranded.mean(mine, width) / max(kv_capacity_tokens, 1)

    def _add_segments(self, rows: Rows) -> None:
        rows = rows.pieces(MOST_STEPS)
        first = rows.start_ps // self.width_ps
        inside = (rows.start_ps + rows.span_ps() - 1) // self.width_ps == first
        self._add_whole(rows.select(inside), first[inside])
        crossing = rows.select(~inside)
        for some in _blocks(crossing.count, _BLOCK_STEPS):
            self._add_steps(crossing.select(some))

    def _add_whole(self, rows: Rows, interval: Ints) -> None:
        """Segments that lie inside one interval each."""
        index = rows.replica * self.intervals + interval
        self._count_steps(rows, index)
        np.add.at(self.busy_ps, index, rows.span_ps())
        self._held.add_series(index, rows.held, rows.decodes, rows.first_ps, rows.growth_ps, rows.count)

    def _add_steps(self, rows: Rows) -> None:
        """Segments that cross the end of an interval, step by step."""
        owner, place = spread(rows.count)
        steps = rows.cut(owner, place, np.ones(len(owner), np.int64))
        first = steps.start_ps // self.width_ps
        last = (steps.start_ps + steps.first_ps - 1) // self.width_ps
        base = steps.replica * self.intervals
        self._count_steps(steps, base + last)
        owner, place = spread(last - first + 1)
        interval = first[owner] + place
        begin = np.maximum(steps.start_ps[owner], interval * self.width_ps)
        end = np.minimum((steps.start_ps + steps.first_ps)[owner], (interval + 1) * self.width_ps)
        index = base[owner] + interval
        np.add.at(self.busy_ps, index, end - begin)
        nothing, one = np.zeros(len(owner), np.int64), np.ones(len(owner), np.int64)
        self._held.add_series(index, steps.held[owner], nothing, end - begin, nothing, one)

    def _count_steps(self, rows: Rows, index: Ints) -> None:
        """Count steps in the interval in which they end."""
        np.add.at(self.steps, index, rows.count)
        np.add.at(self.tokens, index, rows.tokens * rows.count)
        np.add.at(self.prefill_tokens, index, rows.prefill_tokens * rows.count)
        np.add.at(self.emitted, index, rows.emitted * rows.count)
        np.add.at(self.drafted, index, rows.drafted * rows.count)
        np.add.at(self.accepted, index, rows.accepted * rows.count)
        self._ended_ps.add(index, rows.span_ps())
        self._compute_ps.add(index, rows.compute_in_all_ps())

    def _add_requests(self, block: RequestBlock, completes: Bools, moves: HandOverBlock) -> None:
        replica = block["replica"]
        routed = replica >= 0
        base = ending = np.where(routed, replica, 0) * self.intervals
        arrival, queued, scheduled = block["arrival_ps"], block["queued_ps"], block["scheduled_ps"]
        last = left = block["last_token_ps"]
        if moves.some:
            base = np.where(moves.split, moves["source"] * self.intervals, base)
            left = np.where(moves.split, block["prefill_done_ps"], last)
        done = completes[block[LABELS_COLUMN]] & (last >= 0)
        never = self.horizon_ps
        self._waiting.add(base, queued, np.where(scheduled < 0, never, scheduled), routed & (queued >= 0))
        self._running.add(base, scheduled, np.where(left < 0, never, left), routed & (scheduled >= 0))
        np.add.at(self.arrivals, (base + self._interval(arrival))[routed], 1)
        np.add.at(self.completed, (ending + self._interval(last - 1))[routed & done], 1)

    def _add_hand_overs(self, block: RequestBlock, unfinished: Bools, moves: HandOverBlock) -> None:
        """What split requests are at the replicas that decode them, and the KV cache that waits for them."""
        stranded = self._stranded
        assert stranded is not None
        queued, scheduled, reserved = (moves[name] for name in ("queued_ps", "scheduled_ps", "reserved_ps"))
        kept, freed, arrived = (moves[name] for name in ("kept_ps", "freed_ps", "end_ps"))
        source, target = (np.maximum(moves[name], 0) * self.intervals for name in ("source", "target"))
        last = block["last_token_ps"]
        # What ended without a last token ended when the blocks of its prefill were freed, or with the prefill.
        ended = np.where(unfinished, self.horizon_ps, np.maximum(block["prefill_done_ps"], freed))
        self._waiting.add(target, queued, np.where(scheduled < 0, ended, scheduled), queued >= 0)
        self._running.add(target, scheduled, np.where(last < 0, ended, last), scheduled >= 0)
        stranded.add(source, kept, np.where(freed < 0, ended, freed), kept >= 0, block["prompt_tokens"])
        lacking = block["prompt_tokens"] - moves["found_tokens"]
        stranded.add(target, reserved, np.where(arrived < 0, ended, arrived), reserved >= 0, lacking)

    def _interval(self, time_ps: Ints) -> Ints:
        return np.clip(time_ps // self.width_ps, 0, self.intervals - 1)


class _Occupancy:
    """How many requests are in a state, or how many tokens these have, integrated over each interval."""

    def __init__(self, series: TimeSeries) -> None:
        self._series = series
        bins = series.replicas * series.intervals
        self._partial = ExactBins(bins)
        (self._steps,) = _zeros(bins + 1, 1)

    def add(self, base: Ints, begin: Ints, end: Ints, chosen: Bools, tokens: Ints | None = None) -> None:
        """Requests that are in the state from ``begin`` to ``end`` [ps], those that ``chosen`` names.

        Args:
            base: for each, the first interval of its replica.
            begin, end: from when to when [ps].
            chosen: which of them count.
            tokens: as how many each counts; None = one.
        """
        width, horizon = self._series.width_ps, self._series.horizon_ps
        end = np.minimum(end, horizon)
        chosen = chosen & (begin < end)
        base, begin, end = base[chosen], begin[chosen], end[chosen]
        counts = None if tokens is None else tokens[chosen]
        first, last = begin // width, (end - 1) // width
        one = first == last
        self._add_partial(base[one] + first[one], (end - begin)[one], None if counts is None else counts[one])
        base, begin, end, first, last = (part[~one] for part in (base, begin, end, first, last))
        counts = None if counts is None else counts[~one]
        self._add_partial(base + first, (first + 1) * width - begin, counts)
        self._add_partial(base + last, end - last * width, counts)
        np.add.at(self._steps, base + first + 1, 1 if counts is None else counts)
        np.add.at(self._steps, base + last, -1 if counts is None else -counts)

    def _add_partial(self, index: Ints, lengths: Ints, counts: Ints | None) -> None:
        """States that fill a part of an interval, for ``lengths`` [ps] each."""
        if counts is None:
            self._partial.add(index, lengths)
        else:
            # The product would overflow.
            nothing = np.zeros_like(lengths)
            self._partial.add_series(index, counts, nothing, lengths, nothing, nothing + 1)

    def total(self, mine: slice) -> int:
        """The integral over all intervals of one replica [ps]."""
        series = self._series
        widths = np.full(series.intervals, series.width_ps)
        widths[-1] = series.horizon_ps - (series.intervals - 1) * series.width_ps
        return sum(self._partial.integers(mine)) + exact_dot(np.cumsum(self._steps[mine]), widths)

    def mean(self, mine: slice, width: Floats) -> Floats:
        """The time average of each interval of one replica."""
        whole = np.cumsum(self._steps[mine])
        return self._partial.floats(mine) / width + whole


def _zeros(bins: int, number: int) -> list[Ints]:
    return [np.zeros(bins, np.int64) for _ in range(number)]


def _blocks(counts: Ints, limit: int) -> Iterator[Ints]:
    """Row numbers in consecutive groups of about ``limit`` in ``counts`` each."""
    if len(counts):
        groups = np.cumsum(counts) // limit
        yield from np.split(np.arange(len(counts)), np.flatnonzero(np.diff(groups)) + 1)
