"""The public cases beside the repository: every one of them is run, waits for a reason, or is excluded."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from servetwin.catalog import Catalog
from servetwin.studies.validation import Plan, make_plan, read_case_file
from servetwin.studies.validation.cases import KINDS

SHARED = Path(__file__).resolve().parents[5] / "shared" / "validation"

ALL = {
    "serving": 55, "concurrency_sweep": 133, "throughput_table": 22, "iteration_profile": 6, "pd": 15, "pd_sweep": 42,
    "kv_cache": 24, "spec_decode": 24, "spec_decode_cost": 2,
}  # fmt: skip
USABLE = {
    "serving": 44, "concurrency_sweep": 132, "throughput_table": 22, "iteration_profile": 6, "pd": 11, "pd_sweep": 8,
    "kv_cache": 7, "spec_decode": 14, "spec_decode_cost": 1,
}  # fmt: skip
POINTS = {"serving": 130, "concurrency_sweep": 772, "throughput_table": 102, "iteration_profile": 114}
"""Runs of the kinds that need nothing but one engine or a few."""


@cache
def everything() -> Plan:
    """The plan of the whole file. Only an absent folder is a reason to skip; an unreadable file fails."""
    if not SHARED.exists():
        pytest.skip(f"the measured cases are not here: {SHARED}")
    return make_plan(read_case_file(SHARED / "cases.json").cases, Catalog())


def test_the_file_has_all_cases_of_all_kinds() -> None:
    assert Counter(case.kind for case in everything().cases) == ALL
    assert set(ALL) == set(KINDS)


def test_exactly_the_unusable_cases_are_excluded() -> None:
    todo = everything()
    unusable = {case.id for case in todo.cases if case.fields["usable_for_scoring"] is False}
    assert {todo.cases[place].id for place in todo.excluded} == unusable
    assert len(unusable) == sum(ALL.values()) - sum(USABLE.values()) == 78


def test_every_usable_case_has_runs_or_a_reason() -> None:
    todo = everything()
    run = {place for place, _ in todo.trials}
    assert not run & set(todo.not_yet)
    found = Counter(todo.cases[place].kind for place in run | set(todo.not_yet))
    assert found == USABLE
    assert all(len(reason) > 20 for reason in todo.not_yet.values())


def test_every_usable_point_of_the_aggregated_kinds_is_planned() -> None:
    todo = everything()
    planned = Counter(todo.cases[place].kind for place, _ in todo.trials)
    for kind, points in POINTS.items():
        assert planned[kind] == points
    waiting = Counter(todo.cases[place].kind for place in todo.not_yet)
    assert waiting["serving"] == waiting["throughput_table"] == waiting["iteration_profile"] == 0


def test_the_scored_set_is_complete_and_recordings_are_replayed() -> None:
    todo = everything()
    run = {place for place, _ in todo.trials}
    assert sum(todo.cases[place].set_name == "vllm-0.15.1" for place in run) == 34
    replayed = {place for place, trial in todo.trials if trial.rows}
    assert sum(todo.cases[place].set_name == "vllm-0.15.1" for place in replayed) == 8
    assert not [flag for _, trial in todo.trials for flag in trial.flags if "recording is missing" in flag]
