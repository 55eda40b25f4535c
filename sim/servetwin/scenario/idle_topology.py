"""The servers of a scenario with nothing left open, and which of its options have no effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import ScenarioError
from servetwin.fabric.background import ends_of
from servetwin.fabric.placement import PATH, Place, place
from servetwin.fabric.topology import Topology
from servetwin.scenario.consistency import Idle
from servetwin.scenario.network import Layout, Servers, filled
from servetwin.scenario.schema import Pool
from servetwin.scenario.topology import BackgroundTraffic, TopologyOptions

_PLACE = ("cluster", "topology")
_ONE_NODE = "there is one node, so nothing goes over the network"


def resolve_topology(
    options: TopologyOptions | None, pools: Sequence[Pool], catalog: Catalog, *, hands_over: bool
) -> tuple[TopologyOptions | None, list[Idle]]:
    """The options with everything that they leave open, without those that have no effect; and these.

    Args:
        options: what the scenario says.
        pools: its resolved pools.
        catalog: where servers and links are.
        hands_over: whether KV cache is handed over on these links.

    Raises:
        InputError: the servers cannot exist, or the replicas do not fit.
    """
    if options is None:
        return None, []
    servers = Servers(options, pools, catalog)
    layout = servers.layout()
    whole = filled(options, servers, catalog)
    _check_background(whole.background, layout.topology)
    used = _used_by_replicas(layout, pools if hands_over else ())
    idle = [*_idle_fields(whole, layout, servers, used), *_idle_background(whole, layout, used)]
    dropped = {entry.path for entry in idle}
    update: dict[str, Any] = {
        field: info.default
        for field, info in TopologyOptions.model_fields.items()
        if (*_PLACE, field) in dropped
    }  # fmt: skip
    update["background"] = tuple(
        entry for i, entry in enumerate(whole.background) if (*_PLACE, "background", i) not in dropped
    )
    return whole.model_copy(update=update), idle


def paths_of(topology: Topology, traffic: BackgroundTraffic) -> list[tuple[int, ...]]:
    """The links that each part of a transfer takes."""
    return [topology.path(a, b) for a, b in ends_of(topology, traffic.source, traffic.to)]


def _idle_fields(options: TopologyOptions, layout: Layout, servers: Servers, used: set[int]) -> list[Idle]:
    topology, found = layout.topology, []

    def idle(check: str, field: str, reason: str) -> None:
        found.append(Idle(check, (*_PLACE, field), getattr(options, field), reason))

    one_node = len(topology.servers) == 1
    if options.nodes_per_rack is not None and all(group.nodes <= options.nodes_per_rack for group in servers.groups):
        idle("racks-of-one", "nodes_per_rack", "all nodes lie in one rack anyway")
    if options.rail_optimised and one_node:
        idle("rails-in-one-node", "rail_optimised", _ONE_NODE)
    if options.nic is not None and one_node:
        idle("nic-in-one-node", "nic", _ONE_NODE)
    if options.hop_latency_us != TopologyOptions.model_fields["hop_latency_us"].default and one_node:
        idle("hops-in-one-node", "hop_latency_us", _ONE_NODE)
    if options.oversubscription > 1 and not topology.uses_spine:
        idle("oversubscription-without-spine", "oversubscription", "nothing goes over the spine: there is one rack")
    elif options.oversubscription > 1 and not topology.spine & _used(options, layout, used):
        reason = "nothing goes over the spine: neither a replica nor other traffic leaves its leaf switches"
        idle("oversubscription-without-spine", "oversubscription", reason)
    if options.placement == "spread" and tuple(place(topology, servers.demands)) == layout.placed:
        idle("spread-like-packed", "placement", "packed puts every replica on the same GPUs")
    return found


def _used_by_replicas(layout: Layout, pools: Sequence[Pool]) -> set[int]:
    """The links that the collectives of replicas use, and those over which ``pools`` hand KV cache over."""
    topology, placed = layout.topology, layout.placed
    used = {link for gpus in placed for link in topology.collective_links(gpus)}
    roles = [pool.role for pool in pools for _ in range(pool.replicas or 1)]
    sources = [gpus for gpus, role in zip(placed, roles, strict=False) if role == "prefill"]
    targets = [gpus for gpus, role in zip(placed, roles, strict=False) if role == "decode"]
    for source in sources:
        for target in targets:
            for rank in range(max(len(source), len(target))):
                used.update(topology.path(source[rank % len(source)], target[rank % len(target)]))
    return used


def _used(options: TopologyOptions, layout: Layout, used: set[int]) -> set[int]:
    """The links that replicas, which use ``used``, and other traffic use."""
    topology = layout.topology
    return used.union(*(links for traffic in options.background for links in paths_of(topology, traffic)))


def _idle_background(options: TopologyOptions, layout: Layout, used: set[int]) -> list[Idle]:
    """Traffic that nobody meets: neither a replica, which uses ``used``, nor other traffic that a replica meets."""
    topology = layout.topology
    met = set(used)
    waiting = {}
    for index, traffic in enumerate(options.background):
        waiting[index] = {link for links in paths_of(topology, traffic) for link in links}
    while meeting := [index for index, links in waiting.items() if links & met]:
        for index in meeting:
            met |= waiting.pop(index)
    return [
        Idle(
            "background-that-nobody-meets",
            (*_PLACE, "background", index),
            options.background[index].model_dump(mode="json", by_alias=True, exclude_unset=True),
            "no replica sends anything over the links that it takes",
        )
        for index in waiting
    ]


def _check_background(background: Sequence[BackgroundTraffic], topology: Topology) -> None:
    """Refuse transfers between places that there are not, and more of them than the links can ever carry.

    Those would pile up, and leave the steps of a replica ever less of the links: such a run does not end.
    """
    asked: dict[int, float] = {}
    for index, traffic in enumerate(background):
        path = f"{PATH}.background.{index}"
        _check_place(topology, traffic.source, f"{path}.from")
        _check_place(topology, traffic.to, f"{path}.to")
        parts = [links for links in paths_of(topology, traffic) if links]
        if not parts:
            raise ScenarioError(
                "a transfer leads from one GPU to another", path=f"{path}.to", found=_written(traffic.to),
                allowed="another place than from",
            )  # fmt: skip
        if traffic.every_s is None:
            continue
        for link in (link for links in parts for link in links):
            asked[link] = asked.get(link, 0.0) + traffic.gigabytes / len(parts) / traffic.every_s
            most = topology.links[link].bytes_per_s / 1e9
            if asked[link] >= most:
                raise ScenarioError(
                    f"more than {topology.links[link].name} can carry: the transfers would pile up", path=path,
                    found=f"{asked[link]:,.4g} GB/s with those before it", allowed=f"less than {most:,.4g} GB/s",
                )  # fmt: skip


def _check_place(topology: Topology, place: Place, path: str) -> None:
    server, gpu = (place, 0) if isinstance(place, int) else place
    if server >= len(topology.servers):
        raise ScenarioError(
            "there is no such node", path=path, found=_written(place),
            allowed=f"a node from 0 to {len(topology.servers) - 1}, or [node, gpu]",
        )  # fmt: skip
    if gpu >= topology.servers[server].node.gpus:
        raise ScenarioError(
            "the node has no such GPU", path=path, found=_written(place),
            allowed=f"a GPU from 0 to {topology.servers[server].node.gpus - 1}",
        )  # fmt: skip


def _written(place: Place) -> int | list[int]:
    return place if isinstance(place, int) else list(place)
