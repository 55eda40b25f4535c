"""The rows of the tables of errors, as the terminal and the Markdown report have them."""

from __future__ import annotations

from typing import Any

from servetwin.report.validation_rows import case_rows, cases_by, error_rows, main_only, ordered, shown, wide_rows

GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "serving": {"e2e_ms.p50": {"mape_mean": 3.0, "n": 1}, "e2e_ms.mean": {"mape_mean": 2.0, "n": 4}},
    "pd": {"itl_ms.p99": {"mape_mean": 9.0, "n": 2}},
    "spec_decode": {},
}


def mean(row: Any) -> str:
    return f"{row['mape_mean']:.1f}"


def number(row: Any) -> str:
    return str(row["n"])


def test_the_metrics_of_the_short_tables_come_first() -> None:
    assert ordered(["itl_ms.p99", "e2e_ms.mean", "e2e_ms.p50", "ttft_ms.mean"]) == [
        "ttft_ms.mean", "e2e_ms.mean", "e2e_ms.p50", "itl_ms.p99",
    ]  # fmt: skip


def test_a_group_without_metrics_says_so() -> None:
    assert error_rows(GROUPS, (mean, number)) == [
        ("serving", "e2e_ms.mean", "2.0", "4"), ("serving", "e2e_ms.p50", "3.0", "1"), ("pd", "itl_ms.p99", "9.0", "2"),
        ("spec_decode", "–", "–", "0"),
    ]  # fmt: skip


def test_short_tables() -> None:
    assert error_rows(main_only(GROUPS), (mean, number)) == [
        ("serving", "e2e_ms.mean", "2.0", "4"), ("pd", "–", "–", "0"), ("spec_decode", "–", "–", "0"),
    ]  # fmt: skip


def test_wide_tables_have_a_row_for_each_group() -> None:
    assert shown(GROUPS) == ["e2e_ms.mean"]
    assert shown(GROUPS, ["e2e_ms.mean"]) == []
    assert wide_rows(main_only(GROUPS), ["e2e_ms.mean"], mean) == [
        ("serving", "2.0", "4"), ("pd", "–", "0"), ("spec_decode", "–", "0"),
    ]  # fmt: skip
    assert wide_rows(GROUPS, [], mean, {"serving": 9}) == [("serving", "9"), ("pd", "0"), ("spec_decode", "0")]


def test_cases_by_a_column() -> None:
    rows = [{"engine": "vllm"}, {"engine": "sglang"}, {"engine": "vllm"}]
    assert cases_by(rows, "engine") == {"vllm": 2, "sglang": 1}


def test_every_scored_case_has_a_row() -> None:
    """The absolute error is that of the metric that orders the kind, and a metric that a case lacks is a dash."""
    traits = {"hardware": "h200-sxm", "model": "gpt-oss-120b", "precision": "mxfp4", "engine": "trtllm"}
    errors = {
        "tpot_ms.mean": {"mape": 12.0, "signed_mean": -1.0, "points": 6},
        "ttft_ms.mean": {"mape": 30.0, "signed_mean": 30.0, "points": 5},
    }
    speed = {"output_throughput": {"mape": 7.0, "signed_mean": 7.0, "points": 1}}
    scores = [
        {"id": "a", "kind": "concurrency_sweep", **traits, "errors": errors},
        {"id": "b", "kind": "throughput_table", **traits, "errors": speed},
        {"id": "c", "kind": "of my own", **traits, "errors": speed},
    ]
    primary = {"concurrency_sweep": "tpot_ms.mean", "throughput_table": "output_throughput"}
    head, rows = case_rows(scores, primary, lambda value: f"{value:+.0f}")
    assert head == [
        "case", "hardware", "model", "precision", "engine", "TTFT", "TPOT", "tokens/s", "absolute", "points",
    ]  # fmt: skip
    assert rows == [
        ("a", "h200-sxm", "gpt-oss-120b", "mxfp4", "trtllm", "+30", "-1", "–", "12.0", "6"),
        ("b", "h200-sxm", "gpt-oss-120b", "mxfp4", "trtllm", "–", "–", "+7", "7.0", "1"),
        ("c", "h200-sxm", "gpt-oss-120b", "mxfp4", "trtllm", "–", "–", "+7", "–", "1"),
    ]  # fmt: skip
