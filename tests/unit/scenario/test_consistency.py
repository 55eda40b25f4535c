"""Options without effect: an error where a file writes one, a warning where an override leads to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from servetwin.errors import ScenarioError
from servetwin.scenario.consistency import ENGINE_CHECKS
from servetwin.scenario.load import LoadedScenario
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.store import to_mapping

Load = Callable[..., LoadedScenario]

NO_CHUNKS = {"chunked_prefill": False, "max_model_len": 8192, "max_num_batched_tokens": 8192}

CASES = {
    "threshold-without-chunking": ({**NO_CHUNKS, "long_prefill_token_threshold": 100}, "long_prefill_token_threshold"),
    "threshold-above-budget": ({"long_prefill_token_threshold": 8192}, "long_prefill_token_threshold"),
    "graphs-when-eager": ({"enforce_eager": True, "max_cudagraph_capture_size": 64}, "max_cudagraph_capture_size"),
    "utilization-with-override": (
        {"num_gpu_blocks_override": 1000, "gpu_memory_utilization": 0.8},
        "gpu_memory_utilization",
    ),
    "batches-without-pipeline": ({"pipeline_batches": "balanced"}, "pipeline_batches"),
    "deadlines-without-limits": ({"scheduling": "edf"}, "scheduling"),
    "priorities-all-equal": ({"scheduling": "priority"}, "scheduling"),
}  # fmt: skip


def test_every_check_has_a_case() -> None:
    assert {check.name for check in ENGINE_CHECKS} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_in_a_file_it_is_an_error(name: str, load_it: Load, base: dict[str, Any]) -> None:
    options, field = CASES[name]
    base["cluster"]["engine"] = options
    with pytest.raises(ScenarioError, match="no effect") as caught:
        load_it(base)
    assert caught.value.path == f"cluster.engine.{field}"
    assert caught.value.found == options[field]


@pytest.mark.parametrize("name", CASES)
def test_from_an_override_it_is_a_warning_and_stays_out_of_the_resolved_scenario(
    name: str, load_it: Load, base: dict[str, Any]
) -> None:
    options, field = CASES[name]
    base["cluster"]["engine"] = {key: value for key, value in options.items() if key != field}
    plain = load_it(base)
    loaded = load_it(base, f"cluster.engine.{field}={options[field]}")
    assert len(loaded.warnings) == 1
    assert name in loaded.warnings[0]
    assert to_mapping(loaded.scenario) == to_mapping(plain.scenario)


def test_an_override_that_makes_an_option_of_the_file_ineffective_is_a_warning(
    load_it: Load, base: dict[str, Any]
) -> None:
    base["cluster"]["engine"] = {"max_cudagraph_capture_size": 64}
    loaded = load_it(base, "cluster.engine.enforce_eager=true")
    assert loaded.warnings == (
        "cluster.engine.max_cudagraph_capture_size has no effect: no graph is captured, for enforce_eager is true "
        "(check graphs-when-eager)",
    )


def test_an_override_does_not_excuse_a_mistake_of_the_file(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["engine"] = {"scheduling": "edf"}
    with pytest.raises(ScenarioError, match="no effect"):
        load_it(base, "run.seed=3")


@pytest.mark.parametrize(
    "options",
    [
        {"long_prefill_token_threshold": 0, "chunked_prefill": False, "max_model_len": 8192},
        {"scheduling": "fcfs"},
        {"enforce_eager": False, "max_cudagraph_capture_size": 64},
        {"long_prefill_token_threshold": 1024},
    ],
)
def test_defaults_off_values_and_effective_options_pass(
    options: dict[str, Any], load_it: Load, base: dict[str, Any]
) -> None:
    base["cluster"]["engine"] = options
    assert load_it(base).warnings == ()


def test_deadlines_and_priorities_that_classes_give_pass(load_it: Load, base: dict[str, Any]) -> None:
    classes = [{"name": "a", "slo": {"ttft_ms": 5}}, {"name": "b", "priority": 1}]
    base["workload"]["classes"] = classes
    for policy in ("edf", "priority"):
        base["cluster"]["engine"] = {"scheduling": policy}
        assert load_it(base).scenario.cluster.pools[0].engine.scheduling.policy == policy


def test_a_setting_for_all_pools_counts_as_long_as_one_of_them_uses_it(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"] |= {
        "engine": {"max_cudagraph_capture_size": 64},
        "pools": [{"name": "a", "engine": {"enforce_eager": True}}, {"name": "b"}],
    }
    assert load_it(base).warnings == ()
    eager_too = deep_merge(base, {"cluster": {"pools": [{"name": "b", "engine": {"enforce_eager": True}}]}})
    with pytest.raises(ScenarioError, match="no effect") as caught:
        load_it(eager_too)
    assert caught.value.path == "cluster.engine.max_cudagraph_capture_size"


def test_an_option_of_one_pool_has_that_pools_place(load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"]["pools"] = [{"name": "a"}, {"name": "b", "engine": {"scheduling": "edf"}}]
    with pytest.raises(ScenarioError) as caught:
        load_it(base)
    assert caught.value.path == "cluster.pools.1.engine.scheduling"


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"hardware": "l40s", "pools": [{"name": "a", "hardware": "h100-sxm"}]}, "cluster.hardware"),
        ({"replicas": 3, "pools": [{"name": "a", "replicas": 2}]}, "cluster.replicas"),
        (
            {"engine": {"max_num_seqs": 3}, "pools": [{"name": "a", "engine": {"max_num_seqs": 5}}]},
            "cluster.engine.max_num_seqs",
        ),
    ],
)
def test_what_every_pool_overrules(part: dict[str, Any], path: str, load_it: Load, base: dict[str, Any]) -> None:
    base["cluster"] = {"hardware": "h100-sxm", **part}
    with pytest.raises(ScenarioError, match="every pool has its own") as caught:
        load_it(base)
    assert caught.value.path == path
