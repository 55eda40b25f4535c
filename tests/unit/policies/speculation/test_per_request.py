"""A request's own number of drafts, worked by hand."""

from __future__ import annotations

import pytest

from servetwin.policies import PolicyContext
from servetwin.policies.speculation import PerRequest
from servetwin.streams import Streams
from servetwin.testing import FakeDraftView

CONTEXT = PolicyContext(Streams(0), replicas=1, seats=8)


@pytest.mark.parametrize(
    ("history", "limit"),
    [
        # The band is from 0.625 to 0.875, its ends not included.
        ([(4, 4), (4, 4), (4, 4)], 5),
        ([(8, 7), (8, 7), (8, 7)], 9),
        ([(8, 6), (8, 6), (8, 6)], 8),
        ([(8, 5), (8, 5), (8, 5)], 7),
        ([(4, 0), (4, 0), (4, 0)], 3),
        ([(1, 0), (1, 0), (1, 0)], 1),
        ([(2, 2), (3, 3), (4, 0)], 4),  # two thirds on average; the last had four
    ],
)
def test_one_more_one_fewer_or_as_many_as_in_the_last_step(history: list[tuple[int, int]], limit: int) -> None:
    controller = PerRequest(target=0.75, band=0.125).build(CONTEXT)
    assert controller.limit(history) == limit


def test_only_the_last_steps_count() -> None:
    controller = PerRequest(window=3).build(CONTEXT)
    assert controller.limit([(4, 0)] * 100 + [(4, 4)] * 3) == 5


def test_patience_comes_first() -> None:
    controller = PerRequest(patience=4).build(CONTEXT)
    assert controller.limit([(4, 0)] * 3) >= 4
    assert controller.limit([(4, 0)] * 4) == 3


def test_never_fewer_than_the_least() -> None:
    policy = PerRequest(least=2)
    assert policy.build(CONTEXT).limit([(2, 0)] * 5) == 2
    assert policy.counts() == {("least",): 2}


def test_the_batch_gets_the_most() -> None:
    assert PerRequest().build(CONTEXT).choose(FakeDraftView(6, 100)) == 6
