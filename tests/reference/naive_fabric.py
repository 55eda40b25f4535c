"""Max-min fair sharing written from its definition alone, in fractions, flow by flow and instant by instant.

It knows nothing of ``servetwin.fabric``: no bundles, no components, no units, no looking ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

PS_PER_S = 10**12


class Transfer(NamedTuple):
    """A flow to simulate.

    Attributes:
        start_ps: when it starts [ps].
        path: its links.
        size: its length [B].
    """

    start_ps: int
    path: tuple[int, ...]
    size: int


def rates(
    paths: Sequence[tuple[int, ...]], capacities: Mapping[int, int], occupants: Sequence[Sequence[int]] = ()
) -> list[Fraction]:
    """The rates of flows [B/s]: all rise together, and whoever meets a full link stops.

    An occupant is, on each of its links, a flow that takes this link only.
    """
    everybody = [*paths, *((link,) for links in occupants for link in links)]
    rate = [Fraction(0)] * len(everybody)
    rising = set(range(len(everybody)))
    while rising:
        steps = []
        for link, capacity in capacities.items():
            here = [flow for flow in rising if link in everybody[flow]]
            if here:
                used = sum(rate[flow] for flow in range(len(everybody)) if link in everybody[flow])
                steps.append((capacity - used) / len(here))
        step = min(steps)
        for flow in rising:
            rate[flow] += step
        full = {
            link
            for link, capacity in capacities.items()
            if sum(rate[flow] for flow in range(len(everybody)) if link in everybody[flow]) == capacity
        }
        rising -= {flow for flow in rising if full & set(everybody[flow])}
    return rate[: len(paths)]


def arrivals(
    transfers: Sequence[Transfer],
    capacities: Mapping[int, int],
    latencies_ps: Mapping[int, int],
    occupants: Sequence[tuple[int, int, Sequence[int]]] = (),
) -> list[int]:
    """When the last byte of each transfer arrives [ps].

    Args:
        transfers: the flows.
        capacities: by link [B/s].
        latencies_ps: by link [ps].
        occupants: ``(from [ps], to [ps], links)``.
    """
    left = [Fraction(transfer.size) for transfer in transfers]
    sent = [-1] * len(transfers)
    changes = sorted({t.start_ps for t in transfers} | {stamp for start, end, _ in occupants for stamp in (start, end)})
    now = 0
    while changes or any(stamp < 0 for stamp in sent):
        active = [i for i, t in enumerate(transfers) if t.start_ps <= now and sent[i] < 0]
        busy = [links for start, end, links in occupants if start <= now < end]
        speeds = rates([transfers[i].path for i in active], capacities, busy) if active else []
        ends = [now + ceil(left[i] / speed * PS_PER_S) for i, speed in zip(active, speeds, strict=True)]
        following = min([*ends, *changes])
        for i, speed in zip(active, speeds, strict=True):
            left[i] -= speed * (following - now) / PS_PER_S
        now = following
        changes = [stamp for stamp in changes if stamp > now]
        for i in active:
            if left[i] <= 0:
                sent[i] = now
    return [stamp + sum(latencies_ps[link] for link in t.path) for t, stamp in zip(transfers, sent, strict=True)]
