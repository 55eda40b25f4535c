"""``--set PATH=VALUE``."""

from __future__ import annotations

from typing import Any

import pytest

from servetwin.errors import ScenarioError
from servetwin.scenario.overrides import apply_override, parse_override


def _set(raw: dict[str, Any], text: str) -> dict[str, Any]:
    apply_override(raw, parse_override(text))
    return raw


def test_a_value_is_yaml() -> None:
    assert parse_override("a.b=1e3") == ("--set a.b=1e3", "a.b", 1000)
    assert parse_override("a=[1, x]").value == [1, "x"]
    assert parse_override("a=").value is None
    assert parse_override("a=b=c").value == "b=c"


@pytest.mark.parametrize("text", ["a", "=3", "a..b=3", ".a=3", "a.=3", "a=[1"])
def test_what_is_no_override(text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_override(text)
    assert caught.value.file == f"--set {text}"


def test_entries_are_named_by_index_or_by_name() -> None:
    raw = {"pools": [{"name": "a"}, {"name": "b", "replicas": 1}]}
    assert _set(raw, "pools.1.replicas=4")["pools"][1] == {"name": "b", "replicas": 4}
    assert _set(raw, "pools.b.replicas=5")["pools"][1] == {"name": "b", "replicas": 5}
    assert _set(raw, "pools.0={name: z}")["pools"][0] == {"name": "z"}


def test_a_name_wins_over_an_index() -> None:
    raw = {"pools": [{"name": "1"}, {"name": "0"}]}
    assert _set(raw, "pools.0.replicas=4")["pools"] == [{"name": "1"}, {"name": "0", "replicas": 4}]


def test_missing_mappings_are_made() -> None:
    assert _set({}, "a.b.c=3") == {"a": {"b": {"c": 3}}}
    assert _set({"a": None}, "a.b=3") == {"a": {"b": 3}}


def test_a_policy_written_as_a_name_can_be_given_fields() -> None:
    assert _set({"router": "power-of-two"}, "router.metric=tokens") == {
        "router": {"policy": "power-of-two", "metric": "tokens"}
    }


@pytest.mark.parametrize("text", ["pools.2.x=1", "pools.c.x=1", "pools.-1.x=1"])
def test_an_entry_that_does_not_exist(text: str) -> None:
    with pytest.raises(ScenarioError, match="has no entry") as caught:
        _set({"pools": [{"name": "a"}, {"name": "b"}]}, text)
    assert "a, b" in str(caught.value.allowed)


def test_a_plain_value_has_no_fields() -> None:
    with pytest.raises(ScenarioError, match=r"'run\.seed' is a plain value"):
        _set({"run": {"seed": 3}}, "run.seed.x=1")
