"""Bytes of collectives: the formulas against walks along rings and trees, and against the time that is priced."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from servetwin.catalog.find import Catalog
from servetwin.physics.collectives import AllGather, AllReduce
from servetwin.physics.collectives.traffic import (
    RING,
    SHARDED_RING,
    SHARDED_TREE,
    SHORT_RING,
    SWITCH,
    TREE,
    Traffic,
    all_reduce_traffic,
    gather_traffic,
    tree_edges,
)
from servetwin.specs.span import Span

CATALOG = Catalog()
SIZES = [2**power for power in range(10, 35)]


def nic_out(traffic: Traffic) -> list[float]:
    """By domain, what leaves through all its NICs."""
    out = [0.0] * len(traffic.ports)
    for lane in traffic.lanes:
        out[lane.source] += traffic.abreast * lane.share
    return out


def nic_in(traffic: Traffic) -> list[float]:
    into = [0.0] * len(traffic.ports)
    for lane in traffic.lanes:
        into[lane.target] += traffic.abreast * lane.share
    return into


@pytest.mark.parametrize("per_domain", [(2,), (8,), (8, 8), (4, 4, 4), (1, 1), (8, 4), (3, 1, 2)])
def test_a_ring_counted_edge_by_edge(per_domain: tuple[int, ...]) -> None:
    """Each of n parts of a ring's share goes over n − 1 of its edges to be added up, and again to be spread."""
    gpus = [(domain, place) for domain, count in enumerate(per_domain) for place in range(count)]
    rings = min(per_domain) if len(per_domain) > 1 else 1
    inside: Counter[int] = Counter()
    across: Counter[tuple[int, int]] = Counter()
    for _ in range(rings):
        for (a, _), (b, _) in pairwise([*gpus, gpus[0]]):
            moved = 2 * (len(gpus) - 1) / len(gpus) / rings
            if a == b:
                inside[a] += moved
            else:
                across[a, b] += moved
    traffic = all_reduce_traffic(RING, per_domain)
    assert [port * count for port, count in zip(traffic.ports, per_domain, strict=True)] == pytest.approx(
        [inside[domain] for domain in range(len(per_domain))]
    )
    lanes = {(lane.source, lane.target): rings * lane.share for lane in traffic.lanes}
    assert lanes == pytest.approx(dict(across))
    once, twice = gather_traffic(RING, per_domain), gather_traffic(SHORT_RING, per_domain)
    assert once.ports == pytest.approx([port / 2 for port in traffic.ports])
    assert nic_out(once) == pytest.approx([out / 2 for out in nic_out(traffic)])
    assert nic_out(twice) == pytest.approx(nic_out(traffic))


def test_by_hand() -> None:
    """Sixteen GPUs in two nodes: what the documentation has."""
    ring = all_reduce_traffic(RING, (8, 8))
    assert (ring.ports[0], nic_out(ring)[0] / 8) == (7 / 8 * 30 / 16, 30 / 16 / 8)
    tree = all_reduce_traffic(TREE, (8, 8))
    assert (tree.ports[0], nic_out(tree)[0] / 8) == (2 * 2 * 7 / 8, 2 / 8)
    shards = all_reduce_traffic(SHARDED_RING, (8, 8))
    assert (shards.ports[0], nic_out(shards)[0] / 8) == (2 * 7 / 8, 1 / 8)
    shards = all_reduce_traffic(SHARDED_TREE, (8, 8))
    assert (shards.ports[0], nic_out(shards)[0] / 8) == (2 * 7 / 8, 2 / 8)
    assert all_reduce_traffic(SWITCH, (8,)).ports == (1.0,)
    # A group in one domain, whatever the widest group of the replica does.
    assert all_reduce_traffic(TREE, (4,)).ports == all_reduce_traffic(RING, (4,)).ports == (1.5,)


@pytest.mark.parametrize("domains", range(2, 40))
def test_the_two_trees(domains: int) -> None:
    """Each spans all domains with at most two children a domain, and no domain has more to send than is priced."""
    edges = tree_edges(domains)
    for tree in (edges[: domains - 1], edges[domains - 1 :]):
        parent = dict(tree)
        assert len(parent) == domains - 1
        assert max(Counter(parent.values()).values()) <= 2
        for place in range(domains):
            way = [place]
            while way[-1] in parent:
                way.append(parent[way[-1]])
                assert len(way) <= domains
            assert way[-1] == ({*range(domains)} - parent.keys()).pop()
    if domains % 2 == 0:
        inner = [{parent for _, parent in tree} for tree in (edges[: domains - 1], edges[domains - 1 :])]
        assert not inner[0] & inner[1]
    traffic = all_reduce_traffic(TREE, (4,) * domains)
    # Two bytes on the wire for one; the price has 4 / g for each NIC.
    assert sum(nic_out(traffic)) == pytest.approx(2 * 2 * (domains - 1))
    assert max(*nic_out(traffic), *nic_in(traffic)) <= 4 + 1e-9


SPANS = [
    Span(16, 2, (8, 8), 450e9, 50e9, 5e-6),
    Span(32, 4, (8, 8, 8, 8), 450e9, 50e9, 5e-6),
    Span(8, 2, (4, 4), 450e9, 25e9, 5e-6),
    Span(6, 2, (4, 2), 450e9, 50e9, 5e-6),
    Span(8, 8, (1,) * 8, 32e9, 32e9, 2e-6),
]


@pytest.mark.parametrize("name", ["h100-sxm", "h200-sxm", "a100-sxm-80gb", "b200-sxm", "gb200-nvl72", "l40s"])
def test_no_link_carries_more_than_it_can_while_a_collective_runs(name: str) -> None:
    gpu, calibration = CATALOG.gpu(name), CATALOG.calibration("default")
    seen = set()
    for span in [*(Span(n, 1, (n,), gpu.link_bytes_per_s) for n in (2, 3, 4, 8)), *SPANS]:
        reduce, gather = (kind(gpu, span.gpus, calibration, span) for kind in (AllReduce, AllGather))
        for size in SIZES:
            seen.add(reduce.route(size))
            for traffic, seconds in (
                (all_reduce_traffic(reduce.route(size), span.per_domain), reduce.seconds(size)),
                (gather_traffic(gather.route(size), span.per_domain), gather.seconds(size)),
            ):
                assert max(traffic.ports) * size <= span.inside_bytes_per_s * seconds * (1 + 1e-9)
                nic = max([*nic_out(traffic), *nic_in(traffic)]) / traffic.abreast
                assert nic * size <= span.across_bytes_per_s * seconds * (1 + 1e-9)
    assert {RING, TREE} <= seen
    # Eight H100 and H200 reduce 1 GiB faster than GPUs that add up can; a switch does it.
    assert (SWITCH in seen) == (name in ("h100-sxm", "h200-sxm"))
    assert bool({SHARDED_RING, SHARDED_TREE} & seen) == gpu.switch_reduces


def test_traffic_of_others_does_not_change_the_algorithm() -> None:
    """Half the bandwidth takes longer, and never less than the same algorithm with the links to itself."""
    gpu, calibration = CATALOG.gpu("h100-sxm"), CATALOG.calibration("default")
    for kind in (AllReduce, AllGather):
        one = kind(gpu, 16, calibration, SPANS[0])
        turned = [size for size in SIZES if one.route(size) != one.route(2 * size)]
        assert turned
        for size in turned:
            assert one.seconds(size) < one.seconds(size, 0.5)
            # The other algorithm would have been the cheaper one for twice the bytes.
            assert one.seconds(2 * size) <= one.seconds(size, 0.5)
