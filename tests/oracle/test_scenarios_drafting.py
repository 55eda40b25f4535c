"""Whole scenarios that draft: the three levels write the same bytes, and the naive engine agrees."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.drafting_scenarios import DRAFTING, NGRAM, scenario
from tests.oracle.levels import at_level, check_levels, resolved, simulate
from tests.oracle.naive_scenarios import compare, naive
from tests.oracle.test_jitter import naive_with_noise

import servetwin
from servetwin.engine.protocols import EVERY_OPERATION, STEPPING


@pytest.mark.parametrize("name", DRAFTING)
def test_levels(name: str, tmp_path: Path) -> None:
    summary = check_levels(resolved(DRAFTING[name]), tmp_path, strict=True)
    assert summary["completed"] + summary["rejected"] == 40
    assert summary["completed"] > 30
    assert summary["spec_decode_num_draft_tokens"] > 0


@pytest.mark.parametrize("name", DRAFTING)
def test_the_naive_engine_agrees(name: str) -> None:
    case = resolved(DRAFTING[name])
    _, result = simulate(case)
    compare(result, naive(case))
    if name == "few blocks":
        assert result.summary()["preemptions"] > 0


@pytest.mark.parametrize("router", ["round-robin", "least-requests", "least-tokens"])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_replicas(router: str, asynchronous: bool, tmp_path: Path) -> None:
    """Routers ask a replica in the middle of a run of steps what its requests have generated."""
    case = scenario({"method": "eagle3"}, async_scheduling=asynchronous)
    case["cluster"] |= {"replicas": 3}
    case["workload"]["arrivals"] = {"rate_per_s": 80}
    case |= {"router": {"policy": router}, "run": {"requests": 120}}
    check_levels(resolved(case), tmp_path, strict=True)
    _, result = simulate(resolved(case))
    compare(result, naive(resolved(case)))


@pytest.mark.parametrize("name", ["eagle3", "n-gram", "few blocks", "tiers"])
def test_noise(name: str, tmp_path: Path) -> None:
    case = resolved(DRAFTING[name] | {"physics": {"jitter": 0.1}})
    check_levels(case, tmp_path, strict=True)
    _, result = simulate(case)
    compare(result, naive_with_noise(case))


def test_recorded_acceptance(tmp_path: Path) -> None:
    rng = random.Random(0)
    lines = [{"lengths": [rng.choice((1, 1, 2, 3, 9)) for _ in range(rng.randint(1, 90))]} for _ in range(7)]
    with gzip.open(tmp_path / "lengths.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"{json.dumps(line)}\n" for line in lines)
    recorded = {"recorded": str(tmp_path / "lengths.jsonl.gz"), "column": "lengths"}
    case = resolved(scenario({"method": "eagle3", "acceptance": recorded}))
    check_levels(case, tmp_path, strict=True)
    _, result = simulate(case)
    compare(result, naive(case))


@pytest.mark.parametrize("seconds", [0.3, 0.7, 1.234567])
def test_a_run_that_is_cut_off(seconds: float, tmp_path: Path) -> None:
    """In the middle of a step, which may be one of many that are under way."""
    for name in ("eagle3", "eagle, synchronous", "tiers"):
        until_ps = int(seconds * 10**12)
        check_levels(resolved(DRAFTING[name]), tmp_path / name, until_ps=until_ps, strict=True)


def test_links_that_others_use(tmp_path: Path) -> None:
    """Two replicas over two servers whose collectives, those of the drafter too, share links with transfers."""
    case: dict[str, Any] = scenario({"method": "eagle3"}, "llama-3.1-70b", tensor=4, num_gpu_blocks_override=2000)
    places = [[[server, 2 * replica + gpu] for server in (0, 1) for gpu in (0, 1)] for replica in (0, 1)]
    transfers = [
        {"from": [0, gpu], "to": [1, gpu], "gigabytes": 5, "start_s": 0.2, "every_s": 0.4} for gpu in (4, 5, 6)
    ]
    case["cluster"] |= {
        "replicas": 2,
        "topology": {
            "nodes": 2, "nodes_per_rack": 1, "rail_optimised": False, "oversubscription": 4,
            "placement": {"explicit": places}, "background": transfers,
        },
    }  # fmt: skip
    for name, controller in (
        ("fixed", {}),
        ("tiers", {"controller": {"policy": "ema-tiers", "interval": 2, "warmup": 1}}),
    ):
        case["cluster"]["speculation"] |= controller
        summary = check_levels(resolved(case), tmp_path / name, strict=True)
        assert summary["completed"] == 40


@pytest.mark.parametrize("stepping", STEPPING)
def test_a_timeline_changes_nothing(stepping: str, tmp_path: Path) -> None:
    """Keeping the phases of the steps, those of drafting too, leaves the results alone."""
    scenario = at_level(resolved(DRAFTING["tiers"]), stepping)
    plain = servetwin.run(scenario, out=tmp_path / "plain")
    drawn = servetwin.run(scenario, out=tmp_path / "drawn", timeline=True)
    for name in ("requests.parquet", "ledger.json"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "drawn" / name).read_bytes()
    assert plain.summary()["steps"] == drawn.summary()["steps"]
    trace = json.loads((tmp_path / "drawn" / "trace.json").read_text())
    assert any("draft" in str(event.get("name")) for event in trace["traceEvents"])


def test_the_gpus_are_busy_for_as_long_as_the_ledger_says() -> None:
    """At ``every-operation`` the processes of the GPUs count their own time, that of the drafter too."""
    scenario = at_level(resolved(DRAFTING["tensor parallel"]), EVERY_OPERATION)
    simulation, _ = simulate(scenario)
    (replica,) = simulation.cluster.replicas
    (spent,) = simulation.recorder.spent(1)
    for rank in replica.executor._device.ranks:
        assert sum(rank.busy_ps.values()) == sum(spent.values())


def test_pools_that_draft_and_one_that_does_not(tmp_path: Path) -> None:
    """Each has its own way, its own number of drafts and its own acceptance."""
    case = scenario({"method": "eagle3"})
    case["cluster"] |= {
        "pools": [
            {"name": "head", "speculation": {"method": "eagle3", "k": 5, "acceptance": 0.7}},
            {"name": "text", "replicas": 2, "speculation": NGRAM},
            {"name": "plain"},
        ]
    }  # fmt: skip
    del case["cluster"]["speculation"]
    case["workload"]["arrivals"] = {"rate_per_s": 80}
    case |= {"router": {"policy": "least-requests"}, "run": {"requests": 100}}
    summary = check_levels(resolved(case), tmp_path, strict=True)
    assert summary["spec_decode_num_drafts"] > 0 and len(summary["acceptance_rate_per_position"]) == 5
