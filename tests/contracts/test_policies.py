"""Every bundled policy goes through the contract of its kind: a new one needs one line here."""

from __future__ import annotations

from servetwin.policies import KINDS, union
from servetwin.policies.admission import Always, MaxQueue, MaxRequests, MaxTokens
from servetwin.policies.routing import LeastRequests, LeastTokens, PowerOfTwo, Random, RoundRobin
from servetwin.policies.scheduling import (
    EarliestDeadlineFirst,
    FirstComeFirstServed,
    Priority,
    ShortestJobFirst,
)
from servetwin.testing import AdmissionContract, RoutingContract, SchedulingContract


class TestFirstComeFirstServed(SchedulingContract):
    policy = FirstComeFirstServed()


class TestPriority(SchedulingContract):
    policy = Priority()


class TestShortestJobFirst(SchedulingContract):
    policy = ShortestJobFirst()


class TestEarliestDeadlineFirst(SchedulingContract):
    policy = EarliestDeadlineFirst()


class TestRoundRobin(RoutingContract):
    policy = RoundRobin()


class TestRandom(RoutingContract):
    policy = Random()


class TestLeastRequests(RoutingContract):
    policy = LeastRequests()


class TestLeastTokens(RoutingContract):
    policy = LeastTokens()


class TestPowerOfTwo(RoutingContract):
    policy = PowerOfTwo()


class TestPowerOfTwoByTokens(RoutingContract):
    policy = PowerOfTwo(metric="tokens")


class TestAlways(AdmissionContract):
    policy = Always()


class TestMaxRequests(AdmissionContract):
    policy = MaxRequests(requests=10)


class TestMaxQueue(AdmissionContract):
    policy = MaxQueue(waiting=3)


class TestMaxTokens(AdmissionContract):
    policy = MaxTokens(tokens=5000)


def test_no_policy_is_left_out() -> None:
    tested = {
        type(case.policy)
        for case in globals().values()
        if isinstance(case, type) and hasattr(case, "policy") and not case.__name__.endswith("Contract")
    }
    assert tested == {policy for kind in KINDS for policy in union(kind) if _is_bundled(policy)}


def _is_bundled(policy: type) -> bool:
    return policy.__module__.startswith("servetwin.")
