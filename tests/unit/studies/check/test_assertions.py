"""Assertions: what they mean, and what is said about malformed ones."""

from __future__ import annotations

import pytest

from servetwin.errors import ScenarioError
from servetwin.studies.check.assertions import read_assertion

METRICS = {
    "ttft_ms.mean": 100.0, "ttft_ms.p99": 500.0, "tpot_ms.p99": 25.0, "completed": 90, "requests": 100,
    "slo_attainment": 0.95, "goodput_per_s": None, "rejected": 0, "classes.batch-jobs.ttft_ms.p99": 700.0,
    "classes.batch.requests": 3,
}  # fmt: skip


def holds(text: str) -> bool:
    return read_assertion(text, METRICS, "suite.yaml", "assert.0").check(METRICS).holds


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("ttft_ms.p99 <= 500", True),
        ("ttft_ms.p99 < 500", False),
        ("ttft_ms.p99>=500", True),
        ("ttft_ms.p99 > 500", False),
        ("completed == requests", False),
        ("completed != requests", True),
        ("completed + 10 == requests", True),
        ("requests-completed == 10", True),
        ("ttft_ms.p99 + 100 * tpot_ms.p99 <= 3e3", True),
        ("(ttft_ms.p99 + 100) * tpot_ms.p99 <= 3e3", False),
        ("ttft_ms.p99 / ttft_ms.mean / 5 == 1", True),
        ("-ttft_ms.p99 < --3", True),
        ("slo_attainment >= 95%", True),
        ("slo_attainment >= 95.5 %", False),
        ("0.9 < slo_attainment < 0.94", False),
        ("0.9 < slo_attainment < 1 <= rejected + 1", True),
        ("classes.batch-jobs.ttft_ms.p99 <= 700", True),
        ("classes.batch-jobs.ttft_ms.p99-200 == ttft_ms.p99", True),
        ("classes.batch.requests-3 == 0", True),
        # What is undefined is no promise that is kept.
        ("goodput_per_s >= 0", False),
        ("goodput_per_s != 1", False),
        ("requests / rejected > 0", False),
    ],
)
def test_what_it_means(text: str, answer: bool) -> None:
    assert holds(text) == answer


def test_by_how_much() -> None:
    def margin(text: str) -> float:
        return read_assertion(text, METRICS, "suite.yaml", "assert.0").check(METRICS).margin

    assert margin("ttft_ms.p99 <= 400") == -100
    assert margin("ttft_ms.p99 >= 400") == 100
    assert margin("0 < ttft_ms.p99 <= 510") == 10
    assert margin("completed == requests") == -10
    assert margin("completed != requests") == 10
    assert margin("goodput_per_s > 1") == float("-inf")


def test_it_tells_its_metrics() -> None:
    found = read_assertion("ttft_ms.p99 < 2 * ttft_ms.mean + 0 * ttft_ms.p99", METRICS, "suite.yaml", "assert.0")
    assert found.keys == ("ttft_ms.p99", "ttft_ms.mean")
    assert found.check(METRICS).values == {"ttft_ms.p99": 500.0, "ttft_ms.mean": 100.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft_ms.p9 <= 500", ("no such metric", "nearest: ttft_ms.p99", "found:   ttft_ms.p9")),
        ("tfft_ms.p99-1 <= 500", ("no such metric", "found:   tfft_ms.p99\n", "nearest: ttft_ms.p99")),
        ("classes.batch-job.ttft_ms.p99 < 1", ("found:   classes.batch-job.ttft_ms.p99", "classes.batch-jobs")),
        ("zzz < 1", ("allowed: ttft_ms.*, tpot_ms.*, completed",)),
        ("ttft_ms.p99 = 500", ("no comparison", "nearest: ==")),
        ("ttft_ms.p99 ≤ 500", ("no comparison", "nearest: <=")),
        ("ttft_ms.p99 =< 500", ("nearest: <=",)),
        ("ttft_ms.p99", ("compares something",)),
        ("", ("missing at the end",)),
        ("ttft_ms.p99 <", ("missing at the end",)),
        ("ttft_ms.p99 < * 3", ("is missing", "* 3")),
        ("(ttft_ms.p99 < 3", ("bracket",)),
        ("ttft_ms.p99 < 3)", ("left over", "found:   )")),
        ("ttft_ms.p99 < 3 and completed > 3", ("two conditions are two assertions",)),
        ("ttft_ms.p99 < 500 ms", ("left over", "found:   ms")),
        ("1 < 2", ("without a metric",)),
        ("(" * 60 + "completed" + ")" * 60 + " > 1", ("nested",)),
        ("__import__('os') == 1", ("no such metric",)),
    ],
)
def test_what_is_malformed(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as found:
        read_assertion(text, METRICS, "suite.yaml", "scenarios.0.assert.1")
    for word in ("suite.yaml, scenarios.0.assert.1", *words):
        assert word in str(found.value)
