"""How many bytes a collective sends over the links of its GPUs, by algorithm: the only place that says so.

Everything is per byte of the message: the tensor that is added up, or what every GPU holds in the end. A group of n
GPUs lies in d link domains of k GPUs each; g of the NICs of each domain work side by side, as many as the smallest
domain has GPUs. A NIC stands for whatever joins the domains: in one server it is PCIe.

Sources:
    P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel Distrib.
        Comput. 69(2), 2009: the ring, ``2 (n − 1)/n`` out of and into every GPU, and that no GPU can do with less as
        long as GPUs add up.
    P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
        Computing 35(12), 2009: the two trees, each with half of the message, as NCCL builds them.
    Z. Hu et al., "Demystifying NCCL", arXiv 2507.04786: the low-latency protocol, two bytes on the wire for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from servetwin.physics.collectives.wires import LOW_LATENCY

RING, TREE, SHARDED_RING, SHARDED_TREE = "ring", "tree", "hierarchical-ring", "hierarchical-tree"
"""Routes of an all-reduce. The hierarchical ones differ in what the domains do with their shards."""

SWITCH = "switch"
"""An all-reduce inside a domain in which the switch adds up."""

SHORT_RING = "ring-ll"
"""A ring with the low-latency protocol, of an all-gather."""

SEND = "send"
"""From one GPU to another: the message, once over the way between them."""


class Lane(NamedTuple):
    """What goes from one domain to another.

    Attributes:
        source, target: the domains, as places in the group.
        share: over each NIC [B per byte of the message].
    """

    source: int
    target: int
    share: float


class Traffic(NamedTuple):
    """What one byte of a message makes the links of a group carry.

    Attributes:
        ports: for each domain, what goes out of the port of each of its GPUs, and as much into it [B per byte].
        lanes: what goes between domains.
        abreast: NICs in each domain that the lanes use: those of its first GPUs, the n-th to the n-th.
    """

    ports: tuple[float, ...]
    lanes: tuple[Lane, ...]
    abreast: int


def all_reduce_traffic(route: str, per_domain: Sequence[int]) -> Traffic:
    """What an all-reduce sends.

    * ``ring``: ``2 (n − 1)/n`` over every edge of the ring. Between domains g rings run side by side, each with its
      part of the message, out of a domain and into the next through a NIC of their own and past all k GPUs in it:
      ``(k − 1)/k`` of that through each port, ``1/g`` through each NIC.
    * ``switch``: the tensor out of each GPU once, the sum into it once.
    * ``tree``: in each of two trees over the domains half of the message goes up every edge, and half down; inside a
      domain a chain joins its GPUs. All of it in the low-latency protocol.
    * ``hierarchical-…``: reduce-scatter and all-gather inside, ``(k − 1)/k`` each; between them shards of ``1/g`` go
      over each NIC, round a ring of the domains or along the trees.

    Args:
        route: the algorithm.
        per_domain: GPUs of the group in each domain, in the order of the ranks.
    """
    domains, abreast = len(per_domain), min(per_domain)
    if domains == 1:
        return Traffic((1.0 if route == SWITCH else 2.0 * _others(per_domain[0]),), (), abreast)
    if route == RING:
        return _round(2.0 * _others(sum(per_domain)), per_domain)
    inside = 2.0 * LOW_LATENCY if route == TREE else 2.0
    if route == SHARDED_RING:
        lanes = _ring(domains, 2.0 * _others(domains) / abreast)
    else:
        lanes = _trees(domains, LOW_LATENCY / abreast)
    return Traffic(tuple(inside * _others(gpus) for gpus in per_domain), lanes, abreast)


def gather_traffic(route: str, per_domain: Sequence[int]) -> Traffic:
    """What an all-gather sends: once round the ring, ``(n − 1)/n``; twice the bytes in the low-latency protocol.

    Args:
        route: ``ring`` or ``ring-ll``.
        per_domain: GPUs of the group in each domain, in the order of the ranks.
    """
    once = LOW_LATENCY if route == SHORT_RING else 1.0
    return _round(once * _others(sum(per_domain)), per_domain)


def _others(gpus: int) -> float:
    """``(n − 1)/n``."""
    return (gpus - 1) / gpus


def _round(moved: float, per_domain: Sequence[int]) -> Traffic:
    """``moved`` [B per byte] over every edge of the rings through all GPUs."""
    domains, abreast = len(per_domain), min(per_domain)
    if domains == 1:
        return Traffic((moved,), (), abreast)
    ports = tuple(moved * _others(gpus) for gpus in per_domain)
    return Traffic(ports, _ring(domains, moved / abreast), abreast)


def _ring(domains: int, share: float) -> tuple[Lane, ...]:
    return tuple(Lane(place, (place + 1) % domains, share) for place in range(domains))


def _trees(domains: int, share: float) -> tuple[Lane, ...]:
    """``share`` [B per byte] up and down two trees, half in each."""
    return tuple(
        lane
        for child, parent in tree_edges(domains)
        for lane in (Lane(child, parent, share / 2), Lane(parent, child, share / 2))
    )


def tree_edges(domains: int) -> list[tuple[int, int]]:
    """``(child, parent)`` of both trees over so many domains; a domain with children in one is a leaf of the other.

    In the first, the parent of a place that ``2^b`` divides, and no higher power of two, differs from it in the bits b
    and b + 1. The second is its mirror image, or for an odd number the same moved on by one.

    Args:
        domains: how many, at least 2.
    """
    first = [(place, _parent(place, domains)) for place in range(1, domains)]
    if domains % 2:
        return first + [((child + 1) % domains, (parent + 1) % domains) for child, parent in first]
    return first + [(domains - 1 - child, domains - 1 - parent) for child, parent in first]


def _parent(place: int, domains: int) -> int:
    low = place & -place
    parent = (place ^ low) | (low << 1)
    return parent if parent < domains else place ^ low
