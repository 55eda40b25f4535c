"""Tiers after a moving average, worked by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from servetwin.policies import PolicyContext
from servetwin.policies.speculation import EmaTiers
from servetwin.policies.speculation.ema_tiers import EmaController
from servetwin.streams import Streams
from servetwin.testing import FakeDraftView

CONTEXT = PolicyContext(Streams(0), replicas=1, seats=8)


def started(policy: EmaTiers, most: int = 7) -> EmaController:
    controller = policy.build(CONTEXT)
    controller.choose(FakeDraftView(most, 1))
    return controller


def tier(controller: EmaController, most: int = 7) -> int:
    return controller.choose(FakeDraftView(most, 1))


@pytest.mark.parametrize(
    ("policy", "most", "first"),
    [
        (EmaTiers(), 7, 3),  # 1, 3, 7
        (EmaTiers(), 3, 3),  # 1, 3
        (EmaTiers(), 1, 1),
        (EmaTiers(), 5, 3),  # 1, 3, 5
        (EmaTiers(), 16, 7),  # 1, 3, 7, 16
        (EmaTiers(start=7), 7, 7),
        (EmaTiers(tiers=[2, 4]), 7, 4),
        (EmaTiers(tiers=[2, 4], start=3), 7, 3),
    ],
)
def test_it_begins_in_the_middle_or_where_it_should(policy: EmaTiers, most: int, first: int) -> None:
    assert tier(policy.build(CONTEXT), most) == first


def test_nothing_changes_before_the_warm_up_and_the_first_interval() -> None:
    controller = started(EmaTiers())
    for _ in range(14):
        controller.observe(1, 3, [0, 0, 0])
        assert tier(controller) == 3
    controller.observe(1, 3, [0, 0, 0])
    assert tier(controller) == 1


def test_the_average_is_that_of_requests() -> None:
    """Start 2; α = ½; steps of 4 requests with 6 accepted tokens in all: 1.5 each. 2 → 1.75 → 1.625."""
    controller = started(EmaTiers(alpha=0.5, warmup=0, interval=1))
    controller.observe(4, 12, [3, 2, 1])
    assert controller._average == 1.75
    controller.observe(4, 12, [3, 2, 1])
    assert controller._average == 1.625
    assert tier(controller) == 3


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        # From tier 3, α = 1: falls at 1 − 0.5 − 0.25 = 0.25 or less, rises above 3 − 0.5 = 2.5.
        (0.25, 1),
        (0.26, 3),
        (2.5, 3),
        (2.51, 7),
    ],
)
def test_the_thresholds_have_a_hysteresis(accepted: float, expected: int) -> None:
    controller = started(EmaTiers(alpha=1, warmup=0, interval=1))
    controller.observe(100, 300, [round(100 * accepted), 0, 0])
    assert tier(controller) == expected


def test_it_may_cross_several_tiers_at_once() -> None:
    """All of one draft accepted: above 1 − 0.5, and no further, for 1 is not above 3 − 0.5."""
    controller = started(EmaTiers(alpha=1, warmup=0, interval=1, start=7))
    controller.observe(1, 7, [0] * 7)
    assert tier(controller) == 1
    controller.observe(1, 1, [1])
    assert tier(controller) == 3
    controller.observe(1, 3, [1, 1, 1])
    assert tier(controller) == 7


def test_tiers_that_do_not_ascend_are_refused() -> None:
    for tiers in ([3, 1], [1, 1], [1], [0, 1]):
        with pytest.raises(ValidationError):
            EmaTiers(tiers=tiers)


def test_its_numbers_can_be_compared_with_the_scenario_s() -> None:
    assert EmaTiers().counts() == {}
    assert EmaTiers(tiers=[1, 4], start=2).counts() == {("tiers", 0): 1, ("tiers", 1): 4, ("start",): 2}
