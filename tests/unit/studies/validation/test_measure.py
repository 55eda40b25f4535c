"""The figures of a run, from requests made by hand."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd
import pytest

from servetwin.results.result import Result
from servetwin.studies.validation.measure import measure
from servetwin.studies.validation.trial import Point, Trial


class MadeUp:
    """Three requests; the last one did not complete."""

    warnings = ("a named thing (check that)", "a remark on p99")

    def __init__(self) -> None:
        self._requests = pd.DataFrame(
            {
                "arrival_s": [2.0, 0.0, 1.0],
                "queued_s": [2.01, 0.01, 1.01],
                "transfer_start_s": [2.05, float("nan"), 1.0],
                "transfer_end_s": [2.0504, float("nan"), 1.5],
                "prompt_tokens": [30, 60, 500],
                "last_token_s": [3.0, 1.5, 2.0],
                "output_tokens": [11, 1, 21],
                "ttft_ms": [100.0, 50.0, 60.0],
                "tpot_ms": [90.0, float("nan"), 47.0],
                "e2e_ms": [1000.0, 50.0, 1000.0],
                "outcome": ["completed", "completed", "cancelled"],
            }
        )

    def requests(self) -> pd.DataFrame:
        return self._requests

    def summary(self) -> dict[str, Any]:
        return {"itl_ms.p99": 12.5}


METRICS = dict.fromkeys(("ttft_ms.mean", "ttft_ms.p50", "tpot_ms.mean", "e2e_ms.mean", "output_throughput"), 1.0)


def outcome(*points: Point, measured: tuple[float, ...] = ()) -> Any:
    return measure(Trial({}, points, measured_e2e_ms=measured), cast(Result, MadeUp()))


def test_completed_requests_in_order_of_arrival() -> None:
    found = outcome(Point("all", METRICS))
    assert found.predicted["all"] == {
        "ttft_ms.mean": 75.0, "ttft_ms.p50": 75.0, "tpot_ms.mean": 90.0, "e2e_ms.mean": 525.0,
        "output_throughput": pytest.approx(12 / 3.0),
    }  # fmt: skip
    assert found.warnings == ("a named thing (check that)", "1 of 3 requests did not complete and are left out")


def test_stages_are_ranges_of_arrivals() -> None:
    found = outcome(Point("first", {"e2e_ms.mean": 1.0}, 0, 1), Point("middle", {"e2e_ms.mean": 1.0}, 1, 2))
    assert found.predicted == {"first": {"e2e_ms.mean": 50.0}}
    assert found.missing == {"middle": "no request of it completed"}


def test_latencies_since_the_engine_has_it() -> None:
    found = outcome(Point("all", METRICS, since="engine"))
    assert found.predicted["all"]["ttft_ms.mean"] == pytest.approx(65.0)
    assert found.predicted["all"]["e2e_ms.mean"] == pytest.approx(515.0)
    assert found.predicted["all"]["tpot_ms.mean"] == 90.0


def test_a_batch_ends_with_its_last_request() -> None:
    found = outcome(Point("all", METRICS, gpus=2, whole_batch=True))
    assert found.predicted["all"]["ttft_ms.mean"] == 100.0
    assert found.predicted["all"]["e2e_ms.mean"] == 1000.0
    assert found.predicted["all"]["output_throughput"] == pytest.approx(2.0)


def test_gaps_are_pooled_over_the_whole_run() -> None:
    found = outcome(Point("all", {"itl_ms.p99": 1.0}), Point("part", {"itl_ms.p99": 1.0}, 0, 1))
    assert found.predicted == {"all": {"itl_ms.p99": 12.5}, "part": {}}


def test_what_was_not_transferred_does_not_count() -> None:
    assert outcome(Point("all", {"transfer_ms.mean": 1.0})).predicted["all"] == {"transfer_ms.mean": pytest.approx(0.4)}
    assert outcome(Point("first", {"transfer_ms.mean": 1.0}, 0, 1)).predicted == {"first": {}}


def test_prompt_tokens_per_second() -> None:
    found = outcome(Point("all", {"input_throughput": 1.0}, gpus=2))
    assert found.predicted["all"]["input_throughput"] == pytest.approx(90 / 3.0 / 2)


def test_errors_of_single_requests() -> None:
    # In order of arrival: 50 against 40 (+25 %), nothing, 1000 against 800 (+25 %).
    found = outcome(Point("all", METRICS), measured=(40.0, 1.0, 800.0))
    assert found.per_request_error_pct == pytest.approx(25.0)
    assert found.per_request_n == 2
    assert outcome(Point("all", METRICS), measured=(1.0,)).per_request_error_pct is None
