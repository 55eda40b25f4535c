"""The gate that closes for good, worked by hand."""

from __future__ import annotations

from servetwin.policies import PolicyContext
from servetwin.policies.speculation import DisableWhenLow
from servetwin.policies.speculation.disable_when_low import GateController
from servetwin.streams import Streams
from servetwin.testing import FakeDraftView

CONTEXT = PolicyContext(Streams(0), replicas=1, seats=8)
VIEW = FakeDraftView(3, 2)


def gate(window: int, threshold: float) -> GateController:
    return DisableWhenLow(window=window, threshold=threshold).build(CONTEXT)


def test_a_window_that_is_not_full_closes_nothing() -> None:
    found = gate(5, 0.6)
    found.observe(4, 12, [0, 0, 0])
    assert found.choose(VIEW) == 3
    found.observe(1, 3, [0, 0, 0])
    assert found.choose(VIEW) == 0


def test_the_threshold_itself_is_enough() -> None:
    """3 tokens of 5 drafts are 0.6, no less; 2 would be."""
    found = gate(5, 0.6)
    found.observe(5, 15, [3, 0, 0])
    assert found.choose(VIEW) == 3
    found.observe(5, 15, [2, 0, 0])
    assert found.choose(VIEW) == 0


def test_the_window_forgets() -> None:
    """Ten good drafts do not help after ten bad ones; the steps of 4 that are kept are two, with 8 drafts."""
    found = gate(8, 1.0)
    found.observe(10, 30, [10, 10, 10])
    for _ in range(2):
        assert found.choose(VIEW) == 3
        found.observe(4, 12, [2, 0, 0])
    assert found.choose(VIEW) == 0


def test_a_large_step_alone_fills_the_window() -> None:
    found = gate(8, 1.0)
    found.observe(100, 300, [10, 0, 0])
    assert found.choose(VIEW) == 0


def test_it_never_opens_again() -> None:
    found = gate(1, 0.5)
    found.observe(1, 3, [0, 0, 0])
    for _ in range(50):
        found.observe(1, 3, [1, 1, 1])
        assert found.choose(VIEW) == 0
