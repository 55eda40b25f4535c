"""The network of a simulation: its links, what others send over them, and what the results say about both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from servetwin.catalog.find import Catalog
from servetwin.cluster.links import ReplicaLinks
from servetwin.fabric.background import Background
from servetwin.fabric.flows import Fabric
from servetwin.fabric.topology import Topology
from servetwin.kernel import Environment
from servetwin.results.exchanged import CollectiveUse
from servetwin.results.links import LinkUse
from servetwin.scenario.hand_overs import Ways
from servetwin.scenario.idle_topology import paths_of
from servetwin.scenario.network import Layout, layout_of
from servetwin.scenario.pools import pool_parts
from servetwin.scenario.schema import Scenario
from servetwin.scenario.stragglers import Straggler
from servetwin.scenario.topology import BackgroundTraffic, TopologyOptions
from servetwin.scenario.traffic import Exchanges, collective_use
from servetwin.scenario.transfer import INSTANT, TransferOptions
from servetwin.specs import Span
from servetwin.units import seconds_to_ps

_BYTES_PER_GB = 10**9


def open_network(
    env: Environment, topology: Topology, background: Sequence[BackgroundTraffic], lasts: Callable[[], bool]
) -> Fabric:
    """The links of a topology, with the traffic of others on them.

    Args:
        env: the environment.
        topology: the servers.
        background: the traffic of others.
        lasts: whether requests are still on their way; no other traffic begins afterwards.
    """
    fabric = Fabric(env, topology.links)
    for index, traffic in enumerate(background):
        Background(
            env,
            fabric,
            [path for path in paths_of(topology, traffic) if path],
            round(traffic.gigabytes * _BYTES_PER_GB),
            seconds_to_ps(traffic.start_s),
            None if traffic.every_s is None else seconds_to_ps(traffic.every_s),
            lasts,
            index,
        )
    return fabric


def network_remarks(
    topology: TopologyOptions, layout: Layout, stragglers: Sequence[Straggler], handed_over: bool
) -> list[str]:
    """What the user should know about the network, in sentences.

    Args:
        topology: what the scenario says of it.
        layout: where the replicas lie.
        stragglers: GPUs that are slow.
        handed_over: whether KV cache is sent over it.
    """
    found = []
    for index, one in enumerate(stragglers):
        placed = layout.placed[one.replica]
        domain = layout.topology.domain(placed[one.gpu])
        if one.link < 1 and sum(layout.topology.domain(gpu) == domain for gpu in placed) == 1:
            found.append(
                f"cluster.stragglers.{index}.link has no effect: no other GPU of replica {one.replica} lies in the "
                "link domain of its GPU (check straggler-alone-in-its-domain)"
            )
    if not handed_over and not topology.background and not any(map(layout.span_across, range(len(layout.placed)))):
        found.append(
            "cluster.topology changes no time here: every replica lies in one link domain, and nothing else is sent "
            "over the network (check network-without-traffic)"
        )
    return found


def link_uses(fabric: Fabric) -> list[LinkUse]:
    """What each link carried of transfers, with the accounts checked."""
    fabric.audit()
    return [LinkUse(link.name, link.bytes_per_s, link.change_times_ps, link.change_rates) for link in fabric.links]


def collective_uses(layout: Layout, exchanges: Sequence[Exchanges | None]) -> list[CollectiveUse]:
    """What the collectives of each replica send over the links.

    Args:
        layout: where the replicas lie.
        exchanges: by replica, what it exchanges in a step; None = nothing.
    """
    return [
        collective_use(layout.topology, layout.placed[replica], replica, what)
        for replica, what in enumerate(exchanges)
        if what is not None
    ]


class Network:
    """The links of a scenario with a topology, with the traffic of others on them.

    Args:
        scenario: the resolved scenario.
        catalog: where servers are found.
        env: the environment.
        lasts: whether requests are still on their way.
    """

    def __init__(self, scenario: Scenario, catalog: Catalog, env: Environment, lasts: Callable[[], bool]) -> None:
        self._cluster, self._catalog = scenario.cluster, catalog
        options = scenario.cluster.topology
        #: The links and what goes over them; None where nobody sends anything but collectives over links of their own.
        self.fabric: Fabric | None = None
        self.remarks: list[str] = []
        self.ways: Ways | None = None
        transfer = scenario.cluster.transfer
        handed_over = transfer is not None and transfer.link is None
        if transfer is not None:
            self.ways = self._open_ways(scenario, transfer)
            if options is None:
                options = TopologyOptions()
        if options is not None:
            self.fabric = open_network(env, self.layout.topology, options.background, lasts)
        if scenario.cluster.topology is not None:
            self.remarks = network_remarks(
                scenario.cluster.topology, self.layout, scenario.cluster.stragglers, handed_over
            )

    def _open_ways(self, scenario: Scenario, transfer: TransferOptions) -> Ways:
        """The ways of KV cache; before the links are opened, for one of its own may be among them."""
        pools = scenario.cluster.pools
        parts = [pool_parts(scenario, pool, f"cluster.pools.{i}", self._catalog) for i, pool in enumerate(pools)]
        of_replica = [part for part, pool in zip(parts, pools, strict=True) for _ in range(pool.replicas or 1)]
        name = transfer.link
        link = None if name is None or name == INSTANT else self._catalog.link(name)
        ways = Ways(transfer, self.layout, of_replica, link)
        roles = [pool.role for pool in pools for _ in range(pool.replicas or 1)]
        first = {role: roles.index(role) for role in reversed(roles)}
        ways.check(first["prefill"], first["decode"])
        return ways

    @cached_property
    def layout(self) -> Layout:
        """Which GPUs each replica lies on; without a topology packed on as many servers as that takes.

        Made when somebody asks, for profiles of servers take longer to read than a short run takes.
        """
        return layout_of(self._cluster.topology, self._cluster.pools, self._catalog)

    def span_of(self, replica: int) -> Span | None:
        """How the GPUs of a replica lie; None in one link domain, as they do without a topology."""
        return None if self.fabric is None else self.layout.span_across(replica)

    def links_of(self, replica: int) -> ReplicaLinks | None:
        """The links of a replica's collectives; None where it has none or there is no network."""
        if self.fabric is None:
            return None
        path = self.layout.topology.collective_links(self.layout.placed[replica])
        return ReplicaLinks(self.fabric, path, replica) if path else None
