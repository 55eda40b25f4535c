"""The index over the replicas that routers ask: the least loaded one in logarithmic time."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace

from servetwin.cluster.protocols import METRICS, REQUESTS, TOKENS
from servetwin.cluster.replica import Replica
from servetwin.kernel import Environment
from servetwin.request import Request


class Fleet:
    """Implements ``FleetView``.

    Args:
        env: the environment.
        replicas: all replicas of the cluster.
        among: the indices of those that it is over; None = all.

    Of each metric that is asked for, a heap holds every replica's value at its last change. The number of requests
    changes only when one is routed or ends; the number of tokens also grows in between, so a heap entry is a lower
    bound, and the top is re-evaluated until it is exact.
    """

    def __init__(self, env: Environment, replicas: list[Replica], among: Sequence[int] | None = None) -> None:
        self._env = env
        self._replicas = replicas
        indices = range(len(replicas)) if among is None else among
        self._routable = [index for index in indices if replicas[index].routable]
        self._open = set(self._routable)
        self._requests = [0] * len(replicas)
        self._prompts = [0] * len(replicas)
        #: How often a replica has changed; entries of an older version are stale.
        self._version = [0] * len(replicas)
        self._heaps: dict[str, list[tuple[int, int, int]]] = {}

    def all(self) -> Sequence[int]:
        """Every routable replica, ascending."""
        return self._routable

    def value(self, replica: int, metric: str) -> int:
        """Requests or tokens that the gateway has routed to ``replica`` and not seen finish."""
        if metric == REQUESTS:
            return self._requests[replica]
        if metric == TOKENS:
            return self._prompts[replica] + self._replicas[replica].generated(self._env._now)
        raise ValueError(f"no metric {metric!r}; there are {', '.join(METRICS)}")

    def least(self, metric: str) -> int:
        """The replica with the smallest value; ties go to the smallest index."""
        heap = self._heaps.get(metric)
        if heap is None:
            heap = self._heaps[metric] = self._entries(metric)
        versions = self._version
        while True:
            value, replica, version = heap[0]
            if version != versions[replica]:
                heappop(heap)
                continue
            if metric == REQUESTS:
                return replica
            now = self.value(replica, metric)
            if now == value:
                return replica
            heapreplace(heap, (now, replica, version))

    def on_routed(self, request: Request) -> None:
        """A request goes to its replica."""
        replica = request.replica
        self._requests[replica] += 1
        self._prompts[replica] += request.prompt_tokens
        if self._heaps:
            self._changed(replica)

    def on_finished(self, request: Request) -> None:
        """A request has left its replica."""
        replica = request.replica
        self._requests[replica] -= 1
        self._prompts[replica] -= request.prompt_tokens
        if self._heaps:
            self._changed(replica)

    def leave(self, replica: int) -> None:
        """The replica takes no more requests."""
        self._routable = [index for index in self._routable if index != replica]
        self._open.discard(replica)
        self._heaps.clear()

    def _changed(self, replica: int) -> None:
        self._version[replica] = version = self._version[replica] + 1
        if replica not in self._open:
            return
        for metric, heap in self._heaps.items():
            if len(heap) > 64 + 4 * len(self._replicas):
                heap[:] = self._entries(metric)
            else:
                heappush(heap, (self.value(replica, metric), replica, version))

    def _entries(self, metric: str) -> list[tuple[int, int, int]]:
        entries = [(self.value(index, metric), index, self._version[index]) for index in self._routable]
        heapify(entries)
        return entries


class Whole:
    """Several fleets as one view, for admission: a request counts where it is.

    Args:
        fleets: the fleets, over different replicas.
    """

    def __init__(self, fleets: Sequence[Fleet]) -> None:
        self._fleets = fleets
        self._owner = {replica: fleet for fleet in fleets for replica in fleet.all()}

    def all(self) -> Sequence[int]:
        """Every routable replica, ascending."""
        return sorted(replica for fleet in self._fleets for replica in fleet.all())

    def value(self, replica: int, metric: str) -> int:
        """The value of one replica."""
        return self._owner[replica].value(replica, metric)

    def least(self, metric: str) -> int:
        """The replica with the smallest value; ties go to the smallest index."""
        return min(self.all(), key=lambda replica: (self.value(replica, metric), replica))
