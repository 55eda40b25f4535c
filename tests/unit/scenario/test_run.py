"""From a scenario to results: the one build path, its settings, and what a run leaves."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.scenario.build import build
from servetwin.scenario.load import LoadedScenario, load_scenario, validate_mapping
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.run import RunInterrupted
from servetwin.scenario.slowdown import NOT_IN_STEPS, slow_down

Load = Callable[..., LoadedScenario]


def test_settings_reach_the_engine(base: dict[str, Any]) -> None:
    base["cluster"]["engine"] = {
        "max_num_batched_tokens": 512,
        "max_num_seqs": 30,
        "max_model_len": 4000,
        "block_size": 32,
        "prefix_caching": False,
        "long_prefill_token_threshold": 128,
        "scheduler_reserve_full_isl": False,
        "watermark": 0.01,
        "async_scheduling": False,
        "num_gpu_blocks_override": 777,
        "max_cudagraph_capture_size": 16,
    }
    simulation = build(validate_mapping(base))
    settings = simulation.cluster.replicas[0].executor.settings
    assert (settings.max_num_batched_tokens, settings.max_num_seqs, settings.max_model_len) == (512, 30, 4000)
    assert (settings.block_size, settings.num_blocks, settings.watermark_blocks) == (32, 777, 7)
    assert (settings.prefix_caching, settings.reserve_full_prompt, settings.depth) == (False, False, 0)
    assert settings.long_prefill_token_threshold == 128
    assert settings.graph_sizes == (1, 2, 4, 8, 16)
    calibration = Catalog().calibration("default")
    assert settings.front_end_ps == round(calibration.front_end_s * 1e12)
    assert settings.output_ps_per_request == round(calibration.output_s_per_request * 1e12)


def test_eager_engines_capture_nothing(base: dict[str, Any]) -> None:
    base["cluster"]["engine"] = {"enforce_eager": True}
    assert build(validate_mapping(base)).cluster.replicas[0].executor.settings.graph_sizes == ()


def test_pools_become_replicas_in_order(base: dict[str, Any]) -> None:
    base["cluster"] = {
        "pools": [
            {"name": "a", "replicas": 2, "hardware": "h100-sxm"},
            {"name": "b", "replicas": 1, "hardware": "a100-sxm-80gb", "parallel": {"tensor": 2}},
        ]
    }
    simulation = build(validate_mapping(base))
    assert [(r.index, r.pool, r.executor.gpus) for r in simulation.cluster.replicas] == [
        (0, 0, 1), (1, 0, 1), (2, 1, 2),
    ]  # fmt: skip
    meta = simulation.recorder.meta
    assert [(pool.name, pool.first_replica, pool.hardware) for pool in meta.pools] == [
        ("a", 0, "h100-sxm"), ("b", 2, "a100-sxm-80gb"),
    ]  # fmt: skip
    assert meta.gpus == 4
    a100 = Catalog().gpu("a100-sxm-80gb")
    assert meta.pools[1].peak_bytes_per_s == 2 * a100.hbm_bytes_per_s


def test_both_pools_serve(base: dict[str, Any]) -> None:
    base["cluster"] = {
        "hardware": "h100-sxm",
        "pools": [{"name": "a"}, {"name": "b", "hardware": "l40s", "engine": {"max_model_len": 8192}}],
    }
    frame = servetwin.run(base).requests()
    assert set(frame["pool"]) == {"a", "b"}
    assert frame.groupby("pool").tpot_ms.mean()["b"] > 2 * frame.groupby("pool").tpot_ms.mean()["a"]


@pytest.mark.parametrize("policy", ["round-robin", "random", "least-requests", "least-tokens", "power-of-two"])
def test_every_router_runs_and_every_request_ends(policy: str, base: dict[str, Any]) -> None:
    base["cluster"]["replicas"] = 3
    result = servetwin.run(base, router=policy, run__requests=60, workload__arrivals__rate_per_s=300)
    assert result.summary()["completed"] == 60
    assert set(result.requests()["replica"]) == {0, 1, 2}


def test_admission_rejects_with_its_reason(base: dict[str, Any]) -> None:
    result = servetwin.run(
        base,
        admission={"policy": "max-requests", "requests": 3},
        workload__arrivals={"process": "bursts", "size": 10},
    )
    summary = result.summary()
    assert (summary["completed"], summary["rejected"]) == (3, 7)


@pytest.mark.parametrize("scheduling", ["fcfs", "priority", "sjf", "edf"])
def test_every_scheduler_gives_the_same_at_every_stepping_level(scheduling: str, base: dict[str, Any]) -> None:
    base["cluster"]["engine"] = {
        "scheduling": scheduling, "max_num_seqs": 4, "num_gpu_blocks_override": 60, "max_model_len": 900,
    }  # fmt: skip
    base["workload"] = {
        "arrivals": {"rate_per_s": 40},
        "prompts": {"distribution": "uniform", "min": 5, "max": 300},
        "outputs": {"distribution": "uniform", "min": 1, "max": 60},
        "prefixes": {"groups": 3, "tokens": 64},
        "classes": [
            {"name": "a", "priority": 0, "slo": {"ttft_ms": 100}},
            {"name": "b", "priority": 1, "slo": {"ttft_ms": 900}},
        ],
    }
    base["run"] = {"requests": 80}
    summaries = []
    for stepping in ("skip-ahead", "every-step", "every-operation"):
        summary = servetwin.run(base, run__stepping=stepping, strict=True).summary()
        summaries.append(
            {key: value for key, value in summary.items() if key not in ("events", "wall_s", "cpu_s", "started_at")}
        )
    assert summaries[0] == summaries[1] == summaries[2]
    assert summaries[0]["completed"] == 80


def test_priorities_and_deadlines_change_who_waits() -> None:
    options = {"run__requests": 1500}
    waits = {}
    for policy in ("fcfs", "priority", "edf"):
        frame = servetwin.run("priority-classes", cluster__engine__scheduling=policy, **options).requests()
        waits[policy] = frame.groupby("class").ttft_ms.mean()
    assert waits["priority"]["chat"] < waits["fcfs"]["chat"]
    assert waits["priority"]["batch"] > waits["fcfs"]["batch"]


def test_the_seed_changes_the_requests_and_nothing_else_does(base: dict[str, Any]) -> None:
    one = servetwin.run(base).requests()
    assert one.equals(servetwin.run(base).requests())
    assert not one.equals(servetwin.run(base, run__seed=1).requests())
    routed = servetwin.run(base, router="random", cluster__replicas=2).requests()
    assert list(routed["arrival_s"]) == list(one["arrival_s"])
    assert list(routed["prompt_tokens"]) == list(one["prompt_tokens"])


def test_a_duration_ends_the_arrivals(base: dict[str, Any]) -> None:
    base["run"] = {"duration_s": 2}
    frame = servetwin.run(base).requests()
    assert 4 < len(frame) < 40
    assert frame["arrival_s"].max() < 2
    assert (frame["outcome"] == "completed").all()


def test_files_are_written_and_the_resolved_scenario_gives_the_same_bytes(base: dict[str, Any], tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    servetwin.run(base, out=first)
    servetwin.run(first / "scenario.yaml", out=second)
    names = {"scenario.yaml", "summary.json", "ledger.json", "requests.parquet", "timeseries.parquet"}
    assert {file.name for file in first.iterdir()} == names
    for name in names - {"summary.json"}:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    one, two = (json.loads((folder / "summary.json").read_text()) for folder in (first, second))
    for key in ("wall_s", "cpu_s", "started_at", "out"):
        assert one.pop(key) is not None
        two.pop(key)
    assert one == two


def test_out_that_cannot_be_written_is_an_input_error(base: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written") as caught:
        servetwin.run(base, out=tmp_path / "file" / "run")
    assert caught.value.file is not None


def test_progress_is_told_and_changes_nothing(base: dict[str, Any]) -> None:
    base["run"] = {"requests": 1000}
    calls: list[tuple[int, int | None, int]] = []
    told = servetwin.run(base, progress=lambda *how_far: calls.append(how_far))
    assert [call[0] for call in calls] == [256, 512, 768]
    assert {call[1] for call in calls} == {1000}
    quiet = servetwin.run(base)
    assert told.summary()["events"] == quiet.summary()["events"]


def test_ctrl_c_keeps_what_was_finished(base: dict[str, Any], tmp_path: Path) -> None:
    base["run"] = {"requests": 5000}
    handler = signal.getsignal(signal.SIGINT)

    def press(ended: int, _expected: int | None, _now: int) -> None:
        if ended == 512:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(RunInterrupted, match=r"after 51\d of 5,000 requests: what was finished is in") as caught:
        servetwin.run(base, out=tmp_path / "run", progress=press)
    assert signal.getsignal(signal.SIGINT) is handler
    summary = caught.value.result.summary()
    assert 511 <= summary["completed"] <= 515
    assert any("interrupted" in warning for warning in summary["warnings"])
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["completed"] == summary["completed"]


def test_slowdown_multiplies_every_step() -> None:
    catalog = Catalog()
    for name, tensor, weights in (("llama-3.1-8b", 2, "bf16"), ("mixtral-8x7b", 4, "fp8")):
        gpu, calibration = catalog.gpu("h100-sxm"), catalog.calibration("default")
        prices = []
        for factor in (1.0, 3.0):
            slow_gpu, slow_calibration = slow_down(gpu, calibration, factor)
            step_time = RooflineStepTime(
                catalog.model(name), slow_gpu, tensor=tensor, weights=weights, kv_cache="bf16", sampling="top-p",
                calibration=slow_calibration,
            )  # fmt: skip
            prices.append(
                [
                    step_time.price(StepShape(8, 8, True, 8, 8, (9000,), (8,))),
                    step_time.price(StepShape(2000, 2000, False, 8, 7, (9000,), (7,), ((1993, 500),))),
                ]
            )
        for fast, slow in zip(*prices, strict=True):
            # Every coefficient is rounded to a picosecond of its own: far below a part in a million.
            assert slow.total_ps == pytest.approx(3 * fast.total_ps, rel=1e-6)
            assert slow.growth_ps == pytest.approx(3 * fast.growth_ps, rel=1e-4, abs=10)


NO_TIMES = {
    "name", "engine", "base", "roofline_power", "tile_attention", "element_wise", "expert_overlap", "link_efficiency",
    "send_efficiency", "across_efficiency", "across_duplex", "launch", "experts_launch", "all_reduce",
    "unavailable_bytes", "overhead_bytes", "collectives_bytes", "architectures", "sources",
}  # fmt: skip
"""Fields of a calibration that say what it is, shares and multiples, and memory."""


def test_a_slowdown_leaves_out_no_time_of_a_step() -> None:
    """Every field of a calibration is three times as long, or one of those that are known to stay as they are."""
    gpu, calibration = Catalog().gpu("h100-sxm"), Catalog().calibration("default")
    times = {field.name: 1.5 for field in fields(calibration) if field.type == "float"}
    plain = replace(calibration, **times)
    _, slow = slow_down(gpu, plain, 3.0)
    stays = {field.name for field in fields(plain) if getattr(slow, field.name) == getattr(plain, field.name)}
    assert stays == NO_TIMES | set(NOT_IN_STEPS)
    assert {getattr(slow, name) for name in times.keys() - stays} == {4.5}


def test_a_slowdown_slows_a_synchronous_scheduler_for_each_request(base: dict[str, Any]) -> None:
    base["cluster"]["engine"] = {"async_scheduling": False}
    base["workload"] |= {"arrivals": {"process": "all-at-once"}, "outputs": 50}
    plain = servetwin.run(base, run__requests=200).summary()
    slow = servetwin.run(base, run__requests=200, cluster__slowdown=8.0).summary()
    assert slow["tpot_ms.mean"] == pytest.approx(8 * plain["tpot_ms.mean"], rel=0.01)


def test_slowdown_makes_latencies_longer(base: dict[str, Any]) -> None:
    base["workload"]["arrivals"]["rate_per_s"] = 0.5
    plain = servetwin.run(base).summary()
    slow = servetwin.run(base, cluster__slowdown=2.0).summary()
    assert slow["tpot_ms.mean"] == pytest.approx(2 * plain["tpot_ms.mean"], rel=0.02)


def test_sampling_costs_time(base: dict[str, Any]) -> None:
    greedy = servetwin.run(base).summary()["tpot_ms.mean"]
    assert servetwin.run(base, workload__sampling="top-p").summary()["tpot_ms.mean"] > greedy


def test_a_scenario_object_can_be_changed_and_run() -> None:
    scenario = load_scenario("bench-8b", ["run.requests=30"])
    assert servetwin.run(scenario).summary()["completed"] == 30
    assert servetwin.run(scenario, run__requests=10).summary()["completed"] == 10


def test_a_plain_mapping_needs_no_file(base: dict[str, Any]) -> None:
    changed = deep_merge(base, {"run": {"requests": 5}})
    assert servetwin.run(changed).summary()["completed"] == 5
