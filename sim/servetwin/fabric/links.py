"""A link: what passes over it, at which rate, and since when."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from servetwin.errors import InvariantError
from servetwin.fabric.fairness import RATE_UNIT
from servetwin.specs import Link as LinkSpec
from servetwin.units import PS_PER_S, seconds_to_ps

if TYPE_CHECKING:
    from servetwin.fabric.bundles import Bundle
    from servetwin.fabric.flows import Occupant

WORK_UNIT = PS_PER_S * RATE_UNIT
"""Work units in one byte: a rate [rate units] times a time [ps] is work."""


class Link:
    """One direction of a link.

    Attributes:
        index: its index in the fabric.
        name: its name.
        bytes_per_s: capacity [B/s].
        capacity: capacity [rate units].
        lanes: users that it carries at once without slowing them down.
        latency_ps: time until the first byte arrives [ps].
        bundles: the bundles of flows that cross it.
        flows: how many flows these have.
        occupants: the replicas whose collectives use it, and as how many flows each counts.
        rate: what the flows get together [rate units].
        bytes_finished: bytes of the flows that have been sent completely [B].
        overshoot: work that flows could have done between their exact end and the next whole picosecond [work units].
        change_times_ps: when the rate changed [ps].
        change_rates: to what [B/s].
    """

    __slots__ = (
        "_since_ps", "_work", "bundles", "bytes_finished", "bytes_per_s", "capacity",
        "change_rates", "change_times_ps", "flows", "index", "lanes", "latency_ps", "name", "occupants", "overshoot",
        "rate",
    )  # fmt: skip

    def __init__(self, index: int, spec: LinkSpec) -> None:
        self.index = index
        self.name = spec.name
        self.bytes_per_s = int(spec.bytes_per_s)
        self.capacity = self.bytes_per_s * RATE_UNIT
        self.lanes = spec.lanes
        self.latency_ps = seconds_to_ps(spec.latency_s)
        self.bundles: dict[Bundle, None] = {}
        self.flows = 0
        self.occupants: dict[Occupant, int] = {}
        self.rate = 0
        self.bytes_finished = 0
        self.overshoot = 0
        self.change_times_ps = array("q")
        self.change_rates = array("q")
        self._since_ps = 0
        self._work = 0

    @property
    def crowd(self) -> float:
        """How many share a lane, in the mean; 1.0 where there are lanes for all."""
        return max(1.0, (self.flows + sum(self.occupants.values())) / self.lanes)

    def set_rate(self, now: int, rate: int) -> None:
        """From ``now`` [ps] on the flows get ``rate`` [rate units] together."""
        if rate == self.rate:
            return
        self._work += self.rate * (now - self._since_ps)
        self._since_ps = now
        self.rate = rate
        times, rates = self.change_times_ps, self.change_rates
        if times and times[-1] == now:
            rates[-1] = rate // RATE_UNIT
        else:
            times.append(now)
            rates.append(rate // RATE_UNIT)

    def work_done(self, now: int) -> int:
        """The rate summed over time up to ``now`` [work units]."""
        return self._work + self.rate * (now - self._since_ps)

    def work_under_way(self, now: int) -> int:
        """What the flows that are being sent have done by ``now`` [work units]."""
        return sum(bundle.work_under_way(now) for bundle in self.bundles)

    def audit(self, now: int) -> None:
        """Check that the rate over time is the bytes of the flows; raises ``InvariantError`` where it is not."""
        flows = self.bytes_finished * WORK_UNIT + self.overshoot + self.work_under_way(now)
        if flows != self.work_done(now):
            difference = (self.work_done(now) - flows) / WORK_UNIT
            raise InvariantError(f"link {self.name} has carried {difference:g} bytes more than its flows have sent")
        if self.flows != sum(len(bundle.members) for bundle in self.bundles):
            raise InvariantError(f"link {self.name} counts {self.flows} flows, its bundles have other ones")
        if self.rate > self.capacity:
            raise InvariantError(f"the flows over link {self.name} are faster than the link")
