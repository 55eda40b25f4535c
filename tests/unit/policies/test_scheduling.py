"""Scheduling rules, worked by hand."""

from __future__ import annotations

from servetwin.policies import PolicyContext
from servetwin.policies.scheduling import (
    EarliestDeadlineFirst,
    FirstComeFirstServed,
    Priority,
    ShortestJobFirst,
)
from servetwin.streams import Streams
from servetwin.testing import make_request

CONTEXT = PolicyContext(Streams(0), replicas=1, seats=4)


def test_fcfs_is_a_plain_queue() -> None:
    scheduler = FirstComeFirstServed().build(CONTEXT)
    assert scheduler.fcfs and not scheduler.reads_cache
    assert scheduler.victim(make_request(0)) is None


def test_priority_serves_the_smallest_number_then_the_earliest() -> None:
    scheduler = Priority().build(CONTEXT)
    requests = [
        make_request(0, arrival_ps=1, priority=2),
        make_request(1, arrival_ps=9, priority=0),
        make_request(2, arrival_ps=4, priority=0),
        make_request(3, arrival_ps=0, priority=-1),
    ]
    order = sorted(requests, key=lambda request: scheduler.order(request, 0))
    assert [request.id for request in order] == [3, 2, 1, 0]
    # vLLM V1: max(self.running, key=lambda r: (r.priority, r.arrival_time)) is preempted.
    assert max(requests, key=scheduler.victim).id == 0
    assert max(requests[1:], key=scheduler.victim).id == 1


def test_sjf_counts_uncached_prompt_tokens() -> None:
    scheduler = ShortestJobFirst().build(CONTEXT)
    assert scheduler.reads_cache
    long_but_cached = make_request(0, arrival_ps=5, prompt_tokens=1000)
    short = make_request(1, arrival_ps=6, prompt_tokens=100)
    assert scheduler.order(long_but_cached, 960) == (40, 5)
    assert scheduler.order(long_but_cached, 960) < scheduler.order(short, 0)
    assert scheduler.order(short, 0) < scheduler.order(long_but_cached, 0)


def test_sjf_never_counts_below_zero_when_a_preempted_request_finds_its_output_too() -> None:
    scheduler = ShortestJobFirst().build(CONTEXT)
    assert scheduler.order(make_request(0, arrival_ps=3, prompt_tokens=100), 112) == (0, 3)


def test_edf_serves_the_nearest_deadline_and_those_without_one_last() -> None:
    scheduler = EarliestDeadlineFirst().build(CONTEXT)
    requests = [
        make_request(0, arrival_ps=0),
        make_request(1, arrival_ps=5, deadline_ps=700),
        make_request(2, arrival_ps=9, deadline_ps=300),
        make_request(3, arrival_ps=2),
    ]
    order = sorted(requests, key=lambda request: scheduler.order(request, 0))
    assert [request.id for request in order] == [2, 1, 0, 3]
    assert max(requests, key=scheduler.victim).id == 3
