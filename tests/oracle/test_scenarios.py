"""Every bundled scenario and workload, shrunk, writes the same bytes at all three stepping levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.oracle.levels import at_level, check_levels, resolved, simulate

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.engine.protocols import EVERY_OPERATION, STEPPING

SCENARIOS = Catalog().names("scenarios")
WORKLOADS = Catalog().names("workloads")
#: Where nobody waits the interesting things do not happen.
BUSIER = {
    "mixed-gpus": 40,
    "multi-turn": 8,
    "shared-prefix": 60,
    "azure-conversation-4xh100": 60,
    "bench-8b-long": 20,
    "bench-70b-pp4": 1,
}


def shrunk(name: str, requests: int) -> list[str]:
    rate = [f"workload.arrivals.rate_per_s={BUSIER[name]}"] if name in BUSIER else []
    return [f"run.requests={requests}", *rate]


@pytest.mark.parametrize("name", SCENARIOS)
def test_bundled_scenario(name: str, tmp_path: Path) -> None:
    summary = check_levels(resolved(name, *shrunk(name, 50)), tmp_path)
    assert summary["completed"] == 50
    # The levels are three, not one under three names.
    skip, step, operation = summary["events"]
    assert 2 * skip < step < operation / 2
    assert step > summary["steps"]


@pytest.mark.parametrize("name", ["quickstart", "mixed-gpus", "multi-turn", "priority-classes", "shared-prefix"])
def test_bundled_scenario_as_it_is_run_by_users(name: str, tmp_path: Path) -> None:
    """``servetwin.run`` writes what the parts of the build path give, also with ``--strict``."""
    scenario = resolved(name, *shrunk(name, 25))
    documents = []
    for folder, stepping, strict in (("a", "skip-ahead", False), ("b", "every-step", True)):
        servetwin.run(at_level(scenario, stepping), out=tmp_path / folder, strict=strict)
        files = sorted(file.name for file in (tmp_path / folder).iterdir())
        documents.append({file: (tmp_path / folder / file).read_bytes() for file in files})
    assert set(documents[0]) == {
        "ledger.json", "requests.parquet", "scenario.yaml", "summary.json", "timeseries.parquet",
    }  # fmt: skip
    for file in ("ledger.json", "requests.parquet", "timeseries.parquet"):
        assert documents[0][file] == documents[1][file], file
    assert documents[0]["scenario.yaml"].replace(b"skip-ahead", b"every-step") == documents[1]["scenario.yaml"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_bundled_workload(name: str, tmp_path: Path) -> None:
    """On two replicas that are never large enough for what comes at once."""
    scenario = resolved(
        {
            "model": "llama-3.1-8b",
            "cluster": {
                "hardware": "h100-sxm", "replicas": 2,
                "engine": {"max_model_len": 16_000, "num_gpu_blocks_override": 1_001, "max_num_seqs": 20},
            },
            "router": {"policy": "least-tokens"},
            "workload": name,
            "run": {"requests": 28},
        }
    )  # fmt: skip
    summary = check_levels(scenario, tmp_path, strict=True)
    assert summary["completed"] + summary["rejected"] == summary["requests"]
    assert summary["completed"] > 0


def model(name: str, hardware: str, tensor: int, pipeline: int = 1, **engine: Any) -> dict[str, Any]:
    parallel = {"tensor": tensor, "pipeline": pipeline}
    return {
        "model": name,
        "cluster": {"hardware": hardware, "parallel": parallel, "engine": {"max_model_len": 8192, **engine}},
        "workload": {
            "arrivals": {"rate_per_s": 25},
            "prompts": {"distribution": "lognormal", "mean": 600, "std": 900, "max": 4000},
            "outputs": {"distribution": "lognormal", "mean": 60, "std": 60, "max": 300},
            "prefixes": {"groups": 3, "tokens": 90},
        },
        "run": {"requests": 40, "seed": 3},
    }


MODELS = {
    # Windows of 128 tokens, which every request crosses on its way; experts; tensor parallel.
    "windows": model("gpt-oss-20b", "h100-sxm", 1),
    "windows and tensor parallel": model("gpt-oss-120b", "h100-sxm", 2, num_gpu_blocks_override=200),
    "chunked attention": model("llama-4-scout-fp8", "h200-sxm", 2),
    "latent attention and experts": model("deepseek-r1", "h200-sxm", 8, num_gpu_blocks_override=500),
    "experts": model("mixtral-8x7b", "h100-sxm", 2),
    "shared experts of a small model": model("qwen3-30b-a3b", "h100-sxm", 1),
    "no graphs": model("llama-2-7b", "a100-sxm-80gb", 1, max_model_len=4096, enforce_eager=True),
    "pipeline": model("llama-3.1-8b", "l40s", 1, 2),
    "pipeline, synchronous": model("qwen3-30b-a3b", "h100-sxm", 1, 3, async_scheduling=False),
    "pipeline of windows and tensor parallel": model("gpt-oss-120b", "h100-sxm", 2, 2, num_gpu_blocks_override=200),
    "balanced pipeline": model("deepseek-r1", "h200-sxm", 2, 4, pipeline_batches="balanced"),
    "small graphs": model("llama-3.1-8b", "l40s", 1, max_cudagraph_capture_size=8),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, tmp_path: Path) -> None:
    summary = check_levels(resolved(MODELS[name]), tmp_path)
    assert summary["completed"] + summary["rejected"] == 40
    assert summary["completed"] > 35


@pytest.mark.parametrize("stepping", STEPPING)
def test_a_timeline_changes_nothing(stepping: str, tmp_path: Path) -> None:
    """Keeping the phases of the steps leaves the results alone."""
    scenario = at_level(resolved("quickstart", "run.requests=30"), stepping)
    plain = servetwin.run(scenario, out=tmp_path / "plain")
    drawn = servetwin.run(scenario, out=tmp_path / "drawn", timeline=True)
    for name in ("requests.parquet", "ledger.json"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "drawn" / name).read_bytes()
    assert plain.summary()["steps"] == drawn.summary()["steps"]


@pytest.mark.parametrize("name", ["pipeline, synchronous", "balanced pipeline"])
def test_the_stages_are_busy_for_as_long_as_the_ledger_says(name: str) -> None:
    """The processes of the GPUs of every stage count their own time; what they do not count is waiting."""
    simulation, result = simulate(at_level(resolved(MODELS[name]), EVERY_OPERATION))
    (replica,) = simulation.cluster.replicas
    executor: Any = replica.executor
    busy = dict.fromkeys(("sm", "hbm", "link", "host"), 0)
    for device in executor._devices.devices:
        for rank in device.ranks:
            for resource, time in rank.busy_ps.items():
                busy[resource] += time
    (spent,) = simulation.cluster.ledger(result.end_ps)
    assert spent["recompute"] == 0
    hand_offs = spent["exposed_communication"] - busy["link"]
    assert (spent["compute"], spent["hbm"], spent["host"]) == (busy["sm"], busy["hbm"], busy["host"])
    assert 0 < hand_offs < spent["bubble"]
    stages = len(executor._devices.devices)
    assert sum(spent.values()) == stages * executor.gpus * result.end_ps


def test_the_gpus_are_busy_for_as_long_as_the_ledger_says() -> None:
    """At ``every-operation`` the processes of the GPUs count their own time, resource by resource."""
    scenario = at_level(resolved(MODELS["experts"]), EVERY_OPERATION)
    simulation, _ = simulate(scenario)
    (replica,) = simulation.cluster.replicas
    (spent,) = simulation.recorder.spent(1)
    device = replica.executor._device
    assert device is not None and len(device.ranks) == 2
    for rank in device.ranks:
        assert rank.busy_ps == {
            "sm": spent["compute"], "hbm": spent["hbm"], "link": spent["exposed_communication"], "host": spent["host"],
        }  # fmt: skip
