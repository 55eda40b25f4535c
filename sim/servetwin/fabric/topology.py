"""Servers, racks and the links between their GPUs.

Each GPU has a port to its link domain (NVLink or its like), a PCIe link to its host, and a NIC; each direction is a
link of its own. The NICs of a rack hang on one leaf switch, or with rails the n-th NIC of every server on the n-th
leaf. Each leaf has as much bandwidth to the spine as its NICs have, divided by the oversubscription; the spine never
blocks. The way from one GPU to another:

* in one link domain: the two ports;
* in one server: PCIe, up and down;
* behind one leaf: the two NICs;
* behind different rails: over NVLink to the GPU of its own server whose NIC is on the rail of the other, and on from
  there. Source: PXN, "Doubling all2all Performance with NVIDIA Collective Communication Library 2.12", NVIDIA blog,
  February 2022 (from memory). Where no NVLink leads there, over the spine;
* in different racks: also the link from the leaf to the spine, and from the spine to the other leaf.

Traffic of a NIC does not load the PCIe link of its GPU, which is faster in every server that the catalogue knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from servetwin.specs import Gpu, Link, NetworkSpec, Node, Span
from servetwin.specs.topology import P2P_LATENCY_S

_NONE = -1
"""A link that a GPU does not have."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server.

    Attributes:
        index: its index in the topology.
        group: the index of its group.
        node: what it is.
        gpu: its GPUs.
        rack: index of its rack.
        first: index of its first GPU in the topology.
    """

    index: int
    group: int
    node: Node
    gpu: Gpu
    rack: int
    first: int

    @property
    def gpus(self) -> range:
        """Its GPUs."""
        return range(self.first, self.first + self.node.gpus)


@dataclass(frozen=True, slots=True)
class _Ports:
    """The links of one GPU by direction."""

    nvlink_out: int
    nvlink_in: int
    pcie_out: int
    pcie_in: int
    nic_out: int
    nic_in: int


class Topology:
    """The GPUs of a cluster, which are numbered through, and the links between them.

    Args:
        network: the servers and how they are joined.

    Attributes:
        network: the same.
        servers: every server.
        links: every link; paths are tuples of their indices.
    """

    def __init__(self, network: NetworkSpec) -> None:
        self.network = network
        self.servers = _servers(network)
        self.links: list[Link] = []
        self._server_of: list[Server] = []
        self._ports: list[_Ports] = []
        for server in self.servers:
            for local in range(server.node.gpus):
                self._server_of.append(server)
                self._ports.append(self._add_ports(server, local))
        #: By rack and rail: the links from the leaf to the spine, and back.
        self._leaves: dict[tuple[int, int], tuple[int, int]] = self._add_leaves()
        #: All of them.
        self.spine = {link for pair in self._leaves.values() for link in pair}
        self._network = self.spine | {nic for ports in self._ports for nic in (ports.nic_out, ports.nic_in)}

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return len(self._server_of)

    @property
    def racks(self) -> int:
        """How many racks there are."""
        return self.servers[-1].rack + 1

    @property
    def uses_spine(self) -> bool:
        """Whether any path leads over the spine: between racks, or between rails that NVLink does not join."""
        split = any(group.node.gpus_per_domain < group.node.gpus for group in self.network.groups)
        return self.racks > 1 or (self.network.rail_optimised and split)

    def server(self, gpu: int) -> Server:
        """The server of a GPU."""
        return self._server_of[gpu]

    def domain(self, gpu: int) -> tuple[int, int]:
        """The link domain of a GPU: its server, and which domain there."""
        server = self._server_of[gpu]
        return server.index, (gpu - server.first) // server.node.gpus_per_domain

    def hops(self, a: int, b: int) -> int:
        """Switches of the network between two GPUs: 0 without the network, 1 behind one leaf, 3 over the spine."""
        path = self.path(a, b)
        if self._ports[b].nic_in not in path:
            return 0
        return 3 if self.spine & set(path) else 1

    def path(self, a: int, b: int) -> tuple[int, ...]:
        """The links from GPU ``a`` to GPU ``b``; none from a GPU to itself."""
        if a == b:
            return ()
        if self.domain(a) == self.domain(b):
            return self._ports[a].nvlink_out, self._ports[b].nvlink_in
        if self._server_of[a].index == self._server_of[b].index and not self._only_network(a, b):
            return self._ports[a].pcie_out, self._ports[b].pcie_in
        relay = self._relay(a, b)
        first = self.path(a, relay)
        leaf_a, leaf_b = self._leaf(relay), self._leaf(b)
        between = () if leaf_a == leaf_b else (self._leaves[leaf_a][0], self._leaves[leaf_b][1])
        return *first, self._ports[relay].nic_out, *between, self._ports[b].nic_in

    def is_network(self, link: int) -> bool:
        """Whether a link belongs to the network between servers: a NIC, or a link of a leaf to the spine."""
        return link in self._network

    def from_host(self, gpu: int) -> tuple[int, ...] | None:
        """The links from the CPU memory of its server to a GPU; None where the profile gives none."""
        pcie = self._ports[gpu].pcie_in
        return None if pcie == _NONE else (pcie,)

    def to_host(self, gpu: int, other: int) -> tuple[int, ...] | None:
        """The links from a GPU to the CPU memory of the server of another, over the other's NIC; None where the
        profile gives none. A NIC writes to CPU memory as well as to its GPU."""
        if self._server_of[gpu].index != self._server_of[other].index:
            return self.path(gpu, other)
        pcie = self._ports[gpu].pcie_out
        return None if pcie == _NONE else (pcie,)

    def add_ports(self, link: Link) -> list[tuple[int, int]]:
        """Give each GPU a port more: by GPU, the links out of it and into it."""
        ports = []
        for server in self.servers:
            for local in range(server.node.gpus):
                name = f"node{server.index}/gpu{local}"
                out = self._add(f"{name}/kv-out", link.bytes_per_s, link.latency_s)
                ports.append((out, self._add(f"{name}/kv-in", link.bytes_per_s, 0.0)))
        self._network.update(one for pair in ports for one in pair)
        return ports

    def collective_links(self, gpus: Sequence[int]) -> tuple[int, ...]:
        """The links that the collectives of a group use, in ascending order; none for one GPU.

        Inside each domain the ports of its members. Between domains of one server PCIe; between servers the NIC of
        each GPU, and between racks the links of their leaves to the spine, each as often as it has NICs below it.
        """
        members = Counter(self.domain(gpu) for gpu in gpus)
        servers = {self._server_of[gpu].index for gpu in gpus}
        racks = {self._server_of[gpu].rack for gpu in gpus}
        used: list[int] = []
        for gpu in gpus:
            ports = self._ports[gpu]
            if members[self.domain(gpu)] > 1:
                used += (ports.nvlink_out, ports.nvlink_in)
            if len(members) > 1:
                beyond = len(servers) > 1 or ports.pcie_out == _NONE
                used += (ports.nic_out, ports.nic_in) if beyond else (ports.pcie_out, ports.pcie_in)
            if len(racks) > 1:
                used += self._leaves[self._leaf(gpu)]
        return tuple(sorted(used))

    def collective_way(self, a: int, b: int, beyond: bool) -> tuple[int, ...]:
        """The links from GPU ``a`` to ``b`` that a collective takes, among those of ``collective_links``.

        Args:
            a: one GPU.
            b: another.
            beyond: whether the GPUs that the collective links were asked for lie in several servers.
        """
        mine, other = self._ports[a], self._ports[b]
        if self.domain(a) == self.domain(b):
            return mine.nvlink_out, other.nvlink_in
        if not beyond and mine.pcie_out != _NONE:
            return mine.pcie_out, other.pcie_in
        racks = self._server_of[a].rack, self._server_of[b].rack
        between = () if racks[0] == racks[1] else (self._leaves[self._leaf(a)][0], self._leaves[self._leaf(b)][1])
        return mine.nic_out, *between, other.nic_in

    def span(self, gpus: Sequence[int]) -> Span:
        """How a group of GPUs lies."""
        members = Counter(self.domain(gpu) for gpu in gpus)
        servers = {self._server_of[gpu].index: self._server_of[gpu] for gpu in gpus}
        racks = len({server.rack for server in servers.values()})
        inside = min(server.gpu.link_bytes_per_s for server in servers.values())
        across, latency = 0.0, 0.0
        if len(members) > 1:
            links = [self._across(server, len(servers) > 1) for server in servers.values()]
            across, latency = min(link.bytes_per_s for link in links), max(link.latency_s for link in links)
        if len(servers) > 1:
            latency += self.network.hop_latency_s * (3 if racks > 1 else 1)
        if racks > 1:
            across /= self.network.oversubscription
        return Span(len(gpus), len(members), tuple(members.values()), inside, across, latency)

    @staticmethod
    def _across(server: Server, beyond: bool) -> Link:
        """What joins the domains of a server, or the server with others."""
        return server.node.nic if beyond or server.node.host_link is None else server.node.host_link

    def _only_network(self, a: int, b: int) -> bool:
        """Whether GPUs of different domains of one server have nothing but the network between them."""
        return self.domain(a) != self.domain(b) and self._ports[a].pcie_out == _NONE

    def _leaf(self, gpu: int) -> tuple[int, int]:
        """The rack and the rail of a GPU's NIC."""
        server = self._server_of[gpu]
        return server.rack, gpu - server.first if self.network.rail_optimised else 0

    def _relay(self, a: int, b: int) -> int:
        """The GPU whose NIC sends from ``a`` to ``b``: with rails that on the rail of ``b``, if NVLink leads there."""
        if not self.network.rail_optimised:
            return a
        server, rail = self._server_of[a], b - self._server_of[b].first
        relay = server.first + rail
        return relay if rail < server.node.gpus and self.domain(relay) == self.domain(a) else a

    def _add(self, name: str, bytes_per_s: float, latency_s: float, lanes: int = 1) -> int:
        self.links.append(Link(name, bytes_per_s, latency_s, lanes=lanes))
        return len(self.links) - 1

    def _add_ports(self, server: Server, local: int) -> _Ports:
        """The latency of a link profile counts where a path begins; each switch counts at the link behind it."""
        node, name = server.node, f"node{server.index}/gpu{local}"
        nvlink, pcie = (_NONE, _NONE), (_NONE, _NONE)
        if node.gpus_per_domain > 1:
            speed = server.gpu.link_bytes_per_s
            nvlink = self._add(f"{name}/link-out", speed, P2P_LATENCY_S), self._add(f"{name}/link-in", speed, 0.0)
        host = node.host_link
        if host is not None:
            # The profile's latency is that from GPU to GPU, over both; to and from the host there is one.
            out = self._add(f"{name}/pcie-out", host.bytes_per_s, host.latency_s / 2)
            pcie = out, self._add(f"{name}/pcie-in", host.bytes_per_s, host.latency_s / 2)
        speed = node.nic.bytes_per_s
        nic_out = self._add(f"{name}/nic-out", speed, node.nic.latency_s)
        nic_in = self._add(f"{name}/nic-in", speed, self.network.hop_latency_s)
        return _Ports(*nvlink, *pcie, nic_out, nic_in)

    def _add_leaves(self) -> dict[tuple[int, int], tuple[int, int]]:
        below: dict[tuple[int, int], list[float]] = {}
        for gpu, server in enumerate(self._server_of):
            below.setdefault(self._leaf(gpu), []).append(server.node.nic.bytes_per_s)
        leaves = {}
        for (rack, rail), nics in below.items():
            name = f"rack{rack}/rail{rail}" if self.network.rail_optimised else f"rack{rack}"
            up, hop = sum(nics) / self.network.oversubscription, self.network.hop_latency_s
            leaves[rack, rail] = (
                self._add(f"{name}/spine-up", up, hop, len(nics)), self._add(f"{name}/spine-down", up, hop, len(nics))
            )  # fmt: skip
        return leaves


def _servers(network: NetworkSpec) -> list[Server]:
    """Every server, group after group; each group begins a new rack."""
    servers: list[Server] = []
    gpus = rack = 0
    for number, group in enumerate(network.groups):
        each = network.nodes_per_rack or group.nodes
        for place in range(group.nodes):
            rack_of = rack + place // each
            servers.append(Server(len(servers), number, group.node, group.gpu, rack_of, gpus))
            gpus += group.node.gpus
        rack += -(-group.nodes // each)
    return servers
