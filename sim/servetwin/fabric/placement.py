"""Which GPUs each replica lies on.

``packed`` fills one link domain after the other, ``spread`` deals the replicas out to the servers in turn, and a list
says it for each replica. A replica that fits into one link domain never straddles two, except where a list says so;
a larger one takes whole domains, of one server if it fits there, else whole servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from servetwin.errors import CapacityError
from servetwin.fabric.topology import Topology
from servetwin.specs import Node

PATH = "cluster.topology"
"""Where a scenario describes the servers."""

Place = int | tuple[int, int]
"""A server, or one of its GPUs: ``(server, GPU there)``."""

Placed = tuple[int, ...]
"""The GPUs of a replica, as the topology numbers them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The replicas of a pool.

    Attributes:
        name: the pool's name.
        group: the index of the group of servers that have its GPUs.
        replicas: how many.
        gpus: GPUs of each.
    """

    name: str
    group: int
    replicas: int
    gpus: int


class _Free:
    """What is free on the servers of a group, by server and domain: the numbers of GPUs there."""

    def __init__(self, node: Node, nodes: int) -> None:
        self.node = node
        self.servers: list[list[list[int]]] = []
        for _ in range(nodes):
            self.add()

    def add(self) -> None:
        """One server more."""
        node = self.node
        gpus = list(range(node.gpus))
        self.servers.append([gpus[i : i + node.gpus_per_domain] for i in range(0, node.gpus, node.gpus_per_domain)])

    def take(self, server: int, gpus: int) -> list[int] | None:
        """GPUs of one server: in the first domain that has room, else in whole domains; None where there are none."""
        domains, size = self.servers[server], self.node.gpus_per_domain
        if gpus <= size:
            for domain in domains:
                if len(domain) >= gpus:
                    return self._cut(domain, gpus)
            return None
        whole = [domain for domain in domains if len(domain) == size]
        if len(whole) * size < gpus:
            return None
        found: list[int] = []
        for domain in whole:
            if len(found) < gpus:
                found += self._cut(domain, gpus - len(found))
        return found

    def take_whole(self, first: int, gpus: int) -> list[tuple[int, int]] | None:
        """GPUs of servers from ``first`` on that are all free; None where they are not."""
        size = self.node.gpus
        servers = range(first, first - (-gpus // size))
        if servers.stop > len(self.servers) or any(sum(map(len, self.servers[one])) < size for one in servers):
            return None
        found: list[tuple[int, int]] = []
        for server in servers:
            for domain in self.servers[server]:
                found += [(server, gpu) for gpu in self._cut(domain, gpus - len(found))]
        return found

    @staticmethod
    def _cut(domain: list[int], gpus: int) -> list[int]:
        taken = domain[:gpus]
        del domain[:gpus]
        return taken


def nodes_needed(node: Node, demands: Sequence[Demand]) -> int:
    """How many servers ``packed`` takes for the replicas of these demands, which all have its GPUs."""
    free = _Free(node, 0)
    for demand in demands:
        list(_packed(free, demand, grow=True))
    return len(free.servers)


def place(topology: Topology, demands: Sequence[Demand], how: str = "packed") -> list[Placed]:
    """The GPUs of every replica, pool after pool.

    Args:
        topology: the servers.
        demands: the pools.
        how: ``packed`` or ``spread``.

    Raises:
        CapacityError: there are too few servers.
    """
    free = _free(topology)
    placed: list[Placed] = []
    for demand in demands:
        group = free[demand.group]
        found = list(_spread(group, demand) if how == "spread" else _packed(group, demand))
        if len(found) < demand.replicas:
            raise _too_few(topology, demands, demand, how, len(found))
        first = _first_server(topology, demand.group)
        placed += [
            tuple(sorted(topology.servers[first + server].first + gpu for server, gpu in gpus)) for gpus in found
        ]
    return placed


def place_listed(topology: Topology, demands: Sequence[Demand], places: Sequence[Sequence[Place]]) -> list[Placed]:
    """The GPUs of every replica, as a list says.

    Args:
        topology: the servers.
        demands: the pools.
        places: for each replica, pool after pool, its GPUs, or the servers that it takes GPUs of.

    Raises:
        CapacityError: the list names what there is not, is not of the pool's hardware, or is taken twice.
    """
    wanted = [demand for demand in demands for _ in range(demand.replicas)]
    path = f"{PATH}.placement.explicit"
    if len(places) != len(wanted):
        raise CapacityError(
            "the list must say for every replica where it lies",
            path=path, found=len(places), allowed=f"{len(wanted)} entries, one for each replica",
        )  # fmt: skip
    free = _free(topology)
    return [
        _listed(topology, free, demand, entries, f"{path}.{index}")
        for index, (demand, entries) in enumerate(zip(wanted, places, strict=True))
    ]


def _free(topology: Topology) -> list[_Free]:
    return [_Free(group.node, group.nodes) for group in topology.network.groups]


def _first_server(topology: Topology, group: int) -> int:
    return sum(one.nodes for one in topology.network.groups[:group])


def _packed(free: _Free, demand: Demand, grow: bool = False) -> Iterator[list[tuple[int, int]]]:
    """The places of replicas, ``(server, GPU there)``, until there is no room."""
    start = 0
    servers = -(-demand.gpus // free.node.gpus)
    for _ in range(demand.replicas):
        # All replicas of a pool are alike: where one did not fit, the next does not either.
        while True:
            while grow and len(free.servers) < start + servers:
                free.add()
            if len(free.servers) < start + servers:
                return
            found = _fit(free, start, demand.gpus)
            if found is not None:
                yield found
                break
            start += 1


def _fit(free: _Free, server: int, gpus: int) -> list[tuple[int, int]] | None:
    if gpus > free.node.gpus:
        return free.take_whole(server, gpus)
    taken = free.take(server, gpus)
    return None if taken is None else [(server, gpu) for gpu in taken]


def _spread(free: _Free, demand: Demand) -> Iterator[list[tuple[int, int]]]:
    """The same in turn over the servers; replicas larger than a server follow each other."""
    servers = len(free.servers)
    turn = 0
    for _ in range(demand.replicas):
        for step in range(servers):
            found = _fit(free, (turn + step) % servers, demand.gpus)
            if found is not None:
                turn = (found[-1][0] + 1) % servers
                yield found
                break
        else:
            return


def _too_few(topology: Topology, demands: Sequence[Demand], demand: Demand, how: str, fit: int) -> CapacityError:
    group = topology.network.groups[demand.group]
    needed = nodes_needed(group.node, [one for one in demands if one.group == demand.group])
    each = f"{demand.gpus} GPU" + ("s" if demand.gpus > 1 else "")
    enough = needed <= group.nodes
    return CapacityError(
        f"{fit} of the {demand.replicas} replicas of pool {demand.name} fit, which have {each} each",
        path=f"{PATH}.placement" if enough else f"{PATH}.nodes",
        found=how if enough else group.nodes,
        allowed="packed, for which there are enough" if enough else f"at least {needed} nodes of {group.node.name}",
        hint=f"a node of {group.node.name} has {group.node.gpus} GPUs in domains of {group.node.gpus_per_domain}",
    )


def _listed(topology: Topology, free: Sequence[_Free], demand: Demand, entries: Sequence[Place], path: str) -> Placed:
    """The GPUs of one replica."""
    servers = [entry if isinstance(entry, int) else entry[0] for entry in entries]
    for server in servers:
        _check_server(topology, demand, server, path)
    whole = [entry for entry in entries if isinstance(entry, int)]
    if whole and (len(whole) < len(entries) or demand.gpus % len(whole)):
        raise CapacityError(
            f"a replica of pool {demand.name} has {demand.gpus} GPUs, as many of each node that is named",
            path=path, found=[entry if isinstance(entry, int) else list(entry) for entry in entries],
            allowed="nodes that divide its GPUs, or GPUs as [node, gpu]",
        )  # fmt: skip
    if not whole and len(entries) != demand.gpus:
        raise CapacityError(
            f"a replica of pool {demand.name} has {demand.gpus} GPUs",
            path=path, found=[list(entry) for entry in entries if not isinstance(entry, int)],
            allowed=f"{demand.gpus} pairs of [node, gpu], or nodes",
        )  # fmt: skip
    first, group = _first_server(topology, demand.group), free[demand.group]
    found: list[int] = []
    for entry in entries:
        server = entry if isinstance(entry, int) else entry[0]
        taken = (
            group.take(server - first, demand.gpus // len(whole))
            if isinstance(entry, int)
            else _take_one(group.servers[server - first], entry[1])
        )
        if taken is None:
            raise CapacityError(
                "these GPUs are taken by another replica, or there are no such GPUs",
                path=path, found=entry if isinstance(entry, int) else list(entry),
                allowed=f"free GPUs, numbered from 0 to {group.node.gpus - 1} on each node",
            )  # fmt: skip
        found += [topology.servers[server].first + gpu for gpu in taken]
    return tuple(sorted(found))


def _take_one(domains: list[list[int]], gpu: int) -> list[int] | None:
    for domain in domains:
        if gpu in domain:
            domain.remove(gpu)
            return [gpu]
    return None


def _check_server(topology: Topology, demand: Demand, server: int, path: str) -> None:
    known = [one.index for one in topology.servers if one.group == demand.group]
    if server not in known:
        raise CapacityError(
            f"pool {demand.name} can lie on nodes {known[0]} to {known[-1]} only",
            path=path, found=server, allowed=f"a node from {known[0]} to {known[-1]}",
        )  # fmt: skip
