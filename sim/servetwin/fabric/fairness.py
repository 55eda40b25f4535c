"""Max-min fair rates by water-filling, in whole numbers.

The level of every link rises until the first link is full: its capacity by the number of flows on it. Those flows are
settled at that rate, which is taken off their other links, and the rest goes on rising. No flow can then get more
without a slower one, or one as slow, getting less: the definition of max-min fairness.
Source: Bertsekas, Gallager, Data Networks, 2nd edition, section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Final

RATE_UNIT: Final = lcm(*range(1, 65)) * lcm(*range(1, 17))
"""Rate units in one B/s. Divisible by every number of flows up to 64, and twice over by those up to 16, so that rates
of ordinary sharing are exact; beyond that a rate is rounded down, by less than 1e-32 B/s, which may make an end that
falls on a whole picosecond one picosecond late. No link is ever overfull."""

Demand = tuple[tuple[int, ...], int]
"""The links of a path, and how many flows take it."""


def fair_rates(demands: Sequence[Demand], capacities: Mapping[int, int], others: Mapping[int, int]) -> list[int]:
    """The rate of one flow of each demand [rate units].

    Args:
        demands: paths, each with at least one link and at least one flow.
        capacities: capacity of each link [rate units].
        others: by link, how many users of the link beside the flows take as large a share of it as a flow.
    """
    left: dict[int, int] = {}
    count: dict[int, int] = {}
    unsettled: dict[int, list[int]] = {}
    for number, (path, flows) in enumerate(demands):
        for link in path:
            if link not in left:
                left[link] = capacities[link]
                count[link] = others.get(link, 0)
                unsettled[link] = []
            count[link] += flows
            unsettled[link].append(number)
    rates = [-1] * len(demands)
    while unsettled:
        # The index of the link decides between equal levels: rounding must not depend on the order of the flows.
        level, bottleneck = min((left[link] // count[link], link) for link in unsettled)
        for number in unsettled[bottleneck]:
            rates[number] = level
            path, flows = demands[number]
            for link in path:
                left[link] -= level * flows
                count[link] -= flows
        unsettled = {
            link: rest
            for link, numbers in unsettled.items()
            if link != bottleneck and (rest := [number for number in numbers if rates[number] < 0])
        }
    return rates
