"""The ways of KV cache between the replicas of a scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

from servetwin.errors import ScenarioError
from servetwin.fabric.topology import Topology
from servetwin.fabric.transfer import Leg
from servetwin.physics.kv_parts import KvPart, Spread, kv_parts
from servetwin.scenario.network import Layout
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.transfer import INSTANT, TransferOptions
from servetwin.specs import Link


class Ways:
    """The legs between the GPUs of replicas.

    Args:
        options: how KV cache is handed over, filled in.
        layout: where the replicas lie.
        parts: by replica, what its pool is made of.
        link: the link that stands for the whole way; None = those of the topology.
    """

    def __init__(self, options: TransferOptions, layout: Layout, parts: Sequence[PoolParts], link: Link | None) -> None:
        self._options = options
        self._topology: Topology = layout.topology
        self._placed = layout.placed
        self._parts = parts
        self.layers = parts[0].model.num_layers
        self._ports = None if link is None else self._topology.add_ports(link)
        self.legs = cache(self._legs)
        self.onward = cache(self._onward)

    def check(self, source: int, target: int) -> None:
        """Refuse a way that there is not, before the clock starts."""
        self.legs(source, target)
        if self._options.mode == "push":
            self.onward(target)

    def _legs(self, source: int, target: int) -> tuple[Leg, ...]:
        """The legs from one replica to another, or to the CPU memory of its server where it is pushed there."""
        moved = kv_parts(
            self._parts[source].model, _spread(self._parts[source]), _spread(self._parts[target]),
            self._parts[source].kv_cache,
        )  # fmt: skip
        return tuple(
            self._leg(part, self._path(self._placed[source][part.source], self._placed[target][part.target]), source)
            for part in moved
        )

    def _onward(self, target: int) -> tuple[Leg, ...]:
        """The legs from the CPU memory of a server to the GPUs of a replica there."""
        spread = Spread(self._parts[target].tensor, len(self._parts[target].stages))
        moved = kv_parts(self._parts[target].model, spread, spread, self._parts[target].kv_cache)
        return tuple(self._leg(part, self._down(self._placed[target][part.target]), target) for part in moved)

    def rate(self, source: int, target: int) -> float | None:
        """What a long prompt's transfer from one replica to another gets if it is alone on its way [B/s].

        Where it is pushed, both ways count, one after the other; None if no way takes time.
        """
        pushed = [self.onward(target)] if self._options.mode == "push" else []
        total = seconds = 0.0
        for legs in (self.legs(source, target), *pushed):
            busy: defaultdict[int, float] = defaultdict(float)
            for leg in legs:
                size = leg.bytes_per_token or leg.constant_bytes
                total += size
                for link in leg.path:
                    busy[link] += size / leg.efficiency / self._topology.links[link].bytes_per_s
            seconds += max(busy.values(), default=0.0)
        return total / seconds if seconds else None

    def _down(self, gpu: int) -> tuple[int, ...]:
        path = () if self._options.link == INSTANT else self._topology.from_host(gpu)
        if path is None:
            raise _no_host_link(self._topology, gpu)
        return path

    def _leg(self, part: KvPart, path: tuple[int, ...], replica: int) -> Leg:
        calibration = self._parts[replica].calibration
        across = any(self._topology.is_network(link) for link in path)
        efficiency = calibration.across_efficiency if across else calibration.send_efficiency
        return Leg(
            path, efficiency if path else 1.0, part.bytes_per_token, tuple(sorted(part.windows.items())),
            part.constant_bytes,
        )  # fmt: skip

    def _path(self, source: int, target: int) -> tuple[int, ...]:
        if self._options.link == INSTANT:
            return ()
        if self._ports is not None:
            return self._ports[source][0], self._ports[target][1]
        if self._options.mode != "push":
            return self._topology.path(source, target)
        path = self._topology.to_host(source, target)
        if path is None:
            raise _no_host_link(self._topology, source)
        return path


def _spread(parts: PoolParts) -> Spread:
    return Spread(parts.tensor, len(parts.stages), parts.context)


def _no_host_link(topology: Topology, gpu: int) -> ScenarioError:
    return ScenarioError(
        f"the profile of {topology.server(gpu).node.name} does not say how its GPUs reach the CPU memory",
        path="cluster.transfer.mode", found="push", allowed="pull, stream, or a node with a host_link",
    )  # fmt: skip
