"""Replicas that share links with transfers and with each other: the three stepping levels give the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import servetwin
from servetwin.engine.protocols import STEPPING
from servetwin.scenario.build import build
from servetwin.scenario.load import validate_mapping
from servetwin.units import PS_PER_S


@st.composite
def transfers(draw: st.DrawFn, gpus: int) -> dict[str, Any]:
    ends = draw(st.lists(st.integers(0, gpus - 1), min_size=2, max_size=2, unique=True))
    size, every = draw(st.sampled_from(((20, None), (2, 0.11), (2, 0.25), (0.3, 0.0371), (0.001, 0.0371))))
    return {
        "from": [0, ends[0]], "to": [0, ends[1]], "gigabytes": size,
        "start_s": draw(st.sampled_from((0.0, 0.1, 0.3337))), "every_s": every,
    }  # fmt: skip


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    replicas, tensor, pipeline = draw(st.sampled_from(
        ((1, 2, 1), (2, 2, 1), (3, 2, 1), (1, 4, 1), (2, 4, 1), (1, 1, 2), (2, 1, 2), (1, 2, 2), (2, 1, 4), (2, 2, 2))
    ))  # fmt: skip
    engine = {
        "max_model_len": 2048, "async_scheduling": draw(st.booleans()),
        "num_gpu_blocks_override": draw(st.sampled_from((140, 400, 20_000))),
        "max_num_batched_tokens": draw(st.sampled_from((256, 2048))),
    }  # fmt: skip
    return {
        "name": "shared", "model": "llama-3.1-8b",
        "cluster": {
            "hardware": "h100-sxm", "replicas": replicas, "engine": engine,
            "parallel": {"tensor": tensor, "pipeline": pipeline},
            "topology": {"background": draw(st.lists(transfers(replicas * tensor * pipeline), min_size=1, max_size=5))},
        },
        "workload": {
            "arrivals": {"process": "poisson", "rate_per_s": draw(st.sampled_from((20, 100)))},
            "prompts": {"distribution": "uniform", "min": 10, "max": 900},
            "outputs": {"distribution": "uniform", "min": 1, "max": 120},
        },
        "run": {"requests": 40, "seed": draw(st.integers(0, 5))},
    }  # fmt: skip


@st.composite
def straddling(draw: st.DrawFn) -> dict[str, Any]:
    """Replicas over two racks that share the way to the spine with each other, and with transfers.

    Two of them have all NICs of the racks, so that with a transfer each has a smaller share while the other works.
    """
    scenario = draw(scenarios())
    cluster = scenario["cluster"]
    cluster["replicas"], cluster["parallel"] = (
        2,
        draw(st.sampled_from(({"tensor": 8}, {"tensor": 2, "pipeline": 4}, {"pipeline": 8}))),
    )
    places = [[[server, 4 * replica + gpu] for server in (0, 1) for gpu in range(4)] for replica in (0, 1)]
    transfers = [one | {"to": [1, one["to"][1]]} for one in cluster["topology"]["background"]]
    cluster["topology"] = {
        "nodes": 2, "nodes_per_rack": 1, "rail_optimised": False, "oversubscription": 4,
        "placement": {"explicit": places}, "background": draw(st.sampled_from(([], transfers))),
    }  # fmt: skip
    return scenario


@settings(max_examples=30)
@given(straddling())
def test_levels_agree_on_replicas_that_slow_each_other(scenario: dict[str, Any]) -> None:
    check_levels(scenario)


LONG = [{"from": [0, 0], "to": [1, 0], "gigabytes": 10_000}] * 3
"""Three transfers over the spine that outlast every run."""


OTHERS = [{"from": [0, gpu], "to": [1, gpu], "gigabytes": 10_000} for gpu in (4, 5, 6, 7, 4, 5, 6, 7)]
"""Transfers that last as long as any run, two over each of four NICs."""


def traced(rows: list[tuple[float, int]], parallel: dict[str, int], folder: Path) -> dict[str, Any]:
    """Two replicas over two racks, dealt requests of 100 prompt tokens in turn; transfers fill the lanes to the spine,
    so that each takes some from the other.

    Args:
        rows: when each arrives [s], and its output tokens.
        parallel: how a replica of four GPUs shares out the model.
        folder: where the trace is written.
    """
    trace = folder / "trace.jsonl"
    entries = [{"at": at, "prompt": 100, "output": tokens} for at, tokens in rows]
    trace.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")
    scenario = busy(nodes=2, nodes_per_rack=1, rail_optimised=False, oversubscription=4, background=OTHERS)
    places = [[[server, 2 * replica + gpu] for server in (0, 1) for gpu in (0, 1)] for replica in (0, 1)]
    scenario["cluster"]["topology"]["placement"] = {"explicit": places}
    scenario["cluster"] |= {"replicas": 2, "parallel": parallel}
    columns = {"arrival_s": "at", "prompt_tokens": "prompt", "output_tokens": "output"}
    scenario["workload"] = {"trace": {"path": str(trace), "format": "columns", "columns": columns}}
    scenario["run"] = {}
    scenario["router"] = {"policy": "round-robin"}
    return scenario


@pytest.mark.parametrize("parallel", [{"tensor": 4}, {"pipeline": 4}, {"tensor": 2, "pipeline": 2}])
@pytest.mark.parametrize("steady", [0, 1])
@pytest.mark.parametrize("step", [7, 20])
def test_levels_agree_where_a_replica_begins_as_a_step_of_the_other_does(
    steady: int, step: int, parallel: dict[str, int], tmp_path: Path
) -> None:
    """To the picosecond: the replica with the lower index comes first at that instant.

    So the step of replica 0 still has the share without replica 1, and that of replica 1 the one with replica 0.
    """
    rows = [(0.0, 40)] if steady == 0 else [(0.0, 2), (0.5, 40)]
    scenario = traced(rows, parallel, tmp_path)
    executor = build(validate_mapping(scenario)).cluster.replicas[0].executor
    front_end_ps = executor.settings.front_end_ps + 100 * executor.settings.front_end_per_token_ps
    steps = servetwin.run(scenario, run__stepping="every-step").segments.store
    begins = sorted(steps.column("start_ps")[steps.column("replica") == steady].tolist())[step]
    arrival_ps = begins - front_end_ps
    scenario = traced([*rows, (arrival_ps / PS_PER_S, 30)], parallel, tmp_path)
    joined = servetwin.run(scenario, run__stepping="every-step")
    starts = {
        replica: set(joined.segments.store.column("start_ps")[joined.segments.store.column("replica") == replica])
        for replica in (0, 1)
    }  # fmt: skip
    assert begins in starts[0] & starts[1], "both begin a step at this instant"
    check_levels(scenario)


@pytest.mark.parametrize("parallel", [{"tensor": 4}, {"tensor": 2, "pipeline": 2}])
def test_replicas_with_nics_of_their_own_do_not_slow_each_other(parallel: dict[str, int]) -> None:
    """As much load for each of four replicas over the same two racks as for one that has them alone.

    The price of a NIC already has the oversubscription in it: the leaf carries that of all its NICs at once.
    """
    scenario = busy(nodes=2, nodes_per_rack=1, rail_optimised=False, oversubscription=4)
    scenario["cluster"]["parallel"] = parallel
    scenario["workload"]["arrivals"] = {"process": "constant", "rate_per_s": 4}
    topology = scenario["cluster"]["topology"]
    times = []
    for replicas in (1, 4):
        scenario["cluster"]["replicas"] = replicas
        scenario["workload"]["arrivals"]["rate_per_s"] = 4 * replicas
        scenario["run"]["requests"] = 30 * replicas
        topology["placement"] = {
            "explicit": [[[server, 2 * one + gpu] for server in (0, 1) for gpu in (0, 1)] for one in range(replicas)]
        }
        times.append(servetwin.run(scenario).summary()["tpot_ms.mean"])
    assert times[1] == pytest.approx(times[0], rel=1e-9)


def test_replicas_slow_each_other_where_transfers_take_the_lanes() -> None:
    """Two replicas with all NICs of two racks and three transfers over the spine: eleven for eight lanes."""
    scenario = busy(nodes=2, nodes_per_rack=1, rail_optimised=False, background=LONG)
    scenario["cluster"]["parallel"] = {"tensor": 8}
    times = []
    for replicas in (1, 2):
        scenario["cluster"]["replicas"] = replicas
        scenario["workload"]["arrivals"]["rate_per_s"] = 4 * replicas
        scenario["run"]["requests"] = 30 * replicas
        places = [[[server, 7 - 4 * one - gpu] for server in (0, 1) for gpu in range(4)] for one in range(replicas)]
        scenario["cluster"]["topology"]["placement"] = {"explicit": places}
        times.append(servetwin.run(scenario).requests().query("replica == 0").tpot_ms.mean())
    assert times[1] > 1.02 * times[0]


@settings(max_examples=40)
@given(scenarios())
def test_levels_agree_on_links_that_are_shared(scenario: dict[str, Any]) -> None:
    check_levels(scenario)


def check_levels(scenario: dict[str, Any]) -> None:
    seen = []
    for level in STEPPING:
        result = servetwin.run(scenario, run__stepping=level, strict=True)
        counted = {key: value for key, value in result.summary().items() if key not in HOST}
        seen.append((counted, result.requests().to_csv(), result.ledger(), result.links()))
    for summary, requests, ledger, links in seen[1:]:
        assert summary == seen[0][0]
        assert requests == seen[0][1]
        assert ledger == seen[0][2]
        assert links.equals(seen[0][3])


HOST = ("wall_s", "cpu_s", "started_at", "out", "events", "warnings", "config_hash")


def busy(**topology: Any) -> dict[str, Any]:
    return {
        "name": "one", "model": "llama-3.1-70b",
        "cluster": {
            "hardware": "h100-sxm", "parallel": {"tensor": 4}, "engine": {"max_model_len": 2048},
            **({"topology": topology} if topology else {}),
        },
        "workload": {
            "arrivals": {"process": "poisson", "rate_per_s": 10},
            "prompts": {"distribution": "constant", "value": 512}, "outputs": {"distribution": "constant", "value": 64},
        },
        "run": {"requests": 30},
    }  # fmt: skip


def communication(**topology: Any) -> float:
    return servetwin.run(busy(**topology)).ledger()["total"]["seconds"]["exposed_communication"]


def test_transfers_over_the_links_of_a_replica_slow_its_collectives() -> None:
    """A transfer that lasts as long as the run leaves the collectives half of two ports, two of them a third."""
    alone = communication()
    one = communication(background=[{"from": [0, 0], "to": [0, 1], "gigabytes": 10_000}])
    two = communication(background=[{"from": [0, 0], "to": [0, 1], "gigabytes": 10_000}] * 2)
    assert alone < one < two < 3 * alone


def test_a_transfer_that_ends_gives_the_links_back() -> None:
    short = communication(background=[{"from": [0, 0], "to": [0, 1], "gigabytes": 100, "start_s": 1.0}])
    whole = communication(background=[{"from": [0, 0], "to": [0, 1], "gigabytes": 10_000, "start_s": 1.0}])
    assert communication() < short < whole


@pytest.mark.parametrize("level", STEPPING)
def test_two_replicas_never_share_ports(level: str) -> None:
    """Each GPU has ports of its own: replicas inside one server leave each other alone."""
    scenario = busy(nodes=1)
    with_topology = servetwin.run(scenario, cluster__replicas=2, run__stepping=level).summary()
    del scenario["cluster"]["topology"]
    without = servetwin.run(scenario, cluster__replicas=2, run__stepping=level).summary()
    assert with_topology["tpot_ms.mean"] == without["tpot_ms.mean"]


def wide(**parallel: int) -> dict[str, Any]:
    scenario = busy(background=[{"from": 0, "to": 1, "gigabytes": 3, "start_s": 0.5, "every_s": 0.3}])
    scenario["model"] = "llama-3.1-405b"
    scenario["cluster"]["parallel"] = parallel
    return scenario


@pytest.mark.parametrize("parallel", [{"tensor": 16}, {"tensor": 8, "pipeline": 2}, {"tensor": 4, "context": 3}])
def test_levels_agree_on_replicas_over_two_servers(parallel: dict[str, int]) -> None:
    scenario = wide(**parallel)
    if parallel.get("context"):
        scenario["model"] = "llama-3.1-70b"
    seen = []
    for level in STEPPING:
        result = servetwin.run(scenario, run__stepping=level, strict=True)
        counted = {key: value for key, value in result.summary().items() if key not in HOST}
        seen.append((counted, result.requests().to_csv(), result.ledger()))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0]["completed"] == 30


def test_servers_are_dearer_than_one_domain() -> None:
    """The same sixteen GPUs in one rack of GB200 and in two servers of H100: more of the time is communication."""
    scenario = wide(tensor=16)
    del scenario["cluster"]["topology"]["background"]
    shares = {}
    for gpu in ("h100-sxm", "gb200-nvl72"):
        scenario["cluster"]["hardware"] = gpu
        shares[gpu] = servetwin.run(scenario).ledger()["total"]["share"]["exposed_communication"]
    assert shares["h100-sxm"] > 1.3 * shares["gb200-nvl72"] > 0


def test_a_faster_network_makes_wide_replicas_faster() -> None:
    scenario = wide(tensor=16)
    del scenario["cluster"]["topology"]["background"]
    times = []
    for nic in ("ethernet-25", "ib-ndr-400"):
        scenario["cluster"]["topology"]["nic"] = nic
        times.append(servetwin.run(scenario).summary()["tpot_ms.mean"])
    assert times[0] > 1.5 * times[1]


def test_a_transfer_slows_the_hand_offs_of_a_pipeline() -> None:
    """One GPU on each of two servers, so that there is nothing else to exchange; half of its NIC is left."""
    times = []
    for background in ([], [{"from": [0, 0], "to": [1, 0], "gigabytes": 10_000}]):
        scenario = busy(nodes=2, placement={"explicit": [[[0, 0], [1, 0]]]}, background=background)
        scenario["model"], scenario["cluster"]["parallel"] = "llama-3.1-8b", {"pipeline": 2}
        # Prompts without decodes beside them: a hand-off is long, and a step waits for all of it.
        scenario["workload"] |= {"outputs": 1, "prompts": 2000, "arrivals": {"process": "constant", "rate_per_s": 1}}
        scenario["run"] = {"requests": 5}
        (kind,) = servetwin.run(scenario).ledger()["communication_s"].items()
        assert kind[0] == "hand-off"
        times.append(kind[1]["exposed"])
    assert 1.8 * times[0] < times[1] < 2 * times[0]
