"""Each class by itself: what its requests were promised, and how many got it."""

from __future__ import annotations

import numpy as np
import pytest

import servetwin

WORKLOAD = {
    "arrivals": {"rate_per_s": 20},
    "prompts": {"distribution": "lognormal", "mean": 700, "std": 600, "max": 8000},
    "outputs": {"distribution": "lognormal", "mean": 200, "std": 150, "min": 1, "max": 1000},
    "classes": [
        {"name": "chat", "share": 3, "slo": {"ttft_ms": 60, "tpot_ms": 11}},
        {"name": "batch", "slo": {"e2e_ms": 2000}},
        {"name": "rest"},
    ],
}
SCENARIO = {"model": "llama-3.1-8b", "cluster": {"hardware": "h100-sxm"}, "workload": WORKLOAD}


@pytest.mark.parametrize("warmup", [0, 100])
def test_attainment_and_goodput_are_those_of_the_table(warmup: int) -> None:
    result = servetwin.run(SCENARIO, run__requests=800, run__warmup_requests=warmup)
    summary, table = result.summary(), result.requests()
    classes = summary["classes"]
    assert list(classes) == ["chat", "batch", "rest"]
    late = table["arrival_s"].rank(method="first") > warmup
    kept = {
        "chat": (table["ttft_ms"] <= 60) & ~(table["tpot_ms"] > 11),
        "batch": table["e2e_ms"] <= 2000,
    }
    for name, good in kept.items():
        own = table["class"] == name
        figures = classes[name]
        assert figures["requests"] == figures["completed"] == own.sum()
        assert figures["slo_attainment"] == pytest.approx((good & own & late).sum() / (own & late).sum())
        assert 0.05 < figures["slo_attainment"] < 0.95, "the limits bite"
        assert figures["goodput_per_s"] == pytest.approx((good & own).sum() / summary["duration_s"])
        assert figures["ttft_ms.p90"] == pytest.approx(np.percentile(table["ttft_ms"][own & late], 90))
    assert classes["chat"]["limits_ms"] == {"ttft_ms": 60, "tpot_ms": 11}
    assert classes["rest"]["slo_attainment"] is None
    assert sum(figures["requests"] for figures in classes.values()) == summary["requests"]


def test_a_class_without_limits_is_held_to_those_of_the_scenario() -> None:
    result = servetwin.run(SCENARIO | {"slo": {"goodput": {"ttft_ms": 60}}}, run__requests=400)
    table, rest = result.requests(), result.summary()["classes"]["rest"]
    own = table["class"] == "rest"
    assert rest["limits_ms"] == {"ttft_ms": 60}
    assert rest["slo_attainment"] == pytest.approx((table["ttft_ms"][own] <= 60).mean())


def test_no_classes_no_figures() -> None:
    assert servetwin.run("quickstart", run__requests=50).summary()["classes"] == {}
