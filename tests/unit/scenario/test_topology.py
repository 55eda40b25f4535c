"""``cluster.topology``: what it fills in, what it refuses, and what others send during a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError, InputError, ScenarioError
from servetwin.kernel import events_popped
from servetwin.results import load as load_result
from servetwin.scenario.build import build
from servetwin.scenario.load import LoadedScenario
from servetwin.scenario.resolve import resolve
from servetwin.scenario.store import config_hash, to_mapping

Load = Callable[..., LoadedScenario]

STRADDLING = {"explicit": [[0, 1], [0, 1]]}
"""Two replicas of eight GPUs, each of which takes four of both nodes."""


@pytest.fixture
def wide(base: dict[str, Any]) -> dict[str, Any]:
    """Two replicas of eight GPUs."""
    base["cluster"] |= {"replicas": 2, "parallel": {"tensor": 8}}
    return base


def with_topology(base: dict[str, Any], **topology: Any) -> dict[str, Any]:
    base["cluster"]["topology"] = topology
    return base


# -- what it fills in --------------------------------------------------------------------------------------------


def test_what_is_left_out_comes_from_the_pools(load_it: Load, wide: dict[str, Any]) -> None:
    topology = to_mapping(load_it(with_topology(wide, nodes_per_rack=1)).scenario)["cluster"]["topology"]
    assert topology == {
        "node": "hgx-h100", "nodes": 2, "nodes_per_rack": 1, "rail_optimised": False, "oversubscription": 1.0,
        "hop_latency_us": 0.3, "placement": "packed",
    }  # fmt: skip


def test_a_resolved_topology_resolves_to_itself(load_it: Load, wide: dict[str, Any], catalog: Catalog) -> None:
    background = [{"from": [0, 1], "to": 1, "gigabytes": 1.5, "every_s": 0.5}]
    resolved = load_it(
        with_topology(wide, placement=STRADDLING, nodes_per_rack=1, background=background, nic="HDR")
    ).scenario
    again, idle = resolve(resolved, catalog)
    assert (again, idle) == (resolved, [])
    mapping = to_mapping(resolved)
    assert mapping["cluster"]["topology"]["background"] == [
        {"from": [0, 1], "to": 1, "gigabytes": 1.5, "start_s": 0.0, "every_s": 0.5}
    ]
    assert mapping["cluster"]["topology"]["nic"] == "ib-hdr-200"
    assert load_it(mapping).scenario == resolved


def test_without_a_topology_replicas_are_packed(load_it: Load, base: dict[str, Any]) -> None:
    """And nothing is said about servers in the resolved scenario."""
    base["cluster"] |= {"replicas": 3, "parallel": {"tensor": 4}}
    scenario = load_it(base).scenario
    assert "topology" not in to_mapping(scenario)["cluster"]
    simulation = build(scenario)
    assert simulation.network.fabric is None
    assert simulation.network.layout.placed == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11))
    assert simulation.network.layout.topology.gpus == 16
    assert simulation.network.layout.span(2).inside_bytes_per_s == 450e9


@pytest.mark.parametrize(("hardware", "domains"), [("l40s", 4), ("rtx-4090", 1), ("h100-nvl", 1)])
def test_gpus_without_a_server_or_nvlink(load_it: Load, base: dict[str, Any], hardware: str, domains: int) -> None:
    """Where the catalogue has no server, its size is that of the link domain."""
    base["cluster"] |= {"hardware": hardware, "replicas": 2, "parallel": {"tensor": 2 if hardware == "h100-nvl" else 4}}
    base["cluster"]["engine"] = {"max_model_len": 2048}
    assert build(load_it(base).scenario).network.layout.span(1).domains == domains


def test_pools_with_different_gpus_have_servers_of_their_own(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"] = {
        "pools": [
            {"name": "a", "hardware": "h100-sxm", "replicas": 3},
            {"name": "b", "hardware": "l40s", "replicas": 2, "parallel": {"tensor": 2}},
        ],
        "engine": {"max_model_len": 2048},
        "topology": {"nodes": {"H100-SXM": 2}, "placement": "spread"},
    }
    scenario = load_it(base).scenario
    topology = to_mapping(scenario)["cluster"]["topology"]
    assert topology["node"] == {"h100-sxm": "hgx-h100", "l40s": "l40s-8x"}
    assert topology["nodes"] == {"h100-sxm": 2, "l40s": 1}
    layout = build(scenario).network.layout
    assert layout.placed == ((0,), (8,), (1,), (16, 17), (18, 19))
    assert layout.span(4).across_bytes_per_s == 32e9
    base["cluster"]["topology"]["nodes"] = 2
    with pytest.raises(ScenarioError, match="different GPUs") as caught:
        load_it(base)
    assert caught.value.path == "cluster.topology.nodes"


# -- what it refuses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "path", "message"),
    [
        ({"nodes": 1}, "nodes", "1 of the 2 replicas of pool engines fit"),
        ({"nodes": 0}, "nodes", "a number at least 1, or a mapping"),
        ({"node": "dgx-h2000"}, "node", "no node of that name"),
        ({"node": "dgx-h200"}, "node", "the GPUs of hgx-h200 are h200-sxm, not the h100-sxm"),
        ({"nodes": {"h200-sxm": 2}}, "nodes.h200-sxm", "no pool has this GPU"),
        ({"nic": "carrier-pigeon", "nodes": 3}, "nic", "no link of that name"),
        ({"oversubscription": 0.5}, "oversubscription", "out of range"),
        ({"placement": "round"}, "placement", "none of the values|unknown value"),
        ({"placement": {"explicit": [[0]]}}, "placement.explicit", "for every replica"),
        ({"placement": {"explicit": [[0], [[0, 3]]]}}, "placement.explicit.1", "has 8 GPUs"),
        ({"background": [{"from": 0, "to": 9, "gigabytes": 1}]}, "background.0.to", "no such node"),
        ({"background": [{"from": [0, 8], "to": 1, "gigabytes": 1}]}, "background.0.from", "no such GPU"),
        ({"background": [{"from": [0, 1], "to": [0, 1], "gigabytes": 1}]}, "background.0.to", "one GPU to another"),
        ({"background": [{"from": 0, "gigabytes": 1}]}, "background.0.to", "missing"),
        ({"background": [{"from": 0, "to": 1, "gigabytes": 1e-10}]}, "background.0.gigabytes", "out of range"),
        ({"background": [{"from": 0, "to": 1, "gigabytes": 1e300}]}, "background.0.gigabytes", "out of range"),
        ({"background": [{"from": 0, "to": 1, "gigabytes": 1e-9, "every_s": 1e-6}]}, "background.0.every_s", "range"),
        ({"nodes": 100_000}, "nodes", "none of the values"),
        ({"background": [{"form": 0, "to": 1, "gigabytes": 1}]}, "background.0.form", "unknown field|missing"),
        ({"rails": True}, "rails", "unknown field"),
    ],
)
def test_mistakes_are_named(
    topology: dict[str, Any], path: str, message: str, load_it: Load, wide: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_it(with_topology(wide, **topology))
    places = [caught.value.path, *(caught.value.hint or "").split()]
    assert any(str(place).startswith(f"cluster.topology.{path}") for place in places), caught.value


def test_too_few_nodes_says_how_many_would_do(load_it: Load, wide: dict[str, Any]) -> None:
    wide["cluster"]["replicas"] = 5
    with pytest.raises(CapacityError) as caught:
        load_it(with_topology(wide, nodes=3))
    assert caught.value.found == 3
    assert caught.value.allowed == "at least 5 nodes of hgx-h100"
    assert caught.value.hint == "a node of hgx-h100 has 8 GPUs in domains of 8"


IDLE: dict[str, tuple[dict[str, Any], str]] = {
    "racks-of-one": ({"nodes_per_rack": 4}, "nodes_per_rack"),
    "rails-in-one-node": ({"rail_optimised": True, "nodes": 1}, "rail_optimised"),
    "nic-in-one-node": ({"nic": "HDR", "nodes": 1}, "nic"),
    "hops-in-one-node": ({"hop_latency_us": 1, "nodes": 1}, "hop_latency_us"),
    "oversubscription-without-spine": ({"oversubscription": 2}, "oversubscription"),
    "spread-like-packed": ({"placement": "spread"}, "placement"),
    "background-that-nobody-meets": ({"background": [{"from": 0, "to": 1, "gigabytes": 1}]}, "background.0"),
}


@pytest.mark.parametrize("check", IDLE)
def test_what_has_no_effect_is_an_error_in_a_file(check: str, load_it: Load, wide: dict[str, Any]) -> None:
    topology, field = IDLE[check]
    wide["cluster"]["replicas"] = topology.get("nodes", 2)
    with pytest.raises(ScenarioError, match="no effect") as caught:
        load_it(with_topology(wide, **topology))
    assert caught.value.path == f"cluster.topology.{field}"


def test_oversubscription_needs_somebody_who_leaves_a_rack(load_it: Load, wide: dict[str, Any]) -> None:
    racks = {"nodes": 2, "nodes_per_rack": 1, "oversubscription": 2}
    with pytest.raises(ScenarioError, match="no effect") as caught:
        load_it(with_topology(wide, **racks))
    assert caught.value.path == "cluster.topology.oversubscription"
    load_it(with_topology(wide, **racks, placement={"explicit": [[0, 1], [0, 1]]}))
    background = [{"from": 0, "to": 1, "gigabytes": 1}, {"from": [1, 0], "to": [1, 1], "gigabytes": 1}]
    with pytest.raises(ScenarioError, match="no effect"):
        load_it(with_topology(wide, **racks, background=background[1:]))


def test_what_has_no_effect_is_a_warning_in_an_override(load_it: Load, wide: dict[str, Any]) -> None:
    loaded = load_it(with_topology(wide, nodes=3), "cluster.topology.oversubscription=2")
    assert loaded.warnings == (
        "cluster.topology.oversubscription has no effect: nothing goes over the spine: there is one rack "
        "(check oversubscription-without-spine)",
    )
    assert loaded.scenario.cluster.topology is not None
    assert loaded.scenario.cluster.topology.oversubscription == 1


def test_traffic_that_meets_the_traffic_that_a_replica_meets_has_an_effect(load_it: Load, wide: dict[str, Any]) -> None:
    """The first replica has NVLink ports 0 to 7; B shares a NIC with A, which relays over port 1, with rails."""
    meets = {"from": [0, 0], "to": [2, 1], "gigabytes": 1}
    second = {"from": [2, 2], "to": [2, 1], "gigabytes": 1}
    third = {"from": [3, 1], "to": [2, 1], "gigabytes": 1}
    topology = {"nodes": 4, "rail_optimised": True, "background": [third, meets]}
    load_it(with_topology(wide, **topology))
    with pytest.raises(ScenarioError, match="no replica sends") as caught:
        load_it(with_topology(wide, **topology | {"background": [meets, third, second]}))
    assert caught.value.path == "cluster.topology.background.2"


def test_a_network_without_traffic_is_said(wide: dict[str, Any]) -> None:
    result = servetwin.run(with_topology(wide, nodes=3))
    assert any("network-without-traffic" in warning for warning in result.warnings)
    links = result.links()
    assert not links["transfer_bytes_per_s"].any()
    assert set(links["link"].str.rpartition("/")[2]) == {"link-out", "link-in"}


# -- other traffic, during a run ---------------------------------------------------------------------------------


def test_other_traffic_runs_as_long_as_requests_are_on_their_way(load_it: Load, wide: dict[str, Any]) -> None:
    """10 GB over eight NICs of 50 GB/s every 100 ms: 25 ms each."""
    traffic = {"from": 0, "to": 1, "gigabytes": 10, "every_s": 0.1}
    simulation = build(load_it(with_topology(wide, placement=STRADDLING, background=[traffic])).scenario)
    plain = build(load_it(with_topology(wide, placement=STRADDLING)).scenario)
    ends = [one.cluster.run() for one in (simulation, plain)]
    assert ends[0] > ends[1]
    fabric = simulation.network.fabric
    assert fabric is not None
    times = -(-ends[0] // 10**11)
    assert fabric.started == fabric.ended == 8 * times
    nic = next(link.index for link in fabric.links if link.name == "node0/gpu3/nic-out")
    assert fabric.bytes_sent(nic) == times * 10**10 // 8
    more = events_popped(simulation.env) - events_popped(plain.env)
    # To begin, for eight ends at the same instant, and where the replica's steps change their share in a run.
    assert more <= 4 * times + 1


def test_links_parquet(tmp_path: Path, wide: dict[str, Any]) -> None:
    traffic = {"from": [0, 0], "to": [1, 0], "gigabytes": 5, "start_s": 0.25}
    result = servetwin.run(with_topology(wide, placement=STRADDLING, background=[traffic]), out=tmp_path)
    rows = pq.read_table(tmp_path / "links.parquet").to_pylist()
    busy = [row for row in rows if row["utilisation"]]
    carrying = [row for row in busy if row["transfer_bytes_per_s"]]
    assert {row["link"] for row in carrying} == {"node0/gpu0/nic-out", "node1/gpu0/nic-in"}
    for name in ("node0/gpu0/nic-out", "node1/gpu0/nic-in"):
        mine = [row for row in carrying if row["link"] == name]
        assert mine[0]["start_s"] == 0.25
        # The NIC is the transfer's alone only while the replica has nothing to do.
        assert {row["transfer_bytes_per_s"] for row in mine} <= {25e9, 50e9}
        assert not any(row["collective_bytes"] for row in mine if row["transfer_bytes_per_s"] == 50e9)
        assert sum(row["transfer_bytes_per_s"] * (row["end_s"] - row["start_s"]) for row in mine) == pytest.approx(5e9)
    for row in busy:
        both = row["transfer_bytes_per_s"] + row["collective_bytes_per_s"]
        assert row["bytes_per_s"] == both
        assert row["utilisation"] == both / (450e9 if "/link-" in row["link"] else 50e9)
    assert rows[-1]["end_s"] == result.summary()["simulated_s"]
    assert load_result(tmp_path).links().equals(result.links())
    servetwin.run(wide | {"cluster": {"hardware": "h100-sxm"}}, out=tmp_path)
    assert not (tmp_path / "links.parquet").exists()


def test_the_stepping_levels_agree(tmp_path: Path, wide: dict[str, Any]) -> None:
    """On what the links carried, and when the traffic ended, to the byte."""
    traffic = [
        {"from": 0, "to": 1, "gigabytes": 0.3, "every_s": 0.007},
        {"from": [0, 5], "to": [1, 2], "gigabytes": 1, "start_s": 0.1, "every_s": 0.05},
    ]
    scenario = with_topology(wide, placement=STRADDLING, background=traffic)
    written = []
    for level in ("skip-ahead", "every-step", "every-operation"):
        servetwin.run(scenario, out=tmp_path / level, run__stepping=level)
        written.append((tmp_path / level / "links.parquet").read_bytes())
    assert written[0] == written[1] == written[2]


def test_a_topology_belongs_to_the_configuration(load_it: Load, wide: dict[str, Any]) -> None:
    plain = config_hash(load_it(wide).scenario)
    assert config_hash(load_it(with_topology(wide, nodes=3)).scenario) != plain


def test_paths_of_profiles_are_seen_from_the_file(
    load_it: Load, write: Callable[..., Path], wide: dict[str, Any]
) -> None:
    write({"name": "slow", "bandwidth": {"value": "1 GB/s", "source": "us", "date": "2026-11-30"}}, "slow.yaml")
    scenario = load_it(with_topology(wide, nodes=3, nic="./slow.yaml")).scenario
    assert build(scenario).network.layout.topology.servers[0].node.nic.bytes_per_s == 1e9


@pytest.mark.parametrize(("every_s", "fits"), [(0.05, True), (0.025, False), (0.01, False)])
def test_transfers_that_would_pile_up_are_refused(
    every_s: float, fits: bool, load_it: Load, wide: dict[str, Any]
) -> None:
    """10 GB over eight NICs of 50 GB/s take 25 ms."""
    traffic = {"from": 0, "to": 1, "gigabytes": 10, "every_s": every_s}
    scenario = with_topology(wide, placement=STRADDLING, background=[traffic])
    if fits:
        load_it(scenario)
        return
    with pytest.raises(ScenarioError, match="node0/gpu0/nic-out can carry") as caught:
        load_it(scenario)
    assert (caught.value.path, caught.value.allowed) == ("cluster.topology.background.0", "less than 50 GB/s")
    assert str(caught.value.found).startswith(f"{10 / 8 / every_s:g} GB/s")


def test_transfers_of_several_entries_add_up(load_it: Load, wide: dict[str, Any]) -> None:
    traffic = {"from": 0, "to": 1, "gigabytes": 10, "every_s": 0.04}
    with pytest.raises(ScenarioError, match="pile up") as caught:
        load_it(with_topology(wide, placement=STRADDLING, background=[traffic, traffic]))
    assert caught.value.path == "cluster.topology.background.1"


def test_a_straggler_whose_link_nobody_uses(base: dict[str, Any]) -> None:
    """One GPU on each of two nodes: they reach each other by their NICs."""
    alone = {"explicit": [[[0, 0], [1, 0]]]}
    base["cluster"] |= {"parallel": {"tensor": 2}, "stragglers": [{"replica": 0, "gpu": 1, "link": 0.5}]}
    warnings = servetwin.run(with_topology(base, placement=alone, nodes=2)).warnings
    assert any("straggler-alone-in-its-domain" in text and "cluster.stragglers.0.link" in text for text in warnings)
    together = {"explicit": [[[0, 0], [0, 1]]]}
    warnings = servetwin.run(with_topology(base, placement=together, nodes=2)).warnings
    assert not any("straggler-alone" in text for text in warnings)
