"""Separate prefill and decode workers against measured ones, and the order of deployments under the same load."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.studies.validation import RunOptions, build_document, make_plan, read_case_file, run_plan

CASES = Path(__file__).resolve().parents[3] / "shared" / "validation" / "cases.json"
KINDS = ("pd", "pd_sweep")
LLMD_ON_H100 = ("pd-llmd-H100-llm-d-1p1d", "pd-llmd-H100-vllm-2replicas")


@cache
def answer() -> dict[str, Any]:
    """What ``servetwin validate`` says of both kinds."""
    if not CASES.parents[1].exists():
        pytest.skip(f"the measured runs are not here: {CASES.parents[1]}")
    todo = make_plan(read_case_file(CASES).choose(kinds=KINDS), Catalog())
    return build_document(todo, run_plan(todo, RunOptions()))


def errors(metric: str) -> dict[str, float]:
    """The mean absolute error of each case of kind pd [%]."""
    return {
        row["id"]: row["errors"][metric]["mape"]
        for row in answer()["scores"]
        if row["kind"] == "pd" and metric in row["errors"]
    }


def test_what_waits_needs_experts_or_attention_in_parallel() -> None:
    waiting = answer()["not_yet"]
    assert len(waiting) == 9
    assert all("parallelism" in row["reason"] for row in waiting)
    assert sum(row["kind"] == "pd_sweep" for row in waiting) == 8
    assert not answer()["unpredicted"]


def test_transfers_of_every_size() -> None:
    found = [row for row in answer()["cases"] if row["metric"] == "transfer_ms.mean"]
    assert len(found) == 9
    assert all(abs(row["error_pct"]) < 10 for row in found), found


def test_the_median_errors() -> None:
    assert len(errors("ttft_ms.mean")) == 10
    assert median(errors("ttft_ms.mean").values()) <= 18
    assert len(errors("tpot_ms.mean")) == 8
    assert median(errors("tpot_ms.mean").values()) <= 15


@pytest.mark.parametrize("case", ["pd-distserve-opt13b-distserve", "pd-distserve-opt13b-distserve-c21d11"])
def test_distserve(case: str) -> None:
    assert errors("tpot_ms.mean")[case] <= 15
    assert errors("ttft_ms.mean")[case] <= 18
    assert errors("e2e_ms.mean")[case] <= 10
    singles = [row["median_error_pct"] for row in answer()["per_request"] if row["id"] == case]
    assert len(singles) >= 9
    assert max(singles) <= 20


def test_deployments_come_out_in_the_measured_order() -> None:
    rows = answer()["orders"]
    right = {(*row["deployments"], row["metric"]) for row in rows if row["verdict"] == "right"}
    assert {(*LLMD_ON_H100, "ttft_ms.mean"), (*LLMD_ON_H100, "tpot_ms.mean")} <= right
    assert ("1P1D", "2_regular", "e2e_ms.mean") in right
    assert ("1P1D", "2_regular", "itl_ms.mean") in right


ON_A100 = "on A100 llm-d's and its rival come out alike, where one was measured 9 to 30 % slower; why is not known"


@pytest.mark.xfail(strict=True, raises=AssertionError, reason=ON_A100)
def test_no_deployments_come_out_in_the_wrong_order() -> None:
    """The aim. What is wrong stands in docs/accuracy.md; this fails as soon as it holds, and then loses its mark."""
    assert not [row for row in answer()["orders"] if row["verdict"] == "wrong"]


def test_only_llm_d_on_a100_comes_out_in_the_wrong_order() -> None:
    wrong = [row["deployments"][0] for row in answer()["orders"] if row["verdict"] == "wrong"]
    assert set(wrong) <= {"pd-llmd-A100-llm-d-1p1d", "pd-llmd-A100-llm-d-2p1d"}
