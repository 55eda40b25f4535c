"""Dynamo's older rule, worked by hand, and our hysteresis.

Source: ``PyDisaggregatedRouter`` of Dynamo's examples: remote if int(prompt · (1 − hit rate)) > 1000 and queue < 2.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from servetwin.policies.disaggregation import LengthAndQueue
from servetwin.policies.disaggregation.length_and_queue import LengthAndQueueDecider
from servetwin.testing import FakeSplitView, make_request


def decider(**fields: int) -> LengthAndQueueDecider:
    return LengthAndQueue(**fields).build(None)  # type: ignore[arg-type]


def choices(found: LengthAndQueueDecider, *waiting: int, prompt: int = 2000) -> str:
    """Of a request for each length of the queue, whether it is split."""
    request = make_request(0, prompt_tokens=prompt)
    return "".join(found.decide(request, FakeSplitView(prefill_waiting=one))[0] for one in waiting)


@pytest.mark.parametrize(
    ("prompt", "cached", "waiting", "expected"),
    [
        (1000, 0, 0, "local"), (1001, 0, 1, "split"), (1001, 0, 2, "local"), (2000, 1000, 0, "local"),
        (2000, 960, 0, "split"),
    ],
)  # fmt: skip
def test_long_prompts_are_split_while_the_queue_is_short(prompt: int, cached: int, waiting: int, expected: str) -> None:
    """2000 · (1 − 0.5) = 1000 is not above 1000; 2000 · (1 − 0.48) = 1040 is."""
    view = FakeSplitView(prefill_waiting=waiting, cached_tokens=cached)
    assert decider().decide(make_request(0, prompt_tokens=prompt), view) == expected


def test_without_hysteresis_the_present_queue_decides() -> None:
    assert choices(decider(queue=4), 3, 4, 3, 4, 0) == "slsls"


def test_with_hysteresis_splitting_begins_again_below_the_lower_limit() -> None:
    """It ends at 4 and begins again below 2: 3 and 2 are too many then, though they were not before."""
    assert choices(decider(queue=4, queue_back=2), 3, 4, 3, 2, 1, 3, 4, 1) == "slllssls"


def test_short_prompts_look_at_the_queue_too() -> None:
    """A short prompt meets the long queue; the long one that follows finds splitting ended."""
    found = decider(queue=4, queue_back=2)
    assert choices(found, 4, prompt=10) == "l"
    assert choices(found, 3) == "l"


@pytest.mark.parametrize(
    "fields", [{"queue": 2, "queue_back": 2}, {"queue": 2, "queue_back": 3}, {"queue": 0}, {"queue_back": 0}]
)
def test_limits_that_contradict_each_other(fields: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        LengthAndQueue(**fields)  # type: ignore[arg-type]
