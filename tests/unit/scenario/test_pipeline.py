"""Pipelines in the scenario file: what is accepted, what is refused, and what the results say."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import servetwin
from servetwin.errors import CapacityError, ScenarioError
from servetwin.scenario.build import build
from servetwin.scenario.store import to_yaml

Load = Callable[..., Any]


def test_the_gpus_of_a_replica(base: dict[str, Any], load_it: Load) -> None:
    base["cluster"] |= {"parallel": {"tensor": 2, "pipeline": 4}, "replicas": 3}
    simulation = build(load_it(base).scenario)
    (pool,) = simulation.recorder.meta.pools
    assert (pool.stages, pool.gpus_per_replica, pool.gpus) == (4, 8, 24)
    assert pool.peak_bytes_per_s == 8 * 3.35e12
    assert len(simulation.prices) == 4
    assert simulation.cluster.replicas[0].executor.gpus == 2


def test_a_pipeline_has_the_blocks_of_its_fullest_stage(base: dict[str, Any], load_it: Load) -> None:
    """A quarter of the layers on each GPU: more than four times the blocks, for the weights are fewer too."""

    def blocks(pipeline: int) -> int:
        base["cluster"]["parallel"] = {"pipeline": pipeline}
        found: int = build(load_it(base).scenario).cluster.replicas[0].executor.settings.num_blocks
        return found

    assert blocks(4) > 4 * blocks(1)


@pytest.mark.parametrize(
    ("parallel", "path", "allowed"),
    [
        ({"pipeline": 9}, "cluster.parallel.pipeline", "at most 8"),
        ({"tensor": 4, "pipeline": 3}, "cluster.parallel.pipeline", "at most 2 beside tensor: 4"),
        ({"tensor": 16, "pipeline": 2}, "cluster.parallel.tensor", "at most 8"),
    ],
)
def test_a_replica_is_no_larger_than_a_node_without_a_topology(
    parallel: dict[str, int], path: str, allowed: str, base: dict[str, Any], load_it: Load
) -> None:
    base["cluster"]["parallel"] = parallel
    with pytest.raises(CapacityError, match="how nodes are joined") as caught:
        load_it(base)
    assert (caught.value.path, caught.value.allowed) == (path, allowed)


def test_advice_counts_the_gpus_of_all_stages(base: dict[str, Any], load_it: Load) -> None:
    base |= {"model": "llama-3.1-70b"}
    base["cluster"]["parallel"] = {"pipeline": 1}
    with pytest.raises(CapacityError) as caught:
        load_it(base)
    assert caught.value.hint == "cluster.parallel.tensor: 2 is the smallest degree that fits"
    base |= {"model": "llama-3.1-405b"}
    base["cluster"]["parallel"] = {"pipeline": 2}
    with pytest.raises(CapacityError) as caught:
        load_it(base)
    assert str(caught.value.found).startswith("stage 1 of 2: ")
    assert caught.value.hint is not None and "16 GPUs, more than the 8 inside one node" in caught.value.hint


@pytest.mark.parametrize("value", [True, 0, 1.5, "2", [1]])
def test_no_number_of_stages(value: object, base: dict[str, Any], load_it: Load) -> None:
    base["cluster"]["parallel"] = {"pipeline": value}
    with pytest.raises(ScenarioError):
        load_it(base)


def test_the_resolved_scenario_says_what_it_has(base: dict[str, Any], load_it: Load) -> None:
    base["cluster"] |= {"parallel": {"pipeline": 2}, "engine": {"pipeline_batches": "balanced"}}
    text = to_yaml(load_it(base).scenario)
    assert "pipeline: 2" in text and "pipeline_batches: balanced" in text


def test_the_ledger_has_a_bubble(base: dict[str, Any], load_it: Load, tmp_path: Path) -> None:
    """One micro-batch on four stages: three of them wait at any time."""
    base["cluster"] |= {"parallel": {"pipeline": 4}}
    result = servetwin.run(load_it(base).scenario, out=tmp_path, timeline=True)
    share = result.ledger()["total"]["share"]
    busy = 1 - share["idle"]
    assert share["bubble"] / busy == pytest.approx(0.75, abs=0.01)
    assert 0 < result.summary()["memory_bound_share"] < 0.25
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == ["stage 1", "stage 2", "stage 3", "stage 4"]
    steps = [event for event in events if event.get("cat") == "step"]
    assert len(steps) == 4 * result.summary()["steps"]
    for stage in range(1, 5):
        mine = sorted((event["ts"], event["dur"]) for event in steps if event["tid"] == stage)
        assert all(start + length <= then + 1e-6 for (start, length), (then, _) in itertools.pairwise(mine))


@pytest.mark.parametrize(("version", "stages", "depth"), [("0.14", 1, 1), ("0.14", 2, 0), ("0.15", 2, 1)])
def test_scheduling_ahead_by_version(
    version: str, stages: int, depth: int, base: dict[str, Any], load_it: Load
) -> None:
    base["engine"] = {"name": "vllm", "version": version}
    base["cluster"]["parallel"] = {"pipeline": stages}
    settings = build(load_it(base).scenario).cluster.replicas[0].executor.settings
    assert (settings.stages, settings.depth) == (stages, depth)
