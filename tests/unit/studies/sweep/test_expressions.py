"""The conditions of ``skip_if``."""

from __future__ import annotations

from typing import Any

import pytest

from servetwin.errors import ScenarioError
from servetwin.studies.sweep.expressions import Condition

POINT: dict[str, Any] = {
    "cluster.replicas": 4,
    "cluster.pools.0.replicas": 2,
    "cluster.pools.my-pool.hardware": "h100-sxm",
    "workload.arrivals.rate_per_s": 12.5,
    "router": "least-tokens",
    "slo": None,
    "cluster.engine.prefix_caching": True,
}


def condition(text: str) -> Condition:
    return Condition(text, list(POINT), "sweep.yaml", "skip_if.0")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("cluster.replicas == 4", True),
        ("cluster.replicas != 4", False),
        ("cluster.pools.0.replicas < cluster.replicas", True),
        ("cluster.pools.my-pool.hardware == 'h100-sxm'", True),
        ("1 < cluster.replicas <= 4", True),
        ("1 < cluster.replicas < 4", False),
        ("workload.arrivals.rate_per_s / cluster.replicas > 3", True),
        ("workload.arrivals.rate_per_s // 5 + 2 * 3 - 1 == 7 and cluster.replicas % 3 == 1", True),
        ("-cluster.replicas < 0", True),
        ("router in ['random', 'least-tokens']", True),
        ("router not in ('random', 'router')", True),
        ('router == "router"', False),
        ("not (router == 'random' or cluster.replicas > 8)", True),
        ("slo == null", True),
        ("cluster.engine.prefix_caching == true", True),
        ("cluster.engine.prefix_caching == False", False),
        ("  cluster.replicas == 4  ", True),
    ],
)
def test_answers(text: str, answer: bool) -> None:
    assert condition(text).holds(POINT) is answer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "this is no condition"),
        ("cluster.replicas ==", "this is no condition"),
        ("cluster.replicas", "a condition is true or false"),
        ("cluster.replicas + 1", "a condition is true or false"),
        ("cluster.replica == 1", "nearest: cluster.replicas"),
        ("cluster.replicas.x == 1", "knows the swept fields only"),
        ("router == random", "texts stand in quotes"),
        ("__import__('os').system('true') == 0", "not part of a condition"),
        ("().__class__ == 1", "not part of a condition"),
        ("router.upper() == 'X'", "not part of a condition"),
        ("[x for x in router] == 1", "not part of a condition"),
        ("(lambda: 1)() == 1", "not part of a condition"),
        ("2 ** 100000 > 1", "not part of a condition"),
        ("f'{router}' == 'x'", "not part of a condition"),
        ("router is None", "unknown comparison"),
        ("1j == 1", "not part of a condition"),
        ("not " * 600 + "true", "too long"),
        ("(" * 300 + "1" + ")" * 300 + " == 1", "this is no condition"),
        ("-" * 1900 + "cluster.replicas > 0", "nested too deep"),
        ("not " * 450 + "cluster.replicas > 0", "nested too deep"),
        ("1 == x" + ".x" * 900, "nested too deep"),
    ],
)
def test_what_is_no_condition(text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        condition(text)
    message = str(caught.value)
    assert words in message
    assert "sweep.yaml, skip_if.0" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("router < 3", "not supported"),
        ("cluster.replicas / (cluster.replicas - 4) > 1", "zero"),
        ("router * 100 == 'x'", "arithmetic is for numbers"),
        ("cluster.engine.prefix_caching + 1 == 2", "arithmetic is for numbers"),
        ("1 in cluster.replicas", "not iterable"),
    ],
)
def test_what_cannot_be_answered(text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        condition(text).holds(POINT)
    assert words in str(caught.value)
    assert "for the point cluster.replicas=4" in str(caught.value)
