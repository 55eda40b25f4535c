import pytest
from tests.unit.results.test_summary import ended, summary_of

from servetwin.errors import ScenarioError
from servetwin.request import REJECTED, UNFINISHED, Request
from servetwin.results import slo


def test_each_limit_has_its_verdict():
    requests = [ended(place, 1000 * place, 1000 * place + 100 + place, 1000 * place + 400) for place in range(3)]
    limits = {"ttft_ms": {"p99": 500, "mean": 101}, "e2e_ms": {"max": 399.9}, "goodput": {"ttft_ms": 101}}
    found = summary_of(requests, slo=limits)["slo"]
    assert found == {
        "ttft_ms.p99": {"limit": 500.0, "value": pytest.approx(101.98), "met": True},
        "ttft_ms.mean": {"limit": 101.0, "value": 101.0, "met": True},
        "e2e_ms.max": {"limit": 399.9, "value": 400.0, "met": False},
    }


def test_an_undefined_value_is_neither_met_nor_missed():
    found = summary_of([ended(0, 0, 10, 10, output=1)], slo={"tpot_ms": {"p99": 5}})
    assert found["slo"]["tpot_ms.p99"] == {"limit": 5.0, "value": None, "met": None}


def test_goodput_counts_requests_that_meet_all_limits():
    limits = {"goodput": {"ttft_ms": 100, "tpot_ms": 10, "e2e_ms": 5000}}
    rejected = Request(9, 0, 10, 10)
    rejected.outcome = REJECTED
    unfinished = ended(10, 0, 50, -1)
    unfinished.outcome, unfinished.last_token_ps = UNFINISHED, -1
    found = summary_of(
        [
            ended(0, 0, 100, 200),  # exactly at the limits: good
            ended(1, 0, 101, 200),  # first token late
            ended(2, 0, 100, 201),  # too slow between tokens
            ended(3, 0, 50, 50, output=1),  # a single token has no TPOT: good
            ended(4, 1000, 1050, 10_000, output=1000),  # too long in all
            rejected,
            unfinished,
        ],
        slo=limits,
    )
    assert found["slo_attainment"] == 2 / 7
    assert found["goodput_per_s"] == 2 / 10


def test_goodput_is_undefined_without_limits():
    found = summary_of([ended(0, 0, 10, 20)], slo={"ttft_ms": {"p99": 5}})
    assert found["goodput_per_s"] is None and found["slo_attainment"] is None


def test_wrong_names_are_answered_with_the_nearest():
    with pytest.raises(ScenarioError) as caught:
        slo.request_limits({"goodput": {"tttft_ms": 5}})
    assert caught.value.nearest == "ttft_ms" and caught.value.path == "slo.goodput.tttft_ms"
    with pytest.raises(ScenarioError) as caught:
        summary_of([ended(0, 0, 10, 20)], slo={"ttft_ms": {"p98": 5}})
    assert caught.value.path == "slo.ttft_ms.p98" and caught.value.nearest.startswith("ttft_ms.p")
