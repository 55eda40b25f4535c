"""How one scenario builds on another."""

from __future__ import annotations

from servetwin.scenario.merge import deep_merge


def test_mappings_merge_and_the_rest_is_replaced() -> None:
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 2}
    assert deep_merge(base, {"a": {"y": [3]}, "c": 4}) == {"a": {"x": 1, "y": [3]}, "b": 2, "c": 4}
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 2}


def test_named_entries_merge_by_name_in_the_order_of_the_base() -> None:
    base = {"pools": [{"name": "a", "replicas": 1, "engine": {"x": 1}}, {"name": "b", "replicas": 2}]}
    child = {"pools": [{"name": "b", "replicas": 5}, {"name": "a", "engine": {"y": 2}}, {"name": "c"}]}
    assert deep_merge(base, child)["pools"] == [
        {"name": "a", "replicas": 1, "engine": {"x": 1, "y": 2}},
        {"name": "b", "replicas": 5},
        {"name": "c"},
    ]


def test_another_kind_of_thing_replaces_it() -> None:
    base = {"prompts": {"distribution": "normal", "mean": 5, "std": 1}}
    assert deep_merge(base, {"prompts": {"distribution": "constant", "value": 3}}) == {
        "prompts": {"distribution": "constant", "value": 3}
    }
    assert deep_merge(base, {"prompts": {"distribution": "normal", "mean": 9}})["prompts"]["std"] == 1
    assert deep_merge(base, {"prompts": {"mean": 9}})["prompts"] == {
        "distribution": "normal",
        "mean": 9,
        "std": 1,
    }


def test_a_trace_replaces_synthetic_requests_and_the_other_way_round() -> None:
    synthetic = {
        "workload": {
            "arrivals": {"rate_per_s": 1},
            "prompts": 5,
            "sampling": "top-p",
            "classes": [{"name": "a", "share": 2, "prompts": 7}],
        }
    }
    traced = deep_merge(synthetic, {"workload": {"trace": {"path": "t"}}})["workload"]
    assert traced == {
        "sampling": "top-p",
        "classes": [{"name": "a", "share": 2}],
        "trace": {"path": "t"},
    }
    back = deep_merge({"workload": traced}, {"workload": {"arrivals": {"rate_per_s": 3}}})["workload"]
    assert "trace" not in back
