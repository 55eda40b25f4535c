"""Most tokens per second, worked by hand."""

from __future__ import annotations

import pytest

from servetwin.policies import PolicyContext
from servetwin.policies.speculation import Goodput
from servetwin.policies.speculation.goodput import GoodputController
from servetwin.streams import Streams
from servetwin.testing import FakeDraftView

CONTEXT = PolicyContext(Streams(0), replicas=1, seats=8)


def controller(**fields: float) -> GoodputController:
    return Goodput(**fields).build(CONTEXT)  # type: ignore[arg-type]


def test_nothing_known_is_the_prior_at_every_position() -> None:
    """½: 1, 1 + ½, 1 + ½ + ¼, … ."""
    assert controller(prior=0.5).expected(3) == [1, 1.5, 1.75, 1.875]


def test_positions_are_estimated_one_by_one_and_the_others_keep_the_prior() -> None:
    """10 requests: 8 accepted at the first, 2 of these at the second; the prior of ½ counts for 10 drafts.

    c₁ = (8 + 5) / (10 + 10) = 0.65, c₂ = (2 + 5) / (8 + 10) = 7/18, c₃ = ½.
    """
    found = controller(prior=0.5, weight=10)
    found.observe(10, 20, [8, 2])
    assert found.expected(3) == pytest.approx([1, 1.65, 1.65 + 0.65 * 7 / 18, 1.65 + 0.65 * 7 / 18 * 1.5])


def test_old_steps_count_less() -> None:
    """Memory of two steps: the first step counts half. c₁ = (½ · 10 + 0) / (½ · 10 + 10) without a prior's weight."""
    found = controller(memory=2, weight=1e-12)
    found.observe(10, 10, [10])
    found.observe(10, 10, [0])
    assert found.expected(1)[1] == pytest.approx(1 + 5 / 15)


def test_the_best_by_tokens_per_second() -> None:
    """Prior ½. Steps of 100, 120, 150: 1/100, 1.5/120 = 1/80, 1.75/150 = 1/85.7: one draft."""
    assert controller(prior=0.5).choose(FakeDraftView(2, 4, times_ps=[100, 120, 150])) == 1


def test_equal_promises_mean_fewer_drafts() -> None:
    assert controller(prior=0.5).choose(FakeDraftView(1, 4, times_ps=[100, 150])) == 0


def test_another_number_must_beat_the_present_one_by_the_margin() -> None:
    """1.5/120 is the present one; 1/79 promises 1.3 % more, 1/76 promises 5.3 % more."""
    found = controller(prior=0.5, margin=0.02)
    assert found.choose(FakeDraftView(1, 4, times_ps=[100, 120])) == 1
    assert found.choose(FakeDraftView(1, 4, times_ps=[79, 120])) == 1
    assert found.choose(FakeDraftView(1, 4, times_ps=[76, 120])) == 0


def test_rejections_switch_it_off_and_a_smaller_batch_on_again() -> None:
    found = controller(prior=0.7)
    dear, cheap = [100, 130, 160], [100, 101, 102]
    assert found.choose(FakeDraftView(2, 100, times_ps=dear)) > 0
    for _ in range(50):
        found.observe(100, 200, [20, 2])
    assert found.choose(FakeDraftView(2, 100, times_ps=dear)) == 0
    assert found.choose(FakeDraftView(2, 1, times_ps=cheap)) > 0


def test_it_is_asked_at_its_interval() -> None:
    assert controller(interval=5).review_steps == 5
