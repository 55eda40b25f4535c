"""Paths between GPUs, link by link."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.fabric.clusters import GB, NIC, group, latency_us, names, topology

from servetwin.specs import Span


def test_inside_a_link_domain_it_is_the_two_ports() -> None:
    cluster = topology(group(2))
    path = cluster.path(0, 3)
    assert names(cluster, path) == ["node0/gpu0/link-out", "node0/gpu3/link-in"]
    assert latency_us(cluster, path) == 10
    assert cluster.hops(0, 3) == 0
    assert cluster.path(0, 0) == ()


def test_inside_a_server_without_nvlink_it_is_pcie() -> None:
    cluster = topology(group(1, per_domain=2))
    assert names(cluster, cluster.path(0, 1)) == ["node0/gpu0/link-out", "node0/gpu1/link-in"]
    assert names(cluster, cluster.path(0, 2)) == ["node0/gpu0/pcie-out", "node0/gpu2/pcie-in"]
    assert latency_us(cluster, cluster.path(0, 2)) == 10
    assert cluster.hops(0, 2) == 0


def test_without_even_that_it_is_the_network() -> None:
    cluster = topology(group(1, per_domain=4, host=None))
    assert names(cluster, cluster.path(0, 4)) == ["node0/gpu0/nic-out", "node0/gpu4/nic-in"]
    assert cluster.hops(0, 4) == 1


def test_behind_one_leaf_it_is_the_two_nics() -> None:
    cluster = topology(group(2))
    path = cluster.path(1, 8 + 2)
    assert names(cluster, path) == ["node0/gpu1/nic-out", "node1/gpu2/nic-in"]
    assert latency_us(cluster, path) == 5.3
    assert cluster.hops(1, 10) == 1


def test_another_rack_is_reached_over_the_spine() -> None:
    cluster = topology(group(4), nodes_per_rack=2, oversubscription=4)
    path = cluster.path(0, 16)
    assert names(cluster, path) == ["node0/gpu0/nic-out", "rack0/spine-up", "rack1/spine-down", "node2/gpu0/nic-in"]
    assert latency_us(cluster, path) == 5.9
    assert cluster.hops(0, 16) == 3
    assert cluster.racks == 2
    # 16 NICs of 50 GB/s, of which a quarter.
    assert cluster.links[path[1]].bytes_per_s == cluster.links[path[2]].bytes_per_s == 200 * GB


def test_a_rail_is_one_hop() -> None:
    cluster = topology(group(2), rail_optimised=True)
    assert names(cluster, cluster.path(3, 8 + 3)) == ["node0/gpu3/nic-out", "node1/gpu3/nic-in"]
    assert cluster.hops(3, 11) == 1


def test_another_rail_is_reached_by_way_of_the_gpu_on_it() -> None:
    """PXN: over NVLink to the own server's GPU on the rail of the other, whose NIC sends."""
    cluster = topology(group(2), rail_optimised=True)
    path = cluster.path(1, 8 + 6)
    assert names(cluster, path) == [
        "node0/gpu1/link-out", "node0/gpu6/link-in", "node0/gpu6/nic-out", "node1/gpu6/nic-in",
    ]  # fmt: skip
    assert latency_us(cluster, path) == 15.3
    assert cluster.hops(1, 14) == 1


def test_without_nvlink_another_rail_is_reached_over_the_spine() -> None:
    cluster = topology(group(2, per_domain=1), rail_optimised=True)
    path = cluster.path(1, 8 + 6)
    assert names(cluster, path) == [
        "node0/gpu1/nic-out", "rack0/rail1/spine-up", "rack0/rail6/spine-down", "node1/gpu6/nic-in",
    ]  # fmt: skip
    assert cluster.hops(1, 14) == 3


def test_rails_have_links_to_the_spine_of_their_own() -> None:
    cluster = topology(group(4), nodes_per_rack=2, rail_optimised=True, oversubscription=2)
    path = cluster.path(1, 16 + 6)
    assert names(cluster, path) == [
        "node0/gpu1/link-out", "node0/gpu6/link-in", "node0/gpu6/nic-out", "rack0/rail6/spine-up",
        "rack1/rail6/spine-down", "node2/gpu6/nic-in",
    ]  # fmt: skip
    assert cluster.links[path[3]].bytes_per_s == 2 * 50 * GB / 2


def test_servers_of_different_kinds_have_racks_of_their_own() -> None:
    cluster = topology(group(2), group(2, gpus=4, per_domain=1, name="small"), nodes_per_rack=4)
    assert [server.rack for server in cluster.servers] == [0, 0, 1, 1]
    assert cluster.gpus == 24
    assert cluster.hops(0, 16) == 3
    assert cluster.server(20).index == 3


def test_a_span_by_hand() -> None:
    cluster = topology(group(4), nodes_per_rack=2, oversubscription=4)
    assert cluster.span([0]) == Span(1, 1, (1,), 450 * GB)
    assert cluster.span(range(8)) == Span(8, 1, (8,), 450 * GB)
    one_rack = cluster.span(range(12))
    assert (one_rack.domains, one_rack.per_domain) == (2, (8, 4))
    assert (one_rack.across_bytes_per_s, one_rack.across_latency_s) == (50 * GB, pytest.approx(5.3e-6))
    two_racks = cluster.span(range(8, 24))
    assert two_racks.domains == 2
    assert (two_racks.across_bytes_per_s, two_racks.across_latency_s) == (12.5 * GB, pytest.approx(5.9e-6))


def test_domains_of_one_server_are_joined_by_pcie() -> None:
    span = topology(group(1, per_domain=2)).span(range(4))
    assert (span.domains, span.per_domain) == (2, (2, 2))
    assert (span.across_bytes_per_s, span.across_latency_s) == (64 * GB, 10e-6)


@pytest.mark.parametrize(
    ("gpus", "kinds"),
    [
        (range(1), set()),
        (range(2), {"link-out", "link-in"}),
        ([0, 8], {"nic-out", "nic-in"}),
        ([0, 1, 8, 9], {"link-out", "link-in", "nic-out", "nic-in"}),
        ([0, 16], {"nic-out", "nic-in", "spine-up", "spine-down"}),
    ],
)  # fmt: skip
def test_the_links_of_collectives(gpus: list[int], kinds: set[str]) -> None:
    cluster = topology(group(4), nodes_per_rack=2)
    links = cluster.collective_links(gpus)
    assert {name.rsplit("/", 1)[1] for name in names(cluster, links)} == kinds
    assert list(links) == sorted(set(links))


def test_a_link_to_the_spine_counts_for_each_nic_below_it() -> None:
    cluster = topology(group(4), nodes_per_rack=2, oversubscription=4)
    found = names(cluster, cluster.collective_links([0, 1, 2, 16]))
    assert [found.count(f"rack{rack}/spine-up") for rack in (0, 1)] == [3, 1]
    lanes = {link.name: link.lanes for link in cluster.links}
    assert (lanes["rack0/spine-up"], lanes["rack0/spine-down"], lanes["node0/gpu0/nic-out"]) == (16, 16, 1)
    assert {one.lanes for one in topology(group(4), nodes_per_rack=2, rail_optimised=True).links} == {1, 2}


def test_collectives_in_one_server_without_nvlink_use_pcie() -> None:
    cluster = topology(group(1, per_domain=1))
    assert {name.rsplit("/", 1)[1] for name in names(cluster, cluster.collective_links([0, 1]))} == {
        "pcie-out", "pcie-in",
    }  # fmt: skip


@given(st.data())
def test_every_path_leads_from_one_to_the_other(data: st.DataObject) -> None:
    """It begins at the one and ends at the other, takes no link twice, and has at most one NIC at each end."""
    cluster = topology(
        group(data.draw(st.integers(1, 4)), per_domain=data.draw(st.sampled_from([1, 2, 8]))),
        group(data.draw(st.integers(1, 2)), gpus=4, per_domain=4, name="other"),
        nodes_per_rack=data.draw(st.sampled_from([0, 1, 2])),
        rail_optimised=data.draw(st.booleans()),
        oversubscription=data.draw(st.sampled_from([1, 2.5])),
    )
    a, b = (data.draw(st.integers(0, cluster.gpus - 1)) for _ in range(2))
    path = names(cluster, cluster.path(a, b))
    if a == b:
        assert not path
        return
    ends = [f"node{cluster.server(g).index}/gpu{g - cluster.server(g).first}/" for g in (a, b)]
    assert path[0].startswith(ends[0])
    assert path[-1].startswith(ends[1])
    assert len(set(path)) == len(path)
    assert sum("nic-out" in name for name in path) == sum("nic-in" in name for name in path) <= 1
    assert cluster.hops(a, b) == cluster.hops(b, a)
    slowest = min(cluster.links[link].bytes_per_s for link in cluster.path(a, b))
    assert slowest <= (NIC.bytes_per_s if cluster.hops(a, b) else 450 * GB)
