"""What runs but probably is not what was meant is said, once, by name."""

from __future__ import annotations

from typing import Any

import pytest

import servetwin
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.remarks import REMARKS

CLASSES = [{"name": "a", "priority": 0}, {"name": "b", "priority": 1}]

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown-version": ({"engine": {"version": "0.99"}}, "engine.version 0.99"),
    "more-blocks-than-memory": (
        {"cluster": {"engine": {"num_gpu_blocks_override": 100_000}}},
        "cluster.pools.0.engine.num_gpu_blocks_override is 100,000",
    ),
    "router-of-one-replica": ({"router": {"policy": "least-tokens"}}, "router.policy least-tokens has no effect"),
    "priorities-not-used": ({"workload": {"classes": CLASSES}}, "engine.scheduling is fcfs"),
    "sessions-of-one-turn": (
        {"workload": {"sessions": {"turns": 1, "think_time_s": 3, "turn_prompts": 5}}},
        "think_time_s and turn_prompts have no effect",
    ),
}

QUIET: dict[str, dict[str, Any]] = {
    "unknown-version": {"engine": {"version": "0.24.3"}},
    "more-blocks-than-memory": {"cluster": {"engine": {"num_gpu_blocks_override": 1000, "max_model_len": 1000}}},
    "router-of-one-replica": {"cluster": {"replicas": 2}, "router": {"policy": "least-tokens"}},
    "priorities-not-used": {
        "workload": {"classes": CLASSES},
        "cluster": {"engine": {"scheduling": "priority"}},
    },
    "sessions-of-one-turn": {"workload": {"sessions": {"turns": 2, "think_time_s": 3}}},
}


def warnings_of(base: dict[str, Any], change: dict[str, Any]) -> list[str]:
    found: list[str] = servetwin.run(deep_merge(base, change)).summary()["warnings"]
    return [text for text in found if "(check " in text]


def test_every_remark_has_a_case() -> None:
    assert {remark.name for remark in REMARKS} == set(CASES) == set(QUIET)


@pytest.mark.parametrize("name", CASES)
def test_a_remark(name: str, base: dict[str, Any]) -> None:
    change, words = CASES[name]
    (text,) = warnings_of(base, change)
    assert words in text and text.endswith(f"(check {name})")


@pytest.mark.parametrize("name", QUIET)
def test_nothing_to_remark(name: str, base: dict[str, Any]) -> None:
    assert warnings_of(base, QUIET[name]) == []


def test_a_run_without_requests(base: dict[str, Any]) -> None:
    base["run"] = {"duration_s": 1e-6}
    warnings = servetwin.run(base).summary()["warnings"]
    assert any("no request arrived" in text and "run.duration_s" in text for text in warnings)
