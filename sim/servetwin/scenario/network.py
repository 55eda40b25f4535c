"""From the servers that a scenario describes, or the catalogue knows, to where each replica lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from servetwin.catalog.find import Catalog
from servetwin.errors import ScenarioError, nearest_name
from servetwin.fabric.placement import PATH, Demand, Placed, nodes_needed, place, place_listed
from servetwin.fabric.topology import Topology
from servetwin.scenario.pools import gpus_per_replica
from servetwin.scenario.schema import Pool
from servetwin.scenario.topology import ExplicitPlacement, TopologyOptions
from servetwin.specs import Gpu, NetworkSpec, Node, NodeGroup, Span

ASSUMED_NIC = "ethernet-100"
"""The network link of a server that the catalogue does not have."""

_PACKED = TopologyOptions()
_Value = TypeVar("_Value", str, int)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the replicas lie.

    Attributes:
        topology: the servers and links.
        placed: the GPUs of each replica.
    """

    topology: Topology
    placed: tuple[Placed, ...]

    def span(self, replica: int) -> Span:
        """How the GPUs of a replica lie to each other."""
        return self.topology.span(self.placed[replica])

    def span_across(self, replica: int) -> Span | None:
        """The same of a replica in several link domains, None of one that lies in a single one."""
        span = self.span(replica)
        return span if span.domains > 1 else None


class Servers:
    """The servers for some pools.

    Args:
        options: what the scenario says about them; None = nothing.
        pools: the resolved pools.
        catalog: where servers and links are.

    Raises:
        ScenarioError: it names what there is not, or leaves out what has to be named.
        CatalogError: a server or link is unknown.
        CapacityError: the servers are too few.
    """

    def __init__(self, options: TopologyOptions | None, pools: Sequence[Pool], catalog: Catalog) -> None:
        self._given = options is not None
        self._options = options or _PACKED
        self._catalog = catalog
        self.hardware = list(dict.fromkeys(str(pool.hardware) for pool in pools))
        self.demands = [
            Demand(
                pool.name,
                self.hardware.index(str(pool.hardware)),
                pool.replicas or 1,
                gpus_per_replica(pool.parallel),
            )
            for pool in pools
        ]
        names = self._by_hardware("node", self._options.node)
        counts = self._by_hardware("nodes", self._options.nodes)
        #: By GPU the reference of its server; without those that the catalogue does not have.
        self.names: dict[str, str] = {}
        self.groups = tuple(
            self._group(number, gpu, names.get(gpu), counts.get(gpu)) for number, gpu in enumerate(self.hardware)
        )

    def layout(self) -> Layout:
        """The servers, joined, and who lies where."""
        options = self._options
        network = NetworkSpec(
            self.groups,
            options.nodes_per_rack or 0,
            options.rail_optimised,
            options.oversubscription,
            options.hop_latency_us * 1e-6,
        )
        topology = Topology(network)
        how = options.placement
        if isinstance(how, ExplicitPlacement):
            placed = place_listed(topology, self.demands, how.explicit)
        else:
            placed = place(topology, self.demands, how)
        return Layout(topology, tuple(placed))

    def _group(self, number: int, hardware: str, name: str | None, count: int | None) -> NodeGroup:
        gpu = self._catalog.gpu(hardware)
        node = self._node(hardware, gpu, name)
        if self._options.nic is not None:
            node = replace(node, nic=self._catalog.link(self._options.nic))
        if count is None:
            count = self._nodes_needed(node, number)
        return NodeGroup(node, gpu, count)

    def _nodes_needed(self, node: Node, number: int) -> int:
        how = self._options.placement
        needed = nodes_needed(node, [demand for demand in self.demands if demand.group == number])
        if not isinstance(how, ExplicitPlacement):
            return needed
        if len(self.hardware) > 1:
            raise ScenarioError(
                "a list that says where each replica lies needs the number of nodes of each GPU",
                path=f"{PATH}.nodes", allowed=f"a mapping from {', '.join(self.hardware)} to a number",
            )  # fmt: skip
        named = [entry if isinstance(entry, int) else entry[0] for places in how.explicit for entry in places]
        return max(needed, *(server + 1 for server in named))

    def _node(self, hardware: str, gpu: Gpu, name: str | None) -> Node:
        fitting = self._catalog.nodes_with(hardware)
        if name is None and len(fitting) == 1:
            name = fitting[0]
        if name is not None:
            self.names[hardware] = self._catalog.node_reference(name)
            node = self._catalog.node(name)
            if node.gpu != hardware:
                raise ScenarioError(
                    f"the GPUs of {node.name} are {node.gpu}, not the {gpu.name} of the pools",
                    path=f"{PATH}.node", found=name, allowed=fitting or "a server with that GPU",
                )  # fmt: skip
            return node
        if self._given:
            raise ScenarioError(
                f"the catalogue has {'several servers' if fitting else 'no server'} with the GPU {gpu.name}",
                path=f"{PATH}.node", allowed=fitting or "the path of a profile of a server",
            )  # fmt: skip
        size = gpu.link_domain
        return Node(f"node of {gpu.name}", hardware, size, size, self._catalog.link(ASSUMED_NIC), 0)

    def _by_hardware(self, field: str, value: _Value | Mapping[str, _Value] | None) -> dict[str, _Value]:
        """What a field says about each GPU, by the GPU's reference."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            if len(self.hardware) > 1:
                raise ScenarioError(
                    "the pools have different GPUs, each of which has servers of its own",
                    path=f"{PATH}.{field}", found=value, allowed=f"a mapping from {', '.join(self.hardware)}",
                )  # fmt: skip
            return {self.hardware[0]: value}
        found = {}
        for key, inner in value.items():
            reference = self._catalog.gpu_reference(key)
            if reference not in self.hardware:
                raise ScenarioError(
                    "no pool has this GPU", path=f"{PATH}.{field}.{key}", found=key, allowed=self.hardware,
                    nearest=nearest_name(key, self.hardware),
                )  # fmt: skip
            found[reference] = inner
        return found


def layout_of(options: TopologyOptions | None, pools: Sequence[Pool], catalog: Catalog) -> Layout:
    """Where the replicas of resolved pools lie; without options packed on as many servers as that takes."""
    return Servers(options, pools, catalog).layout()


def filled(options: TopologyOptions, servers: Servers, catalog: Catalog) -> TopologyOptions:
    """The options with everything that they leave open."""
    several = len(servers.hardware) > 1
    counts = {gpu: group.nodes for gpu, group in zip(servers.hardware, servers.groups, strict=True)}
    return options.model_copy(
        update={
            "node": servers.names if several else servers.names[servers.hardware[0]],
            "nodes": counts if several else counts[servers.hardware[0]],
            "nic": None if options.nic is None else catalog.link_reference(options.nic),
        }
    )
