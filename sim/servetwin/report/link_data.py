"""The links of a run that pictures and timelines show: the busiest of each kind, one for all that carry the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from servetwin.report.data import AnyResult
from servetwin.results import Result
from servetwin.results.exact import Floats
from servetwin.results.links import kind_of
from servetwin.results.store import LINKS
from servetwin.units import PS_PER_S

MOST_LINKS = 8
"""How many links are shown."""


@dataclass(slots=True)
class LinkLoad:
    """A link over time.

    Attributes:
        name: its name.
        bytes_per_s: its capacity [B/s].
        start_s, end_s: the intervals [s]; nothing was sent outside.
        transfers, collectives: the rates in them as shares of the capacity.
        alike: names of other links of its kind that carry the same in the same intervals.
    """

    name: str
    bytes_per_s: float
    start_s: Floats
    end_s: Floats
    transfers: Floats
    collectives: Floats
    alike: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """See ``LinkUse.kind``."""
        return kind_of(self.name)

    @property
    def carried(self) -> float:
        """Seconds for which the link would have been full."""
        return float((self.transfers + self.collectives) @ (self.end_s - self.start_s))

    def mean(self, edges_s: Floats, rates: Floats) -> Floats:
        """The means of ``rates``, one of this link's, between these times [s]."""
        points = np.append(self.start_s, self.end_s[-1])
        summed = np.append(0.0, np.cumsum(rates * (self.end_s - self.start_s)))
        whole: Floats = np.interp(edges_s, points, summed)
        return np.diff(whole) / np.diff(edges_s)


def has_links(result: AnyResult) -> bool:
    """Whether the run had a network with links."""
    return result.link_table is not None if isinstance(result, Result) else (result.directory / LINKS).exists()


def busiest(result: AnyResult) -> list[LinkLoad]:
    """At most ``MOST_LINKS`` links, kinds in turn, the busiest of each first; sorted by kind."""
    groups: dict[tuple[Any, ...], LinkLoad] = {}
    for load in _loads(result):
        same = (load.kind, load.bytes_per_s, load.start_s.tobytes(), load.transfers.tobytes(),
                load.collectives.tobytes())  # fmt: skip
        first = groups.setdefault(same, load)
        if first is not load:
            first.alike.append(load.name)
    by_kind: dict[str, list[LinkLoad]] = {}
    for load in sorted(groups.values(), key=lambda one: (one.kind, -one.carried, one.name)):
        by_kind.setdefault(load.kind, []).append(load)
    chosen: list[LinkLoad] = []
    for place in range(MOST_LINKS):
        chosen += [loads[place] for loads in by_kind.values() if place < len(loads)]
    return sorted(chosen[:MOST_LINKS], key=lambda one: (one.kind, -one.carried, one.name))


def _loads(result: AnyResult) -> Iterator[LinkLoad]:
    if not isinstance(result, Result):
        yield from _stored(result.links())
        return
    for rows in () if result.link_table is None else result.link_table.rows():
        capacity = float(rows.link.bytes_per_s)
        yield LinkLoad(
            rows.link.name, capacity, rows.start_ps / PS_PER_S, rows.end_ps / PS_PER_S,
            rows.transfer_bytes_per_s / capacity, rows.collective_bytes_per_s / capacity,
        )  # fmt: skip


def _stored(frame: Any) -> Iterator[LinkLoad]:
    for name, rows in frame.groupby("link", sort=False):
        rate, share = rows["bytes_per_s"].to_numpy(np.float64), rows["utilisation"].to_numpy(np.float64)
        # The row with the highest rate tells the capacity; only a link that carried something has rows.
        top = int(rate.argmax())
        capacity = float(round(rate[top] / share[top])) if share[top] else 1.0
        yield LinkLoad(
            str(name), capacity, rows["start_s"].to_numpy(np.float64), rows["end_s"].to_numpy(np.float64),
            rows["transfer_bytes_per_s"].to_numpy(np.float64) / capacity,
            rows["collective_bytes_per_s"].to_numpy(np.float64) / capacity,
        )  # fmt: skip
