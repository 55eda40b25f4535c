"""Orders of deployments, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.studies.validation.small_cases import LATENCIES, case, write

from servetwin.report.validation_markdown import order_blocks
from servetwin.studies.validation import Plan, Point, Trial, read_case_file
from servetwin.studies.validation.orders import orders
from servetwin.studies.validation.scoring import Entry


def found(
    folder: Path, cases: list[dict[str, Any]], figures: list[tuple[int, str, float, float]]
) -> list[dict[str, Any]]:
    """The orders of figures of TPOT: case, stage, measured, predicted."""
    todo = Plan(read_case_file(write(folder, cases)).cases)
    entries = [Entry(index, stage, "tpot_ms.mean", *pair, True) for index, stage, *pair in figures]
    return orders(todo, entries)


def compared(name: str, rate: float = 2.0, **fields: Any) -> dict[str, Any]:
    """A case whose deployment is its name."""
    return case(name, "pd", workload={"rate": rate}, measured={"run_1": LATENCIES}, **fields)


def test_cases_under_the_same_load_are_compared(tmp_path: Path) -> None:
    cases = [compared("a"), compared("b"), compared("c", rate=3.0), compared("d", hardware="H200")]
    (row,) = found(tmp_path, cases, [(place, "all", 10.0 + 5 * place, 20.0 + place) for place in range(4)])
    assert (row["ids"], row["deployments"], row["verdict"]) == (["a", "b"], ["a", "b"], "right")
    assert (row["measured"], row["predicted"]) == ([10.0, 15.0], [20.0, 21.0])
    assert row["noise_pct"] == 16.0


@pytest.mark.parametrize(
    ("measured", "predicted", "verdict"),
    [((10, 12), (5, 6), "right"), ((10, 12), (6, 5), "wrong"), ((10, 12), (5, 5), "wrong"), ((10, 11), (6, 5), "tie")],
)
def test_verdicts(tmp_path: Path, measured: tuple[float, float], predicted: tuple[float, float], verdict: str) -> None:
    figures = [(place, "conc_4", measured[place], predicted[place]) for place in range(2)]
    (row,) = found(tmp_path, [compared("a"), compared("b")], figures)
    assert row["verdict"] == verdict


def test_repetitions_say_how_large_the_noise_is(tmp_path: Path) -> None:
    runs = [(0, "run_1", 9.0, 5.0), (0, "run_2", 11.0, 5.0), (1, "run_1", 12.0, 6.0)]
    (row,) = found(tmp_path, [compared("a"), compared("b")], runs)
    assert row["measured"] == [10.0, 12.0]
    assert row["noise_pct"] == pytest.approx(20.0)
    assert row["verdict"] == "tie"


def test_only_stages_of_the_same_name_are_compared(tmp_path: Path) -> None:
    figures = [(0, "conc_1", 10.0, 5.0), (1, "conc_2", 20.0, 5.0), (1, "conc_1", 20.0, 9.0)]
    (row,) = found(tmp_path, [compared("a"), compared("b")], figures)
    assert row["stage"] == "conc_1"


def test_other_kinds_and_figures_without_a_prediction_are_not_compared(tmp_path: Path) -> None:
    cases = [case(name, "serving", measured={"all": LATENCIES}) for name in "ab"]
    assert found(tmp_path, cases, [(0, "all", 10.0, 5.0), (1, "all", 20.0, 9.0)]) == []
    todo = Plan(read_case_file(write(tmp_path, [compared("a"), compared("b")])).cases)
    one, none = Entry(0, "all", "tpot_ms.mean", 10.0, 5.0, True), Entry(1, "all", "tpot_ms.mean", 20.0, None, True)
    assert orders(todo, [one, none]) == []


def test_stages_that_are_deployments_are_compared_with_each_other(tmp_path: Path) -> None:
    todo = Plan(read_case_file(write(tmp_path, [compared("a"), compared("b")])).cases)
    metrics = {"e2e_ms.mean": 1.0, "output_throughput": 1.0}
    todo.trials = [(0, Trial({}, (Point(stage, metrics, deployment=stage),))) for stage in ("1P1D", "2_regular")]
    entries = [
        Entry(0, stage, metric, measured, predicted, True)
        for metric in metrics
        for stage, measured, predicted in (("1P1D", 30.0, 3.0), ("2_regular", 40.0, 4.0))
    ]
    (row,) = orders(todo, entries)
    assert (row["deployments"], row["metric"], row["verdict"]) == (["1P1D", "2_regular"], "e2e_ms.mean", "right")
    sentence, pairs = order_blocks([row])
    assert "1 come out in the measured order, 0 in the other; 0 differ" in sentence
    assert "| 1P1D | 2_regular | all | e2e_ms.mean | right | 30 : 40 | 3 : 4 | 16.0 |" in pairs
