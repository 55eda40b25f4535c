"""The rows of the tables of errors, as the terminal and the Markdown report have them."""

from __future__ import annotations

from typing import Any

from servetwin.report.validation_rows import error_rows, main_only, ordered

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
