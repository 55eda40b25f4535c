"""Admission rules, worked by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from servetwin.policies import PolicyContext
from servetwin.policies.admission import Always, MaxQueue, MaxRequests, MaxTokens
from servetwin.streams import Streams
from servetwin.testing import FakeFleet, make_request

CONTEXT = PolicyContext(Streams(0), replicas=2, seats=8)
REQUEST = make_request(0, prompt_tokens=100)


def test_always_admits() -> None:
    assert Always().build(CONTEXT).admit(REQUEST, FakeFleet([10**9])) is None


@pytest.mark.parametrize(("load", "admitted"), [([4, 5], True), ([4, 6], False), ([10, 0], False)])
def test_max_requests_counts_the_whole_cluster(load: list[int], admitted: bool) -> None:
    assert (MaxRequests(requests=10).build(CONTEXT).admit(REQUEST, FakeFleet(load)) is None) is admitted


@pytest.mark.parametrize(("load", "admitted"), [([5, 4], True), ([5, 5], False)])
def test_max_queue_counts_beyond_the_seats(load: list[int], admitted: bool) -> None:
    # 8 seats and 2 places in the queue: the tenth request is the last.
    assert (MaxQueue(waiting=2).build(CONTEXT).admit(REQUEST, FakeFleet(load)) is None) is admitted


@pytest.mark.parametrize(("tokens", "admitted"), [([500, 400], True), ([500, 401], False)])
def test_max_tokens_adds_the_prompt(tokens: list[int], admitted: bool) -> None:
    fleet = FakeFleet([1, 1], tokens=tokens)
    assert (MaxTokens(tokens=1000).build(CONTEXT).admit(REQUEST, fleet) is None) is admitted


def test_max_tokens_lets_a_huge_request_into_an_empty_cluster() -> None:
    huge = make_request(0, prompt_tokens=10**6)
    assert MaxTokens(tokens=1000).build(CONTEXT).admit(huge, FakeFleet([0, 0])) is None


@pytest.mark.parametrize("limit", [0, -1, 1.5, float("nan"), "10", True])
def test_limits_are_positive_whole_numbers(limit: object) -> None:
    with pytest.raises(ValidationError):
        MaxRequests(requests=limit)  # type: ignore[arg-type]
