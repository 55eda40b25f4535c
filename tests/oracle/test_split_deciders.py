"""The naive engine agrees with every policy that decides which requests are split, and so do the stepping levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.oracle.decider_scenarios import POLICIES, scenario
from tests.oracle.levels import check_levels, resolved, simulate
from tests.oracle.naive_scenarios import compare, compare_hand_overs, naive

from servetwin.policies.registry import names

#: What becomes of requests, in the scenarios of each policy.
FATES = {
    "uncached-length": {"split", "local"},
    "length-and-queue": {"split", "local"},
    "bounded-length": {"split", "local"},
    "mixed-overflow": {"split", "mixed"},
    "slo": {"split", "rejected"},
    "always": {"split"},
    "never": {"local"},
}


def test_no_policy_is_left_out() -> None:
    assert set(POLICIES) == set(FATES) == set(names("disaggregation"))


@pytest.mark.parametrize("name", POLICIES)
def test_the_naive_engine_agrees(name: str) -> None:
    fates: set[str] = set()
    for number in range(5):
        built = resolved(scenario(number, name))
        _, result = simulate(built)
        expected: Any = naive(built)
        compare(result, expected)
        compare_hand_overs(result, expected)
        cluster = expected.replicas[0].cluster
        split = {way.job.id for way in cluster.listed}
        for job in expected.jobs.values():
            if job.id in split:
                fates.add("split")
            elif job.outcome == "rejected":
                fates.add("rejected")
            else:
                fates.add("mixed" if cluster.roles[job.replica] == "both" else "local")
    assert fates == FATES[name]


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "never"])
@pytest.mark.parametrize("number", [20, 21])
def test_the_stepping_levels_agree(name: str, number: int, tmp_path: Path) -> None:
    check_levels(resolved(scenario(number, name)), tmp_path, strict=True, disturbed=True)


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ("always", "never")])
@pytest.mark.parametrize("number", [40, 41])
def test_the_stepping_levels_agree_when_replicas_leave(name: str, number: int, tmp_path: Path) -> None:
    check_levels(resolved(scenario(number, name, leaving=True)), tmp_path, strict=True, disturbed=True)
