"""Small clusters of servers whose figures are easy to work with."""

from __future__ import annotations

from typing import Any

from servetwin.fabric.topology import Topology
from servetwin.specs import Gpu, Link, NetworkSpec, Node, NodeGroup

GB = 10**9

NIC = Link("nic", 50 * GB, 5e-6)
HOST = Link("host", 64 * GB, 10e-6)


def gpu(name: str = "gpu", link: float = 450 * GB) -> Gpu:
    return Gpu(name, "hopper", 80 * GB, 3e12, (("bf16", 1e15),), link)


def group(nodes: int, gpus: int = 8, per_domain: int = 8, host: Link | None = HOST, name: str = "gpu") -> NodeGroup:
    node = Node(f"server of {name}", name, gpus, per_domain, NIC, 10**12, host)
    return NodeGroup(node, gpu(name), nodes)


def topology(*groups: NodeGroup, **network: Any) -> Topology:
    return Topology(NetworkSpec(groups, **network))


def names(cluster: Topology, path: tuple[int, ...]) -> list[str]:
    """What the links of a path are called."""
    return [cluster.links[link].name for link in path]


def latency_us(cluster: Topology, path: tuple[int, ...]) -> float:
    """What they add up to [µs]."""
    return round(sum(cluster.links[link].latency_s for link in path) * 1e6, 6)
