"""Options that do nothing beside the others are found, and those that do something are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from servetwin.workload.chance import is_random
from servetwin.workload.idle import idle_options
from servetwin.workload.spec import WorkloadSpec

BASE: dict[str, Any] = {"arrivals": {"rate_per_s": 8}, "prompts": 100, "outputs": 10}
ONE_GROUP: dict[str, Any] = {"groups": 1, "tokens": 64}
ONE_DOCUMENT: dict[str, Any] = {"corpus": 1, "tokens": 64, "per_request": 1}
TWO: dict[str, Any] = {"distribution": "uniform", "min": 1, "max": 2}
ONE: dict[str, Any] = {"distribution": "uniform", "min": 1, "max": 1}
FIXED: dict[str, Any] = {"distribution": "normal", "mean": 100, "std": 0}

IDLE: list[tuple[dict[str, Any], str, str]] = [
    ({"prefixes": {**ONE_GROUP, "zipf_exponent": 1.0}}, "prefixes.zipf_exponent", "one group"),
    ({"prefixes": {**ONE_GROUP, "order": "cycled"}}, "prefixes.order", "one group"),
    ({"documents": {**ONE_DOCUMENT, "zipf_exponent": 1.0}}, "documents.zipf_exponent", "one document"),
    ({"documents": {**ONE_DOCUMENT, "per_request": TWO, "order": "popularity"}}, "documents.order", "one document"),
    ({"documents": {**ONE_DOCUMENT, "per_request": TWO}}, "documents.per_request", "every request has"),
    (
        {"documents": {"corpus": 3, "tokens": 64, "per_request": 3, "order": "popularity", "zipf_exponent": 1.0}},
        "documents.zipf_exponent",
        "all documents",
    ),
    ({"sessions": {"turns": ONE, "think_time_s": 3}}, "sessions.think_time_s", "one turn"),
    ({"sessions": {"turns": 1, "think_time_s": 3, "turn_prompts": 5}}, "sessions.turn_prompts", "one turn"),
    ({"prompts": {**FIXED, "max": 500}}, "prompts.max", "every value is 100"),
    ({"prompts": {**FIXED, "min": 5}}, "prompts.min", "every value is 100"),
    ({"outputs": {**FIXED, "distribution": "lognormal", "max": 500}}, "outputs.max", "every value is 100"),
    (
        {
            "sessions": {
                "turns": TWO,
                "think_time_s": {"distribution": "lognormal", "mean": 3, "std": 0, "max": 9},
            }
        },
        "sessions.think_time_s.max",
        "every value is 3",
    ),
    ({"prompts": {"distribution": "empirical", "values": [7, 7], "weights": [1, 2]}}, "prompts.weights", "is 7"),
    ({"classes": [{"name": "a", "share": 3}]}, "classes.0.share", "no others"),
    (
        {"classes": [{"name": "a", "share": 3}, {"name": "b", "arrivals": {"rate_per_s": 1}}]},
        "classes.0.share",
        "others have arrivals of their own",
    ),
    ({"classes": [{"name": "a", "priority": 3}]}, "classes.0.priority", "the same"),
    (
        {"classes": [{"name": "a", "prefixes": {**ONE_GROUP, "zipf_exponent": 1.0}}]},
        "classes.0.prefixes.zipf_exponent",
        "one group",
    ),
    (
        {"arrivals": {"process": "closed-loop", "concurrency": 1, "ramp_s": 5}},
        "arrivals.ramp_s",
        "one client",
    ),
    (
        {"arrivals": {"process": "closed-loop", "concurrency": 50, "think_time_s": 5}},
        "arrivals.think_time_s",
        "none of the 50 clients",
    ),
    ({"arrivals": {"process": "bursts", "size": 50, "interval_s": 5}}, "arrivals.interval_s", "all 50 requests"),
    (
        {"arrivals": {"process": "on-off", "rate_per_s": 2, "off_rate_per_s": 2, "on_s": 5, "off_s": 5}},
        "arrivals.on_s",
        "same on and off",
    ),
    ({"max_concurrency": 50}, "max_concurrency", "no more than 50"),
    ({"max_concurrency": 5, "arrivals": {"process": "bursts", "size": 5}}, "max_concurrency", "no more than 5"),
]


def found(change: dict[str, Any]) -> dict[str, str]:
    spec = WorkloadSpec.model_validate({**BASE, **change})
    return {option.path.removeprefix("workload."): option.reason for option in idle_options(spec, 50)}


@pytest.mark.parametrize(("change", "path", "words"), IDLE, ids=[f"{path}-{n}" for n, (_, path, _) in enumerate(IDLE)])
def test_options_that_do_nothing(change: dict[str, Any], path: str, words: str) -> None:
    options = found(change)
    assert path in options and words in options[path]


@pytest.mark.parametrize(
    "change",
    [
        {"prefixes": {**ONE_GROUP, "groups": 2, "zipf_exponent": 1.0}},
        {"prefixes": {**ONE_GROUP, "order": "cycled", "prompts_per_group": 3}},
        {"documents": ONE_DOCUMENT},
        {"documents": {"corpus": 3, "tokens": 64, "per_request": 3, "zipf_exponent": 1.0}},
        {"sessions": {"turns": TWO, "think_time_s": 3, "turn_prompts": 5}},
        {"prompts": {**FIXED, "max": 50}},
        {"prompts": {**FIXED, "min": 150}},
        {"prompts": {**FIXED, "std": 1, "min": 5, "max": 500}},
        {"classes": [{"name": "a", "share": 3}, {"name": "b"}]},
        {"classes": [{"name": "a", "priority": 3}, {"name": "b"}]},
        {"arrivals": {"process": "closed-loop", "concurrency": 5, "ramp_s": 5, "think_time_s": 3}},
        {"arrivals": {"process": "bursts", "size": 5, "interval_s": 5}},
        {"max_concurrency": 49},
        {"max_concurrency": 5, "arrivals": {"process": "bursts", "size": 6}},
    ],
)
def test_options_that_do_something(change: dict[str, Any]) -> None:
    assert found(change) == {}


@pytest.mark.parametrize(
    ("change", "random"),
    [
        ({}, True),
        ({"arrivals": {"process": "constant", "rate_per_s": 3}}, False),
        ({"arrivals": {"process": "constant", "rate_per_s": 3}, "prompts": TWO}, True),
        ({"arrivals": {"process": "constant", "rate_per_s": 3}, "prompts": FIXED}, False),
        ({"arrivals": {"process": "constant", "rate_per_s": 3}, "prefixes": {**ONE_GROUP, "groups": 2}}, True),
        (
            {
                "arrivals": {"process": "constant", "rate_per_s": 3},
                "prefixes": {"groups": 2, "tokens": 9, "order": "cycled"},
            },
            False,
        ),
        ({"arrivals": {"process": "closed-loop", "concurrency": 3}}, False),
        (
            {
                "arrivals": {
                    "process": "closed-loop",
                    "concurrency": 3,
                    "think_time_s": {"distribution": "exponential", "mean": 1},
                },
            },
            True,
        ),
        ({"arrivals": {"process": "constant", "rate_per_s": 3}, "classes": [{"name": "a"}, {"name": "b"}]}, True),
        ({"arrivals": {"process": "constant", "rate_per_s": 3}, "classes": [{"name": "a"}]}, False),
        ({"arrivals": None, "prompts": None, "outputs": None, "trace": {"path": "trace.csv"}}, False),
        ({"arrivals": None, "prompts": None, "outputs": None, "trace": {"path": "x", "format": "servegen"}}, True),
    ],
)
def test_what_another_seed_changes(change: dict[str, Any], random: bool) -> None:
    assert is_random(WorkloadSpec.model_validate({**BASE, **change})) == random
