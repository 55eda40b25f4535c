"""Flows with the same path, and the sets of them that share links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from servetwin.fabric.fairness import fair_rates
from servetwin.fabric.links import WORK_UNIT, Link


class Flow:
    """One transfer.

    Attributes:
        index: whose it is, for the order of simultaneous ends.
        path: the links that it takes.
        size: its length [B].
        done: called when its last byte has arrived.
    """

    __slots__ = ("done", "index", "path", "size")

    def __init__(self, index: int, path: tuple[int, ...], size: int, done: Callable[[], None]) -> None:
        self.index = index
        self.path = path
        self.size = size
        self.done = done


class Bundle:
    """Flows with the same path: all of them have the same rate.

    What one flow has been served since the bundle began is the bundle's *virtual work*: a flow that joins is over when
    the virtual work has grown by its length. So a change of the rate costs the same for one flow and for a thousand.

    Attributes:
        path: the indices of its links.
        links: its links.
        latency_ps: the latency of the path [ps].
        capacity: of its narrowest link [rate units].
        members: a heap of ``(virtual work at the end, number, flow)``.
        served: the virtual work as of the component's ``since_ps`` [work units].
        rate: of each flow [rate units].
        component: what it belongs to.
    """

    __slots__ = ("capacity", "component", "latency_ps", "links", "members", "path", "rate", "served")

    component: Component

    def __init__(self, path: tuple[int, ...], links: tuple[Link, ...]) -> None:
        self.path = path
        self.links = links
        self.latency_ps = sum(link.latency_ps for link in links)
        self.capacity = min(link.capacity for link in links)
        self.members: list[tuple[int, int, Flow]] = []
        self.served = 0
        self.rate = 0

    def join(self, number: int, flow: Flow) -> None:
        """Add a flow."""
        heappush(self.members, (self.served + flow.size * WORK_UNIT, number, flow))

    def work_under_way(self, now: int) -> int:
        """What its flows have done by ``now`` [ps], before which none of them must end [work units]."""
        served = self.served + self.rate * (now - self.component.since_ps)
        return sum(served - target + flow.size * WORK_UNIT for target, _, flow in self.members)

    def leave(self) -> Iterable[Flow]:
        """Take out the flows that have been sent, and account for them on the links."""
        members, served = self.members, self.served
        while members and members[0][0] <= served:
            target, _, flow = heappop(members)
            for link in self.links:
                link.flows -= 1
                link.bytes_finished += flow.size
                link.overshoot += served - target
            yield flow


class Component:
    """Bundles that share links with each other, directly or through others, and with nobody else.

    Attributes:
        bundles: the bundles.
        since_ps: when their rates were divided last [ps].
        departs_ps: when the next flow has been sent completely [ps].
        wake_ps: when somebody has to be told something [ps].
        alive: whether it has not been replaced.

    Args:
        bundles: the bundles, all of them with flows.
        now: since when [ps].
        capacities: the capacity of every link of the fabric [rate units].
    """

    __slots__ = ("alive", "bundles", "departs_ps", "since_ps", "wake_ps")

    def __init__(self, bundles: list[Bundle], now: int, capacities: Sequence[int]) -> None:
        self.bundles = bundles
        self.since_ps = now
        self.alive = True
        busy = {link for bundle in bundles for link in bundle.links if link.occupants}
        others = {link.index: sum(link.occupants.values()) for link in busy}
        totals: dict[Link, int] = {}
        first = -1
        for bundle, rate in zip(bundles, _rates(bundles, capacities, others), strict=True):
            bundle.component = self
            bundle.rate = rate
            members = bundle.members
            total = rate * len(members)
            for link in bundle.links:
                totals[link] = totals.get(link, 0) + total
            left = _left_ps(members[0][0], bundle.served, rate)
            if first < 0 or left < first:
                first = left
        for link, total in totals.items():
            link.set_rate(now, total)
        self.departs_ps = now + first
        # An occupant of one of the links is told at once when its share changes; else only ends have to be told.
        self.wake_ps = self.departs_ps if others else self._first_arrival(capacities)

    def advance(self, now: int) -> None:
        """Bring the virtual work up to ``now`` [ps], which is not after the next departure."""
        elapsed = now - self.since_ps
        for bundle in self.bundles:
            bundle.served += bundle.rate * elapsed
        self.since_ps = now

    def parts(self) -> list[list[Bundle]]:
        """Its bundles that still have flows, those together that share links."""
        waiting = dict.fromkeys(bundle for bundle in self.bundles if bundle.members)
        if len(waiting) == len(self.bundles):
            return [self.bundles]
        parts = []
        while waiting:
            part = [waiting.popitem()[0]]
            for bundle in part:
                for link in bundle.links:
                    for other in link.bundles:
                        if other in waiting:
                            del waiting[other]
                            part.append(other)
            parts.append(part)
        return parts

    def _first_arrival(self, capacities: Sequence[int]) -> int:
        """When the last byte of a flow arrives for the first time [ps], if no flow joins.

        Where latencies differ, the flow that departs first need not be the one that arrives first.
        """
        departs = self.departs_ps
        latencies = {bundle.latency_ps for bundle in self.bundles}
        if len(latencies) == 1:
            return departs + latencies.pop()
        elapsed = departs - self.since_ps
        first = -1
        later: list[tuple[int, Bundle]] = []
        for bundle in self.bundles:
            members, served = bundle.members, bundle.served + bundle.rate * elapsed
            target = members[0][0]
            if target > served:
                later.append((target - served, bundle))
                continue
            arrives = departs + bundle.latency_ps
            if first < 0 or arrives < first:
                first = arrives
            if len(members) > 1:
                later.append((min(member[0] for member in members[1:3]) - served, bundle))
        for work, bundle in later:
            # However much the others leave to it, it does not arrive before this.
            if departs + work // bundle.capacity + bundle.latency_ps < first:
                return first_arrival(self.bundles, self.since_ps, capacities)
        return first


def _rates(bundles: list[Bundle], capacities: Sequence[int], others: Mapping[int, int]) -> list[int]:
    if len(bundles) == 1:
        only = bundles[0]
        flows = len(only.members)
        return [min(capacities[link] // (flows + others.get(link, 0)) for link in only.path)]
    return fair_rates([(bundle.path, len(bundle.members)) for bundle in bundles], capacities, others)


def _left_ps(target: int, served: int, rate: int) -> int:
    """Time until the virtual work reaches ``target`` [ps], rounded up: no flow beats its bandwidth."""
    return -((served - target) // rate)


class _Ahead:
    """A bundle as it will be if no flow joins."""

    __slots__ = ("latency_ps", "path", "rate", "served", "targets")

    def __init__(self, bundle: Bundle) -> None:
        self.path = bundle.path
        self.latency_ps = bundle.latency_ps
        self.served = bundle.served
        self.rate = bundle.rate
        # The first parts of what is in the order of a heap are in the order of a heap too.
        self.targets = [target for target, _, _ in bundle.members]


def first_arrival(bundles: Iterable[Bundle], now: int, capacities: Sequence[int]) -> int:
    """When the last byte of a flow arrives for the first time [ps], by looking ahead over the departures before it.

    Args:
        bundles: the bundles of a component without occupants.
        now: as of when their virtual work is [ps].
        capacities: the capacity of every link of the fabric [rate units].
    """
    ahead = [_Ahead(bundle) for bundle in bundles]
    nearest = min(one.latency_ps for one in ahead)
    first = -1
    while ahead:
        departs = now + min(_left_ps(one.targets[0], one.served, one.rate) for one in ahead)
        if 0 <= first <= departs + nearest:
            break
        for one in ahead:
            one.served += one.rate * (departs - now)
            while one.targets and one.targets[0] <= one.served:
                heappop(one.targets)
                arrives = departs + one.latency_ps
                first = arrives if first < 0 else min(first, arrives)
        now = departs
        ahead = [one for one in ahead if one.targets]
        rates = fair_rates([(one.path, len(one.targets)) for one in ahead], capacities, {})
        for one, rate in zip(ahead, rates, strict=True):
            one.rate = rate
    return first
