"""Prefill and decode on different replicas: equal to the naive engine, and at all stepping levels."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.oracle.levels import check_levels, resolved, simulate
from tests.oracle.naive_scenarios import compare, compare_hand_overs, naive
from tests.oracle.split_scenarios import DRAFTING, KINDS, LEAVING, PIPELINED, PLAIN, scenario

#: The naive engine knows nothing of replicas that leave.
NUMBERS = {PLAIN: 60, DRAFTING: 25, PIPELINED: 15, LEAVING: 0}


@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind in KINDS for number in range(NUMBERS[kind])])
def test_equals_naive(kind: str, number: int) -> None:
    case = resolved(scenario(kind, number))
    _, result = simulate(case)
    expected = naive(case)
    compare(result, expected)
    compare_hand_overs(result, expected)


@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind in KINDS for number in range(100, 112)])
def test_levels_agree(kind: str, number: int, tmp_path: Path) -> None:
    case = resolved(scenario(kind, number, tensor=kind == PLAIN))
    check_levels(case, tmp_path, strict=True, disturbed=True)


@pytest.mark.parametrize("number", range(200, 206))
def test_levels_agree_when_a_run_is_cut_short(number: int, tmp_path: Path) -> None:
    case = resolved(scenario(PLAIN, number))
    check_levels(case, tmp_path, until_ps=400_000_000_000 + number, strict=True, disturbed=True)


def test_the_cases_are_not_idle() -> None:
    """Together they have everything that may happen to a hand-over."""
    found = {"failed": 0, "again": 0, "preempted": 0, "expired": 0, "whole": 0, "split": 0}
    for number in range(40):
        _, result = simulate(resolved(scenario(PLAIN, number)))
        table, summary = result.hand_overs, result.summary()
        found["failed"] += summary["failed"]
        found["preempted"] += summary["preemptions"]
        found["again"] += int((table.column("attempts") > 1).sum()) if len(table) else 0
        found["expired"] += (
            int(((table.column("start_ps") < 0) & (table.column("kept_ps") >= 0)).sum()) if len(table) else 0
        )
        found["split"] += len(table)
        found["whole"] += len(result.table) - len(table)
    assert all(found.values()), found
