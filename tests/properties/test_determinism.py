"""Same seed, same bytes; another seed, other requests; what has nothing to do with the requests leaves them alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import servetwin

HOST_KEYS = ("wall_s", "cpu_s", "started_at", "out")
FILES = ("requests.parquet", "timeseries.parquet", "ledger.json", "scenario.yaml", "trace.json")

#: Everything that draws or keeps sets and dictionaries: random routers, classes, prefixes, sessions, preemption.
BUSY: dict[str, Any] = {
    "name": "busy",
    "model": "llama-3.1-8b",
    "cluster": {
        "hardware": "h100-sxm", "replicas": 3,
        "engine": {"max_model_len": 2_000, "num_gpu_blocks_override": 150, "scheduling": "priority"},
    },
    "router": {"policy": "power-of-two"},
    "workload": {
        "arrivals": {"process": "gamma", "rate_per_s": 120, "cv": 2.0},
        "prompts": {"distribution": "lognormal", "mean": 200, "std": 300, "max": 900},
        "outputs": {"distribution": "lognormal", "mean": 60, "std": 60, "max": 200},
        "prefixes": {"groups": 4, "tokens": 96, "zipf_exponent": 1.0},
        "classes": [{"name": "a", "priority": 1, "slo": {"ttft_ms": 300}}, {"name": "b", "priority": 0}],
    },
    "slo": {"goodput": {"ttft_ms": 300, "tpot_ms": 30}},
    "run": {"requests": 150},
}  # fmt: skip
THINK = {"distribution": "exponential", "mean": 1}
SESSIONS = BUSY | {
    "name": "sessions",
    "router": {"policy": "random"},
    "workload": {
        "arrivals": {"process": "closed-loop", "concurrency": 20, "think_time_s": THINK},
        "prompts": {"distribution": "lognormal", "mean": 200, "std": 300, "max": 400},
        "outputs": {"distribution": "lognormal", "mean": 60, "std": 60, "max": 200},
        "sessions": {"turns": {"distribution": "uniform", "min": 1, "max": 3}, "think_time_s": 0.5},
    },
    "cluster": BUSY["cluster"] | {"engine": {"max_model_len": 2_000, "num_gpu_blocks_override": 150}},
}  # fmt: skip
CASES = {"busy": BUSY, "sessions": SESSIONS}

SCRIPT = """
import json, sys
from pathlib import Path
import servetwin
for name, case in json.loads(sys.argv[1]).items():
    servetwin.run(case, out=Path(sys.argv[2]) / name, timeline=True)
for name in ("multi-turn", "mixed-gpus"):
    servetwin.run(name, out=Path(sys.argv[2]) / name, timeline=True, run__requests=60)
"""


def contents(folder: Path) -> dict[str, Any]:
    """Everything that a run wrote, without what may differ."""
    found: dict[str, Any] = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    summary = json.loads((folder / "summary.json").read_text())
    return found | {key: value for key, value in summary.items() if key not in HOST_KEYS}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, content in one.items():
        assert content == other[name], f"{name} differs"


def in_a_process(folder: Path, hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(CASES), str(folder)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_same_seed_same_bytes_for_any_hash_seed(tmp_path: Path) -> None:
    for hash_seed in ("0", "1", "random"):
        in_a_process(tmp_path / hash_seed, hash_seed)
    for name in (*CASES, "multi-turn", "mixed-gpus"):
        first = contents(tmp_path / "0" / name)
        assert "trace.json" in first
        for hash_seed in ("1", "random"):
            assert_same(first, contents(tmp_path / hash_seed / name))


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_the_same_after_another_in_one_process(name: str, tmp_path: Path) -> None:
    """No counter, cache or generator outlives a run."""
    servetwin.run(CASES[name], out=tmp_path / "first")
    servetwin.run("bench-8b", run__requests=20)
    servetwin.run(CASES[name], run__seed=9)
    servetwin.run(CASES[name], out=tmp_path / "again")
    assert_same(contents(tmp_path / "first"), contents(tmp_path / "again"))


@pytest.mark.parametrize("name", CASES)
def test_the_resolved_scenario_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    servetwin.run(CASES[name], out=tmp_path / "first", timeline=True)
    servetwin.run(tmp_path / "first" / "scenario.yaml", out=tmp_path / "again", timeline=True)
    assert_same(contents(tmp_path / "first"), contents(tmp_path / "again"))


@pytest.mark.parametrize("name", ["quickstart", "bench-8b-64r", "priority-classes", "shared-prefix", "mixed-gpus"])
def test_the_resolved_scenario_of_a_bundled_one_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    servetwin.run(name, out=tmp_path / "first", run__requests=50)
    servetwin.run(tmp_path / "first" / "scenario.yaml", out=tmp_path / "again")
    assert_same(contents(tmp_path / "first"), contents(tmp_path / "again"))


def requests(case: dict[str, Any], **changes: Any) -> list[tuple[int, ...]]:
    """What the requests are: id, arrival, lengths."""
    table = servetwin.run(case, **changes).table
    columns = [table.column(name).tolist() for name in ("id", "arrival_ps", "prompt_tokens", "output_tokens")]
    return sorted(zip(*columns, strict=True))


def test_another_seed_gives_other_requests() -> None:
    seeds = [requests(BUSY, run__seed=seed) for seed in (0, 1, 2, 2**40)]
    for column in (1, 2, 3):
        assert len({tuple(row[column] for row in rows) for rows in seeds}) == 4


def test_another_seed_gives_another_router() -> None:
    """The router draws from the run's seed too: with fixed requests only its choices differ."""
    fixed = BUSY | {
        "workload": {"arrivals": {"process": "constant", "rate_per_s": 50}, "prompts": 100, "outputs": 20},
        "cluster": {"hardware": "h100-sxm", "replicas": 3},
        "router": {"policy": "random"},
    }
    choices = [servetwin.run(fixed, run__seed=seed).table.column("replica").tolist() for seed in (0, 0, 1)]
    assert choices[0] == choices[1] != choices[2]


# What does not describe the requests must not change them.
INDEPENDENT: dict[str, dict[str, Any]] = {
    "outputs": {"workload__outputs": {"distribution": "uniform", "min": 1, "max": 99}},
    "router": {"router": "round-robin"},
    "replicas": {"cluster__replicas": 1},
    "scheduling": {"cluster__engine__scheduling": "fcfs"},
    "blocks": {"cluster__engine__num_gpu_blocks_override": 4_000},
    "prefix caching": {"cluster__engine__prefix_caching": False},
    "model": {"model": "qwen3-8b"},
    "admission": {"admission": {"policy": "max-requests", "requests": 5}},
    "stepping": {"run__stepping": "every-step"},
    "sampling": {"workload__sampling": "top-p"},
}


@pytest.mark.parametrize("what", INDEPENDENT)
def test_other_settings_leave_the_requests_alone(what: str) -> None:
    before, after = requests(BUSY), requests(BUSY, **INDEPENDENT[what])
    columns = (0, 1, 2) if what == "outputs" else (0, 1, 2, 3)
    assert [[row[i] for i in columns] for row in before] == [[row[i] for i in columns] for row in after]
    if what == "outputs":
        assert before != after


def test_more_requests_begin_with_the_same() -> None:
    assert requests(BUSY, run__requests=200)[:150] == requests(BUSY)


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**63), name=st.sampled_from(sorted(CASES)))
def test_any_seed_gives_the_same_twice(seed: int, name: str) -> None:
    one, other = (servetwin.run(CASES[name], run__seed=seed, run__requests=30) for _ in range(2))
    assert one.summary() | dict.fromkeys(HOST_KEYS) == other.summary() | dict.fromkeys(HOST_KEYS)
    assert one.ledger() == other.ledger()
