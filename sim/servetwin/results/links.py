"""What each link of the network carried, over time: the transfers of others, and collectives.

Of transfers every change of the rate is known. The bytes that the collectives of a step send are spread evenly over the
step, which is what a sum over time needs; the links are busier while a collective runs, and idle between. They are told
in intervals of a round width, as the time series is, and apart where the rate of transfers changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from servetwin.errors import InvariantError
from servetwin.results.columns import ColumnStore
from servetwin.results.exact import Floats, Ints, exact_dot
from servetwin.results.exchanged import CollectiveUse, StepClock, StepsByReplica
from servetwin.results.timeseries import MOST_INTERVALS, MOST_ROWS, round_width
from servetwin.units import PS_PER_S

CHUNK_COLUMNS = ("replica", "start_ps", "tokens")
"""The prefill chunks of steps: the replica, when the step starts [ps], tokens of the chunk."""


@dataclass(slots=True)
class LinkUse:
    """One direction of a link, and the transfers over it.

    Attributes:
        name: its name.
        bytes_per_s: its capacity [B/s].
        times_ps: when the rate of the transfers changed, ascending [ps]; before the first it was 0.
        rates: to what [B/s].
    """

    name: str
    bytes_per_s: int
    times_ps: Sequence[int]
    rates: Sequence[int]

    @property
    def kind(self) -> str:
        """What it is, see ``kind_of``."""
        return kind_of(self.name)


def kind_of(name: str) -> str:
    """What the link of this name is: ``link`` (a port to a link domain), ``pcie``, ``nic`` or ``spine``.

    >>> kind_of("node0/gpu3/nic-out")
    'nic'
    """
    return name.rpartition("/")[2].rpartition("-")[0]


class LinkRows(NamedTuple):
    """A link that carried something, interval by interval.

    Attributes:
        link: which.
        start_ps, end_ps: the intervals [ps].
        transfer_bytes_per_s, collective_bytes_per_s: means of the rates [B/s].
        collective_bytes: what the collectives sent [B].
    """

    link: LinkUse
    start_ps: Ints
    end_ps: Ints
    transfer_bytes_per_s: Floats
    collective_bytes_per_s: Floats
    collective_bytes: Ints

    @property
    def utilisation(self) -> Floats:
        """The share of the capacity."""
        share: Floats = (self.transfer_bytes_per_s + self.collective_bytes_per_s) / self.link.bytes_per_s
        return share


class LinkTable:
    """All links of a run.

    Args:
        uses: the links.
        collectives: asks what collectives send, by replica; called once somebody wants to know.
        segments: the steps (``servetwin.records.SEGMENT_COLUMNS``).
        chunks: the prefill chunks of the steps (``CHUNK_COLUMNS``).
        choices: how many tokens they draft (``choices.CHOICE_COLUMNS``).
        horizon_ps: when the run and its last step had ended [ps].
    """

    def __init__(
        self,
        uses: Sequence[LinkUse],
        collectives: Callable[[], Sequence[CollectiveUse]],
        segments: ColumnStore,
        chunks: ColumnStore,
        choices: ColumnStore,
        horizon_ps: int,
    ) -> None:
        self._uses = uses
        self._collectives = collectives
        self._segments = segments
        self._chunks = chunks
        self._choices = choices
        self._horizon_ps = horizon_ps
        self._last: tuple[tuple[int, ...], LinkRows] | None = None

    def rows(self) -> Iterator[LinkRows]:
        """The links that carried anything, each by itself."""
        for index, use in enumerate(self._uses):
            sent = self._sent.get(index, ())
            if sent and not len(use.times_ps):
                # The links of a class have the same rows: those of the one before, as a rule.
                key = (use.bytes_per_s, *map(id, sent))
                if self._last is None or self._last[0] != key:
                    self._last = key, self._rows(use, sent)
                yield self._last[1]._replace(link=use)
            elif sent or len(use.times_ps):
                found = self._rows(use, sent)
                if len(found.start_ps):
                    yield found

    def _rows(self, use: LinkUse, sent: Sequence[_Sent]) -> LinkRows:
        found = _rows(use, sent, self._edges_ps, self._horizon_ps)
        _check(found, sent, self._horizon_ps)
        return found

    def by_kind(self) -> dict[str, dict[str, object]]:
        """Of each kind of links, the one that carried most: its name, and its mean and highest share of capacity."""
        found: dict[str, dict[str, object]] = {}
        for rows in self.rows():
            share = rows.utilisation
            mean = float(share @ (rows.end_ps - rows.start_ps)) / self._horizon_ps
            best = found.get(rows.link.kind)
            if best is None or mean > best["mean"]:  # type: ignore[operator]
                found[rows.link.kind] = {"link": rows.link.name, "mean": mean, "max": float(share.max())}
        return {kind: found[kind] for kind in sorted(found)}

    @cached_property
    def _sent(self) -> Mapping[int, list[_Sent]]:
        """By link, what the replicas send over it."""
        sent: dict[int, list[_Sent]] = {}
        uses = self._collectives()
        if not uses:
            return sent
        by_replica = StepsByReplica(self._segments, self._chunks, self._choices)
        for use in uses:
            steps = by_replica.of(use)
            if not len(steps.clock):
                continue
            for place, links in enumerate(use.links):
                one = _Sent(steps.clock, steps.bytes_of(place), use.in_order)
                if one.total:
                    for link in links:
                        sent.setdefault(link, []).append(one)
        return sent

    @cached_property
    def _edges_ps(self) -> Ints:
        """The ends of the intervals [ps]."""
        most = min(MOST_INTERVALS, max(MOST_ROWS // max(len(self._sent), 1), 1))
        width = round_width(self._horizon_ps, most)
        return np.append(np.arange(0, self._horizon_ps, width, dtype=np.int64), self._horizon_ps)


class _Sent:
    """What a replica sends over each link of a class."""

    def __init__(self, clock: StepClock, per_step: Ints, in_order: bool) -> None:
        self._clock = clock
        self._per_step = per_step
        self.in_order = in_order
        self._before: Ints = np.append(0, np.cumsum(per_step * clock.count))
        self.total = exact_dot(per_step, clock.count)
        if self.total != self._before[-1]:
            raise InvariantError(f"a link has to carry {self.total} bytes, more than can be counted")
        self._at: tuple[Ints, Ints] | None = None

    def until(self, times_ps: Ints) -> Ints:
        """Bytes sent until each of these times [ps]; the last times asked for are remembered."""
        if self._at is None or self._at[0] is not times_ps:
            row, done, part = self._clock.locate(times_ps)
            each = self._per_step[row]
            self._at = (times_ps, self._before[row] + done * each + np.floor(part * each).astype(np.int64))
        return self._at[1]


def _rows(use: LinkUse, sent: Sequence[_Sent], edges_ps: Ints, horizon_ps: int) -> LinkRows:
    """The intervals of one link; those in which nothing happens before the first byte are left out."""
    changes: Ints = np.array(use.times_ps, np.int64)
    rates: Floats = np.array(use.rates, np.float64)[changes < horizon_ps]
    changes = changes[changes < horizon_ps]
    if not sent:
        points = np.append(changes, horizon_ps)
        return LinkRows(
            use, changes, points[1:], rates, np.zeros(len(changes)), np.zeros(len(changes), np.int64)
        )  # fmt: skip
    points = np.union1d(edges_ps, changes) if len(changes) else edges_ps
    carried = np.diff(sum((one.until(points) for one in sent), np.zeros(len(points), np.int64)))
    start, end = points[:-1], points[1:]
    moving = np.append(0.0, rates)[np.searchsorted(changes, start, side="right")]
    # Intervals in which no collective sends anything become one, as long as the transfers go on as before.
    changed = np.append(True, (carried[1:] > 0) | (carried[:-1] > 0) | (moving[1:] != moving[:-1]))
    if not carried[0] and not moving[0]:
        changed[0] = False
    first = np.flatnonzero(changed)
    if not len(first):
        first = np.zeros(0, np.int64)
    end = np.append(start[first[1:]], points[-1])[: len(first)]
    start, carried, moving = start[first], carried[first], moving[first]
    return LinkRows(use, start, end, moving, carried / ((end - start) / PS_PER_S), carried)


def _check(rows: LinkRows, sent: Sequence[_Sent], horizon_ps: int) -> None:
    """The bytes of the intervals are those of the steps, and no more than the link can carry.

    Interval by interval that is said of links that only one replica uses whose steps follow each other: the steps of a
    pipeline overlap, and replicas that share a link learn of each other where their steps begin.

    Raises:
        InvariantError: otherwise.
    """
    name, capacity = rows.link.name, rows.link.bytes_per_s
    steps, carried = sum(one.total for one in sent), int(rows.collective_bytes.sum())
    if carried != steps:
        raise InvariantError(f"link {name} has carried {carried} bytes of collectives, and its steps send {steps}")
    if carried > capacity * horizon_ps / PS_PER_S:
        raise InvariantError(f"link {name} has carried {carried} bytes of collectives, more than it can in the run")
    if len(sent) == 1 and sent[0].in_order:
        # At either end of an interval a byte may be counted that was not yet whole.
        over = rows.collective_bytes - 2 > capacity * ((rows.end_ps - rows.start_ps) / PS_PER_S)
        if over.any():
            at = int(rows.start_ps[over][0]) / PS_PER_S
            raise InvariantError(f"the collectives over link {name} are faster than the link, {at:g} s after the start")
