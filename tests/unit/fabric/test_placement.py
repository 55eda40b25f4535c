"""Replicas on servers, by hand and by rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.fabric.clusters import group, topology

from servetwin.errors import CapacityError
from servetwin.fabric.placement import Demand, Place, nodes_needed, place, place_listed


def demand(replicas: int, gpus: int, group: int = 0, name: str = "engines") -> Demand:
    return Demand(name, group, replicas, gpus)


def test_packed_fills_one_domain_after_the_other() -> None:
    """Three GPUs each: two replicas in a domain of 8, and the two GPUs that are left stay free."""
    placed = place(topology(group(2)), [demand(3, 3)])
    assert placed == [(0, 1, 2), (3, 4, 5), (8, 9, 10)]


def test_packed_fills_gaps_with_another_pool() -> None:
    placed = place(topology(group(2)), [demand(3, 3), demand(2, 2, name="small")])
    assert placed[3:] == [(6, 7), (11, 12)]


def test_spread_deals_out_in_turn() -> None:
    placed = place(topology(group(3)), [demand(4, 2)], "spread")
    assert placed == [(0, 1), (8, 9), (16, 17), (2, 3)]


def test_a_replica_larger_than_a_domain_takes_whole_ones_of_one_server() -> None:
    """Domains of two; the first server has a domain that is not whole."""
    placed = place(topology(group(2, per_domain=2)), [demand(1, 1), demand(2, 4, name="large")])
    assert placed == [(0,), (2, 3, 4, 5), (8, 9, 10, 11)]


def test_a_replica_larger_than_a_server_takes_whole_servers() -> None:
    placed = place(topology(group(4)), [demand(1, 1), demand(1, 12, name="large"), demand(1, 4, name="rest")])
    assert placed == [(0,), tuple(range(8, 20)), (1, 2, 3, 4)]


def test_each_pool_lies_on_its_hardware() -> None:
    cluster = topology(group(1), group(2, gpus=4, per_domain=4, name="other"))
    placed = place(cluster, [demand(1, 8), demand(2, 4, group=1, name="second")])
    assert placed == [tuple(range(8)), (8, 9, 10, 11), (12, 13, 14, 15)]


@pytest.mark.parametrize(
    ("demands", "needed"),
    [
        ([demand(8, 1)], 1),
        ([demand(9, 1)], 2),
        ([demand(3, 3)], 2),
        ([demand(3, 5)], 3),
        ([demand(1, 1), demand(1, 12)], 3),
        ([demand(1, 16), demand(1, 1)], 3),
        ([demand(256, 8)], 256),
    ],
)
def test_how_many_nodes_it_takes(demands: list[Demand], needed: int) -> None:
    assert nodes_needed(group(1).node, demands) == needed
    place(topology(group(needed)), demands)
    if needed > 1:
        with pytest.raises(CapacityError, match="fit") as caught:
            place(topology(group(needed - 1)), demands)
        assert caught.value.path == "cluster.topology.nodes"
        assert caught.value.found == needed - 1
        assert caught.value.allowed == f"at least {needed} nodes of server of gpu"


def test_what_spreading_scatters_may_fit_when_packed() -> None:
    """Five GPUs on each of two servers are taken by single ones: no room for six together."""
    demands = [demand(6, 1), demand(1, 6, name="large")]
    place(topology(group(2)), demands)
    with pytest.raises(CapacityError) as caught:
        place(topology(group(2)), demands, "spread")
    assert caught.value.path == "cluster.topology.placement"
    assert caught.value.found == "spread"


def test_a_list_says_it_by_gpu_or_by_node() -> None:
    cluster = topology(group(2))
    assert place_listed(cluster, [demand(2, 2)], [[(0, 5), (1, 5)], [1]]) == [(5, 13), (8, 9)]
    assert place_listed(cluster, [demand(1, 16)], [[0, 1]]) == [tuple(range(16))]
    assert place_listed(cluster, [demand(1, 4)], [[0, 1]]) == [(0, 1, 8, 9)]


@pytest.mark.parametrize(
    ("places", "path", "message"),
    [
        ([[0]], "explicit", "for every replica"),
        ([[0], [2]], "explicit.1", "nodes 0 to 1"),
        ([[0], [(0, 0), (0, 8)]], "explicit.1", "taken"),
        ([[0], [(0, 0), (0, 1)]], "explicit.1", "taken"),
        ([[0], [(1, 0)]], "explicit.1", "has 2 GPUs"),
        ([[0], [0, (0, 7)]], "explicit.1", "as many of each node"),
        ([[0], [0, 1, 1]], "explicit.1", "as many of each node"),
    ],
)
def test_what_a_list_must_not_say(places: list[list[Place]], path: str, message: str) -> None:
    with pytest.raises(CapacityError, match=message) as caught:
        place_listed(topology(group(2)), [demand(2, 2)], places)
    assert caught.value.path == f"cluster.topology.placement.{path}"


def test_a_list_must_not_put_a_pool_on_other_hardware() -> None:
    cluster = topology(group(1), group(1, name="other"))
    with pytest.raises(CapacityError, match="pool b can lie on nodes 1 to 1 only"):
        place_listed(cluster, [demand(1, 1, name="a"), demand(1, 1, group=1, name="b")], [[0], [0]])


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 24)), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["packed", "spread"]),
)
def test_nobody_shares_a_gpu_or_straddles_without_need(pools: list[tuple[int, int]], per_domain: int, how: str) -> None:
    demands = [demand(replicas, gpus, name=str(i)) for i, (replicas, gpus) in enumerate(pools)]
    cluster = topology(group(nodes_needed(group(1, per_domain=per_domain).node, demands), per_domain=per_domain))
    try:
        placed = place(cluster, demands, how)
    except CapacityError:
        assert how == "spread"
        return
    sizes = [one.gpus for one in demands for _ in range(one.replicas)]
    assert [len(gpus) for gpus in placed] == sizes
    everything = [gpu for gpus in placed for gpu in gpus]
    assert len(set(everything)) == len(everything)
    for gpus in placed:
        span = cluster.span(gpus)
        assert span.domains == -(-len(gpus) // per_domain)
        servers = {cluster.server(gpu).index for gpu in gpus}
        assert len(servers) == -(-len(gpus) // 8)
