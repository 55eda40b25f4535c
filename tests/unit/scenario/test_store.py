"""The resolved scenario as a file, and the configuration hash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servetwin.scenario.load import LoadedScenario
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.store import config_hash, to_mapping, to_yaml

Load = Callable[..., LoadedScenario]


def test_nothing_is_left_to_decide(load_it: Load, base: dict[str, Any]) -> None:
    mapping = to_mapping(load_it(base).scenario)
    (pool,) = mapping["cluster"]["pools"]
    assert pool["engine"] == {
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 1024,
        "max_model_len": 131072,
        "block_size": 16,
        "prefix_caching": True,
        "chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "async_scheduling": True,
        "gpu_memory_utilization": 0.9,
        "enforce_eager": False,
        "max_cudagraph_capture_size": 512,
        "scheduling": {"policy": "fcfs"},
    }
    assert pool["precision"] == {"weights": "bf16", "kv_cache": "bf16"}
    assert mapping["physics"] == {"backend": "roofline", "calibration": "default"}
    assert mapping["router"] == {"policy": "round-robin"}
    assert "null" not in to_yaml(load_it(base).scenario)


@pytest.mark.parametrize("hardware", ["a100-sxm-80gb", "l40s"])
def test_smaller_gpus_have_smaller_defaults(hardware: str, load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["hardware"] = hardware
    engine = load_it(base).scenario.cluster.pools[0].engine
    assert (engine.max_num_batched_tokens, engine.max_num_seqs) == (2048, 256)


def test_older_versions_schedule_synchronously(load_it: Load, base: dict[str, Any]) -> None:
    assert load_it(base, "engine.version='0.11'").scenario.cluster.pools[0].engine.async_scheduling is False


def test_aliases_resolve_to_the_name_of_the_profile(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["hardware"] = "H100-SXM"
    assert load_it(base).scenario.cluster.pools[0].hardware == "h100-sxm"


def test_pools_take_what_stands_for_all_and_keep_what_is_theirs(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"] = {
        "hardware": "h100-sxm",
        "replicas": 2,
        "engine": {"max_num_seqs": 64, "block_size": 32},
        "pools": [
            {"name": "a"},
            {"name": "b", "replicas": 1, "hardware": "a100-sxm-80gb", "engine": {"block_size": 16}},
        ],
    }
    first, second = load_it(base).scenario.cluster.pools
    assert (first.replicas, first.hardware, first.engine.max_num_seqs, first.engine.block_size) == (
        2, "h100-sxm", 64, 32,
    )  # fmt: skip
    assert (second.replicas, second.hardware, second.engine.max_num_seqs, second.engine.block_size) == (
        1, "a100-sxm-80gb", 64, 16,
    )  # fmt: skip


def test_pools_of_different_models_keep_their_own(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["pools"] = [{"name": "a"}, {"name": "b", "model": "qwen3-8b"}]
    mapping = to_mapping(load_it(base).scenario)
    assert "model" not in mapping
    assert [pool["model"] for pool in mapping["cluster"]["pools"]] == ["llama-3.1-8b", "qwen3-8b"]


@pytest.mark.parametrize(
    "part",
    [
        {"run": {"seed": 9}},
        {"run": {"stepping": "every-step"}},
        {"name": "other"},
        {"description": "other"},
        {"cluster": {"engine": {"block_size": 16}}},
    ],
)
def test_the_hash_leaves_out_what_is_no_configuration(
    part: dict[str, Any], load_it: Load, base: dict[str, Any]
) -> None:
    assert config_hash(load_it(deep_merge(base, part)).scenario) == config_hash(load_it(base).scenario)


@pytest.mark.parametrize(
    "part",
    [
        {"run": {"requests": 21}},
        {"cluster": {"engine": {"block_size": 32}}},
        {"workload": {"arrivals": {"rate_per_s": 8.5}}},
        {"router": "random"},
        {"engine": {"version": "0.11"}},
    ],
)
def test_the_hash_sees_every_setting(part: dict[str, Any], load_it: Load, base: dict[str, Any]) -> None:
    assert config_hash(load_it(deep_merge(base, part)).scenario) != config_hash(load_it(base).scenario)


def test_the_hash_sees_the_content_of_a_trace_and_not_its_place(
    load_it: Load, base: dict[str, Any], tmp_path: Path
) -> None:
    hashes = []
    for name, row in (("a", "1,2"), ("b", "1,2"), ("c", "1,3")):
        (tmp_path / name).mkdir()
        trace = tmp_path / name / "trace.csv"
        trace.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,{row}\n")
        base["workload"] = {"trace": {"path": str(trace)}}
        base["run"] = {}
        hashes.append(config_hash(load_it(base).scenario))
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_run_without_an_end_gets_a_number_of_requests(load_it: Load, base: dict[str, Any]) -> None:
    base["run"] = {}
    assert load_it(base).scenario.run.requests == 1000
    base["run"] = {"duration_s": 5}
    assert load_it(base).scenario.run.requests is None
    base["run"] = {}
    base["workload"]["arrivals"] = {"process": "bursts", "size": 7}
    assert load_it(base).scenario.run.requests is None


def test_ways_of_sharing_out_that_are_off_are_not_written(base: dict[str, Any], load_it: Load) -> None:
    """So a scenario of a version without them has the hash that it had."""

    def written(**parallel: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        base["cluster"]["parallel"] = parallel
        (pool,) = to_mapping(load_it(base).scenario)["cluster"]["pools"]
        return pool["parallel"], pool["engine"]

    alone, engine = written()
    assert alone == {"tensor": 1} and "pipeline_batches" not in engine
    assert written(tensor=2, context=2)[0] == {"tensor": 2, "context": 2}
    assert written(tensor=3, uneven_heads=True)[0] == {"tensor": 3, "uneven_heads": True}
    split, engine = written(pipeline=2)
    assert split == {"tensor": 1, "pipeline": 2} and engine["pipeline_batches"] == "vllm"
