"""Traffic of others on the same links: transfers at fixed times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from servetwin.fabric.flows import Fabric
from servetwin.fabric.placement import Place
from servetwin.fabric.topology import Topology
from servetwin.kernel import ARRIVAL, Environment, Nap, priority


def ends_of(topology: Topology, source: Place, target: Place) -> list[tuple[int, int]]:
    """The pairs of GPUs between two places; a node is all of its GPUs, in their order."""
    senders, receivers = _gpus(topology, source), _gpus(topology, target)
    count = max(len(senders), len(receivers))
    pairs = [(senders[i % len(senders)], receivers[i % len(receivers)]) for i in range(count)]
    return [(a, b) for a, b in pairs if a != b]


def _gpus(topology: Topology, place: Place) -> Sequence[int]:
    if isinstance(place, int):
        return topology.servers[place].gpus
    server, gpu = place
    return [topology.servers[server].first + gpu]


class Background:
    """One transfer again and again, as long as the run lasts.

    Args:
        env: the environment.
        fabric: the links.
        paths: over which links it goes, in equal parts.
        size: its length [B].
        start_ps: when the first begins [ps].
        every_ps: when the next begin after it [ps]; None = there is only one.
        lasts: whether the run still goes on.
        index: its index among its like.
    """

    def __init__(
        self,
        env: Environment,
        fabric: Fabric,
        paths: Sequence[tuple[int, ...]],
        size: int,
        start_ps: int,
        every_ps: int | None,
        lasts: Callable[[], bool],
        index: int = 0,
    ) -> None:
        self._fabric = fabric
        self._paths = list(paths)
        each, more = divmod(size, len(self._paths))
        self._sizes = [each + (part < more) for part in range(len(self._paths))]
        self._every_ps = every_ps
        self._lasts = lasts
        # Requests that arrive at the same instant come first, with their indices from 0.
        self._nap = Nap(env, priority(ARRIVAL, index + 1))
        self._sleep(start_ps)

    def _sleep(self, until_ps: int) -> None:
        self._nap.until(until_ps).callbacks.append(self._begin)

    def _begin(self, _alarm: Any) -> None:
        if not self._lasts():
            return
        for path, size in zip(self._paths, self._sizes, strict=True):
            self._fabric.send(path, size, _nobody)
        if self._every_ps is not None:
            self._sleep(self._nap.until_ps + self._every_ps)


def _nobody() -> None:
    """Nobody waits for the transfers of others."""
