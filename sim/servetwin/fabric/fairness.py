"""Max-min fair rates by water-filling, in whole numbers.

The level of every link rises until the first link is full: its capacity by the number of flows on it. Those flows are
settled at that rate, which is taken off their other links, and the rest goes on rising. No flow can then get more
without a slower one, or one as slow, getting less: the definition of max-min fairness.
Source: Bertsekas, Gallager, Data Networks, 2nd edition, section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from math import lcm
from typing import Final

RATE_UNIT: Final = lcm(*range(1, 65)) * lcm(*range(1, 17))
"""Rate units in one B/s. Divisible by every number of flows up to 64, and twice over by those up to 16, so that rates
of ordinary sharing are exact; beyond that a rate is rounded down, by less than 1e-32 B/s, which may make an end that
falls on a whole picosecond one picosecond late. No link is ever overfull."""

Demand = tuple[tuple[int, ...], int]
"""The links of a path, and how many flows take it."""


def fair_rates(demands: Sequence[Demand], capacities: Sequence[int], others: Mapping[int, int]) -> list[int]:
    """The rate of one flow of each demand [rate units].

    Args:
        demands: paths, each with at least one link and at least one flow.
        capacities: the capacity of every link [rate units].
        others: by link, how many users of the link beside the flows take as large a share of it as a flow.
    """
    left: dict[int, int] = {}
    count: dict[int, int] = {}
    unsettled: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    for number, (path, flows) in enumerate(demands):
        for link in path:
            if link not in left:
                left[link] = capacities[link]
                count[link] = others.get(link, 0)
                unsettled[link] = 0
                users[link] = []
            count[link] += flows
            unsettled[link] += 1
            users[link].append(number)
    rates = [-1] * len(demands)
    # The index of the link decides between equal levels: rounding must not depend on the order of the flows.
    levels = [(left[link] // count[link], link) for link in left]
    heapify(levels)
    while levels:
        level, link = levels[0]
        if not unsettled[link]:
            heappop(levels)
            continue
        risen = left[link] // count[link]
        if risen != level:
            # Flows that were settled elsewhere have left it more for the others: levels only rise.
            heapreplace(levels, (risen, link))
            continue
        heappop(levels)
        for number in users[link]:
            if rates[number] < 0:
                rates[number] = level
                path, flows = demands[number]
                for crossed in path:
                    left[crossed] -= level * flows
                    count[crossed] -= flows
                    unsettled[crossed] -= 1
    return rates
