"""Errors of points, cases, kinds and peers, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.studies.validation.small_cases import case, inference_perf, sweep, write

from servetwin.errors import TraceError
from servetwin.studies.validation import Case, read_case_file
from servetwin.studies.validation.peers import peers, published
from servetwin.studies.validation.scoring import Entry, case_errors, error_tables, is_scored, mape, worst


def entry(place: int, stage: str, predicted: float | None, measured: float = 100.0, **more: Any) -> Entry:
    return Entry(place, stage, more.get("metric", "tpot_ms.mean"), measured, predicted, more.get("scored", True))


def test_the_error_of_a_case_is_the_mean_over_its_points() -> None:
    (error,) = case_errors([entry(0, "conc_1", 110.0), entry(0, "conc_2", 95.0), entry(0, "conc_4", 118.0)])
    assert error.absolute == pytest.approx((10 + 5 + 18) / 3)
    assert error.signed == pytest.approx((10 - 5 + 18) / 3)
    assert error.points == 3


def test_half_of_the_points_must_be_predicted() -> None:
    half = [entry(0, "a", 110.0), entry(0, "b", None)]
    assert len(case_errors(half)) == 1
    assert case_errors([*half, entry(0, "c", None)]) == []
    assert case_errors([entry(0, "a", None)]) == []


def test_stages_that_are_shown_do_not_count() -> None:
    (error,) = case_errors([entry(0, "summary", 101.0), entry(0, "stage_0", 300.0, scored=False)])
    assert error.absolute == pytest.approx(1.0)


def test_mean_and_median_are_taken_over_cases() -> None:
    errors = case_errors([entry(0, "a", 110.0), entry(0, "b", 110.0), entry(1, "a", 98.0), entry(2, "a", 101.0)])
    found = error_tables(errors)["tpot_ms.mean"]
    assert found["mape_mean"] == pytest.approx((10 + 2 + 1) / 3)
    assert found["mape_median"] == pytest.approx(2.0)
    assert found["signed_mean"] == pytest.approx((10 - 2 + 1) / 3)
    assert found["n"] == 3


@given(st.lists(st.floats(-99, 1000), min_size=1, max_size=20))
def test_the_signed_mean_never_exceeds_the_absolute_one(errors: list[float]) -> None:
    found = mape([(abs(error), error) for error in errors])
    assert abs(found["signed_mean"]) <= found["mape_mean"] + 1e-9
    assert found["n"] == len(errors)


def cases(folder: Path, fields: list[dict[str, Any]]) -> tuple[Case, ...]:
    return read_case_file(write(folder, fields)).cases


def test_only_the_summary_of_a_serving_case_is_scored(tmp_path: Path) -> None:
    whole, points, swept = cases(
        tmp_path, [inference_perf(), case("rates", "serving", measured={"qps_1": {}, "qps_2": {}}), sweep()]
    )
    assert is_scored(whole, "summary") and not is_scored(whole, "stage_0")
    assert is_scored(points, "qps_1")
    assert is_scored(swept, "conc_1")


def test_the_worst_come_first_by_the_metric_of_their_kind(tmp_path: Path) -> None:
    known = cases(tmp_path, [sweep("a"), sweep("b"), inference_perf("c")])
    errors = case_errors([
        entry(0, "conc_1", 103.0), entry(1, "conc_1", 60.0), entry(1, "conc_1", 900.0, metric="ttft_ms.mean"),
        entry(2, "summary", 120.0, metric="e2e_ms.mean"), entry(2, "summary", 900.0),
    ])  # fmt: skip
    assert [(known[e.case_index].id, e.metric, round(e.absolute)) for e in worst(known, errors, 2)] == [
        ("b", "tpot_ms.mean", 40), ("c", "e2e_ms.mean", 20),
    ]  # fmt: skip


def test_peers_are_compared_on_the_same_figures(tmp_path: Path) -> None:
    nested = {"theirs": {"summary": {"tpot_ms": {"mean": 90.0}}}}
    known = cases(tmp_path, [inference_perf("a"), inference_perf("b", peers=nested), inference_perf("c")])
    # 7 was measured, 14 predicted by the peer, and nothing by us of the third case.
    found = peers(known, [
        entry(0, "summary", 7.7, 7.0), entry(1, "summary", 110.0, 100.0), entry(2, "summary", None, 7.0),
        entry(0, "stage_0", 7.0, 7.0, scored=False),
    ])  # fmt: skip
    assert found["other-simulator"]["tpot_ms.mean"]["mape_mean"] == pytest.approx(100.0)
    assert found["other-simulator"]["tpot_ms.mean"]["servetwin_mape_mean"] == pytest.approx(10.0)
    assert found["other-simulator"]["tpot_ms.mean"]["n"] == 1
    assert found["theirs"]["tpot_ms.mean"]["signed_mean"] == pytest.approx(-10.0)


def test_the_published_table(tmp_path: Path) -> None:
    file = write(tmp_path, [sweep()])
    assert published(file) == []
    beside = tmp_path / "accuracy_by_simulator.csv"
    beside.write_text(
        "case_set,simulator,metric,n_experiments,mape_mean_pct,mape_median_pct,mape_p90_pct,mean_signed_error_pct\n"
        '"test, all",one,e2e_mean,18,22.21,21.48,51.13,21.09\n'
    )
    (row,) = published(file)
    assert row["case_set"] == "test, all"
    assert row["mape_mean_pct"] == 22.21
    beside.write_text("simulator,metric\none,e2e_mean\n")
    with pytest.raises(TraceError, match="case_set"):
        published(file)
