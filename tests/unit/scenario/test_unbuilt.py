"""What this version does not have is refused; what switches it off is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from servetwin.errors import ScenarioError
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.store import to_yaml


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("control", {"control": {"autoscaler": {}}}),
        ("cluster.kv_tiers", {"cluster": {"kv_tiers": [{"kind": "cpu"}]}}),
        ("cluster.parallel.data", {"cluster": {"parallel": {"data": 8}}}),
        ("cluster.pools.0.parallel.expert", {"cluster": {"pools": [{"name": "a", "parallel": {"expert": 8}}]}}),
    ],
)  # fmt: skip
def test_it_is_refused_with_its_place(
    path: str, part: dict[str, Any], base: dict[str, Any], load_it: Callable[..., Any]
) -> None:
    with pytest.raises(ScenarioError, match="this version of servetwin does not have") as caught:
        load_it(deep_merge(base, part))
    assert caught.value.path == path


@pytest.mark.parametrize(
    "part",
    [
        {"control": None},
        {"control": {}},
        {"physics": {"jitter": 0}},
        {"cluster": {"speculation": "none"}},
        {"cluster": {"speculation": {"method": "none"}}},
        {"cluster": {"speculation": False}},
        {"cluster": {"kv_tiers": []}},
        {"cluster": {"parallel": {"tensor": 2, "pipeline": 1, "data": 1, "expert": 1}}},
    ],
)
def test_off_is_off(part: dict[str, Any], base: dict[str, Any], load_it: Callable[..., Any]) -> None:
    text = to_yaml(load_it(deep_merge(base, part)).scenario)
    assert not any(word in text for word in ("control", "jitter", "speculation", "kv_tiers"))


@pytest.mark.parametrize("value", [True, 2, 1.5, "2", [1]])
def test_one_is_not_true(value: object, base: dict[str, Any], load_it: Callable[..., Any]) -> None:
    with pytest.raises(ScenarioError):
        load_it(deep_merge(base, {"cluster": {"parallel": {"data": value}}}))
