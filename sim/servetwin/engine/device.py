"""The GPUs of a replica as processes: every phase of a step is an event on the resource that it occupies.

Used at the stepping level ``every-operation`` only. The other levels carry the same phases as numbers; all three give
the same results, which the oracle tests compare.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import groupby

from simpy.events import Event, EventPriority

from servetwin.kernel import Environment, Nap
from servetwin.physics.protocols import Phase

#: Resources on which the ranks of a replica wait for each other.
_COLLECTIVE = "link"


def operations(phases: list[Phase]) -> Iterator[tuple[str, str, int]]:
    """The single operations of a step in order: kind, resource, duration [ps].

    Neighbouring phases of equal count are interleaved layer by layer; the last piece of a phase takes what integer
    division leaves.
    """
    for count, group in groupby(phases, key=lambda phase: phase.count):
        layers = list(group)
        for piece in range(count):
            for phase in layers:
                each, rest = divmod(phase.ps, count)
                yield phase.kind, phase.resource, each + (rest if piece == count - 1 else 0)


class Barrier:
    """Where the ranks of a replica meet before a collective, and at the end of a step."""

    def __init__(self, env: Environment, ranks: int) -> None:
        self._env = env
        self._ranks = ranks
        self._waiting = 0
        self._open = Event(env)

    def arrive(self) -> Event:
        """The event that goes off when every rank has arrived."""
        event = self._open
        self._waiting += 1
        if self._waiting == self._ranks:
            self._waiting = 0
            self._open = Event(self._env)
            event.succeed()
        return event


class GpuRank:
    """One GPU that works through the phases of a step.

    Attributes:
        busy_ps: by resource, for how long it was occupied [ps].
    """

    def __init__(self, env: Environment, priority: EventPriority, barrier: Barrier) -> None:
        self._nap = Nap(env, priority)
        self._env = env
        self._barrier = barrier
        self.busy_ps: dict[str, int] = {}

    def run(self, phases: list[Phase]) -> Generator[Event, None, None]:
        """The process of one step; it ends when all ranks have ended theirs."""
        for _, resource, duration in operations(phases):
            if resource == _COLLECTIVE:
                yield self._barrier.arrive()
            if duration:
                yield self._nap.until(self._env.now + duration)
                self.busy_ps[resource] = self.busy_ps.get(resource, 0) + duration
        yield self._barrier.arrive()


class Device:
    """The GPUs of one replica.

    Args:
        env: the environment.
        priority: rank of its events among simultaneous ones.
        gpus: how many.
    """

    def __init__(self, env: Environment, priority: EventPriority, gpus: int) -> None:
        self._env = env
        barrier = Barrier(env, gpus)
        self.ranks = [GpuRank(env, priority, barrier) for _ in range(gpus)]

    def execute(self, phases: list[Phase]) -> Event:
        """Start a step on every GPU; the event goes off when the slowest is done."""
        processes = [self._env.process(rank.run(phases)) for rank in self.ranks]
        return processes[-1]
