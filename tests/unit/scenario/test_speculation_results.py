"""What a run with speculation leaves behind agrees with itself, whoever decides how much is drafted."""

from __future__ import annotations

from typing import Any

import pytest

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.policies.speculation import Goodput
from servetwin.scenario.load import load_scenario

CONTROLLERS: list[Any] = [
    "fixed",
    "ema-tiers",
    "goodput",
    "per-request",
    {"policy": "by-batch-size", "ranges": [[1, 6, 3], [7, 9, 1], [10, 64, 0]]},
    {"policy": "draft-len-schedule", "schedule": {4: 3, 8: 2, 32: 1}},
    {"policy": "disable-by-batch-size", "requests": 8},
    {"policy": "disable-when-low", "window": 100, "threshold": 2.0},
]


@pytest.mark.parametrize("controller", CONTROLLERS, ids=lambda one: one if isinstance(one, str) else one["policy"])
def test_counts_agree_wherever_they_stand(controller: Any) -> None:
    result = servetwin.run("bench-8b-spec", run__requests=120, cluster__speculation__controller=controller)
    summary, requests, series = result.summary(), result.requests(), result.timeseries()
    assert summary["completed"] == 120
    for column, key in (("drafted_tokens", "num_draft_tokens"), ("accepted_tokens", "num_accepted_tokens")):
        assert requests[column].sum() == series[column].sum() == summary[f"spec_decode_{key}"] > 0
    assert series["k"].dropna().between(0, 3).all() and series["k"].notna().any()
    rates = summary["acceptance_rate_per_position"]
    spent = result.ledger()["total"]["seconds"]
    assert [summary[f"{bucket}_gpu_seconds"] for bucket in ("draft", "wasted_verify")] == [
        spent["draft"], spent["wasted_verify"]
    ]  # fmt: skip
    assert len(rates) == 3 and sum(rates) == pytest.approx(summary["mean_acceptance_length"] - 1)
    share = result.ledger()["total"]["share"]
    assert share["draft"] > 0 and share["wasted_verify"] > 0 and sum(share.values()) == pytest.approx(1)


def test_fields_of_a_controller_may_be_set_after_its_name() -> None:
    """As those of every policy."""
    changes = ["cluster.speculation.controller=goodput", "cluster.speculation.controller.interval=4"]
    (pool,) = load_scenario("bench-8b-spec", changes, Catalog()).cluster.pools
    assert pool.speculation is not None
    assert pool.speculation.controller == Goodput(interval=4)


def test_without_speculation_there_are_no_choices_and_no_drafts() -> None:
    result = servetwin.run("bench-8b", run__requests=20)
    assert result.timeseries()["k"].isna().all()
    assert result.summary()["spec_decode_num_drafts"] is None
    assert result.ledger()["total"]["seconds"]["draft"] == 0
