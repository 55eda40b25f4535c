"""How many servers there are, and how the network joins them."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.specs.hardware import Gpu, Node

P2P_LATENCY_S = 10e-6
"""Until the first byte arrives between two GPUs of a link domain [s]. Source: ``p2p_latency`` of the systems of
github.com/ai-dynamo/aiconfigurator, which is not a measurement."""

HOP_LATENCY_S = 0.3e-6
"""Of a switch that begins to send before it has received all [s]. Quantum-2 is quoted with 0.15 µs
(router-switch.com) to 0.33 µs (yobitel.com); the time of the NICs is in the profile of the link."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal servers.

    Attributes:
        node: the server.
        gpu: its GPUs.
        nodes: how many servers.
    """

    node: Node
    gpu: Gpu
    nodes: int


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """Servers behind leaf switches, one set of leaves a rack, and a spine that never blocks above them.

    Attributes:
        groups: the servers; those of different groups do not share racks.
        nodes_per_rack: servers behind the same leaves; 0 = all of a group.
        rail_optimised: whether the n-th NICs of the servers of a rack share a leaf of their own, their *rail*, rather
            than all NICs of the rack one leaf.
        oversubscription: bandwidth of the NICs below a leaf over that of its links to the spine, at least 1.
        hop_latency_s: of each switch on the way [s].
    """

    groups: tuple[NodeGroup, ...]
    nodes_per_rack: int = 0
    rail_optimised: bool = False
    oversubscription: float = 1.0
    hop_latency_s: float = HOP_LATENCY_S
