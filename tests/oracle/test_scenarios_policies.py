"""Every policy and every engine option, short of blocks and seats, at all three stepping levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.oracle.levels import check_levels, resolved

from servetwin.policies.registry import names

CLASSES = [
    {"name": "urgent", "share": 2, "priority": 0, "slo": {"ttft_ms": 100}},
    {"name": "patient", "share": 1, "priority": 1, "slo": {"ttft_ms": 900}},
    {"name": "idle", "share": 1, "priority": 2},
]
WORKLOADS: dict[str, dict[str, Any]] = {
    "open": {
        "arrivals": {"process": "gamma", "rate_per_s": 90, "cv": 2.5},
        "prompts": {"distribution": "lognormal", "mean": 250, "std": 300, "max": 900},
        "outputs": {"distribution": "uniform", "min": 1, "max": 60},
        "prefixes": {"groups": 3, "tokens": 100, "zipf_exponent": 1.0},
        "classes": CLASSES,
    },
    "bursts": {
        "arrivals": {"process": "bursts", "size": 16, "interval_s": 0.2},
        "prompts": {"distribution": "uniform", "min": 5, "max": 400},
        "outputs": {"distribution": "uniform", "min": 1, "max": 60},
        "prefixes": {"groups": 2, "tokens": 64, "prompts_per_group": 4},
        "classes": CLASSES,
    },
    "closed loop": {
        "arrivals": {"process": "closed-loop", "concurrency": 18},
        "prompts": {"distribution": "uniform", "min": 5, "max": 500},
        "outputs": {"distribution": "uniform", "min": 1, "max": 60},
        "classes": CLASSES,
    },
    "sessions": {
        "arrivals": {"rate_per_s": 60},
        "prompts": {"distribution": "uniform", "min": 5, "max": 200},
        "outputs": {"distribution": "uniform", "min": 1, "max": 60},
        "prefixes": {"groups": 2, "tokens": 64},
        "sessions": {"turns": {"distribution": "uniform", "min": 1, "max": 4}, "think_time_s": 0.05},
        "classes": CLASSES,
    },
    "sessions of clients": {
        "arrivals": {"process": "closed-loop", "concurrency": 9, "ramp_s": 0.1, "think_time_s": 0.02},
        "prompts": {"distribution": "uniform", "min": 5, "max": 200},
        "outputs": {"distribution": "uniform", "min": 1, "max": 60},
        "sessions": {"turns": {"distribution": "uniform", "min": 1, "max": 4}, "think_time_s": 0},
        "classes": CLASSES,
    },
}
TIGHT = {
    "max_model_len": 1_400, "num_gpu_blocks_override": 95, "max_num_seqs": 12, "max_num_batched_tokens": 400,
}  # fmt: skip
ADMISSIONS: dict[str, dict[str, Any]] = {
    "always": {}, "max-requests": {"requests": 12}, "max-queue": {"waiting": 2}, "max-tokens": {"tokens": 3_000},
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "synchronous": {"async_scheduling": False},
    "no prefix caching": {"prefix_caching": False},
    "long prompts in pieces": {"long_prefill_token_threshold": 70},
    "whole prompts": {"chunked_prefill": False, "max_num_batched_tokens": 1_400},
    "admission by the first chunk": {"scheduler_reserve_full_isl": False},
    "watermark": {"watermark": 0.1},
    "large blocks": {"block_size": 64, "num_gpu_blocks_override": 24},
    "single tokens": {"block_size": 1, "num_gpu_blocks_override": 1_500},
    "one seat": {"max_num_seqs": 1},
    "eager": {"enforce_eager": True},
}


def case(workload: str, engine: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "model": "llama-3.1-8b",
        "cluster": {"hardware": "h100-sxm", "engine": TIGHT | (engine or {})},
        "workload": WORKLOADS[workload],
        "run": {"requests": 45, "seed": 5},
        **more,
    }


def check(scenario: dict[str, Any], folder: Path) -> dict[str, Any]:
    summary = check_levels(resolved(scenario), folder, strict=True)
    assert summary["requests"] == summary["completed"] + summary["rejected"]
    assert summary["completed"] > 10
    return summary


@pytest.mark.parametrize("scheduling", names("scheduling"))
@pytest.mark.parametrize(
    ("workload", "asynchronous"),
    [
        ("open", True), ("open", False), ("bursts", True), ("closed loop", False), ("sessions", True),
        ("sessions", False), ("sessions of clients", True),
    ],
)  # fmt: skip
def test_scheduling(scheduling: str, asynchronous: bool, workload: str, tmp_path: Path) -> None:
    summary = check(case(workload, {"scheduling": scheduling, "async_scheduling": asynchronous}), tmp_path)
    if workload != "sessions of clients":
        assert summary["preemptions"] > 0


@pytest.mark.parametrize("policy", names("routing"))
@pytest.mark.parametrize("workload", ["open", "bursts", "sessions"])
def test_routing(policy: str, workload: str, tmp_path: Path) -> None:
    """Replicas of different speed, some of whose steps are in the middle when the router looks."""
    slower = {"name": "slower", "hardware": "a100-sxm-80gb", "replicas": 1, "engine": {"async_scheduling": False}}
    scenario = case(workload, router={"policy": policy})
    scenario["cluster"] |= {"pools": [{"name": "faster", "replicas": 2}, slower]}
    check(scenario, tmp_path)


@pytest.mark.parametrize("policy", names("admission"))
@pytest.mark.parametrize("workload", ["bursts", "closed loop"])
def test_admission(policy: str, workload: str, tmp_path: Path) -> None:
    summary = check(case(workload, admission={"policy": policy, **ADMISSIONS[policy]}), tmp_path)
    assert (summary["rejected"] > 0) == (policy != "always")


@pytest.mark.parametrize("option", OPTIONS)
def test_option(option: str, tmp_path: Path) -> None:
    check(case("open", OPTIONS[option]), tmp_path)


def test_requests_that_never_fit_are_rejected_at_every_level(tmp_path: Path) -> None:
    """Too long for the model, or for the blocks; sessions and clients go on without them."""
    for workload in ("open", "sessions", "closed loop"):
        summary = check(case(workload, {"max_model_len": 500, "num_gpu_blocks_override": 28}), tmp_path)
        reasons = " ".join(summary["rejected_reasons"])
        assert "max_model_len 500" in reasons and ": 27 blocks of" in reasons
