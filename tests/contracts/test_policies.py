"""Every bundled policy goes through the contract of its kind: a new one needs one line here."""

from __future__ import annotations

from servetwin.policies import KINDS, union
from servetwin.policies.admission import Always, MaxQueue, MaxRequests, MaxTokens
from servetwin.policies.disaggregation import Always as AlwaysSplit
from servetwin.policies.disaggregation import (
    BoundedLength,
    LengthAndQueue,
    MixedOverflow,
    Never,
    SplitBySlo,
    UncachedLength,
)
from servetwin.policies.routing import LeastRequests, LeastTokens, PowerOfTwo, Random, RoundRobin
from servetwin.policies.scheduling import (
    EarliestDeadlineFirst,
    FirstComeFirstServed,
    Priority,
    ShortestJobFirst,
)
from servetwin.policies.speculation import (
    ByBatchSize,
    DisableByBatchSize,
    DisableWhenLow,
    DraftLenSchedule,
    EmaTiers,
    Fixed,
    Goodput,
    PerRequest,
)
from servetwin.testing import (
    AdmissionContract,
    DisaggregationContract,
    RoutingContract,
    SchedulingContract,
    SpeculationContract,
)


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


class TestFixed(SpeculationContract):
    policy = Fixed()
    mosts = (1, 3, 16)


class TestByBatchSize(SpeculationContract):
    policy = ByBatchSize(ranges=[[1, 4, 7], [5, 8, 3], [32, 64, 1], [256, 512, 0]])


class TestDraftLenSchedule(SpeculationContract):
    policy = DraftLenSchedule(schedule={4: 4, 8: 2, 32: 1})


class TestDisableByBatchSize(SpeculationContract):
    policy = DisableByBatchSize(requests=32)
    mosts = (1, 3, 16)


class TestEmaTiers(SpeculationContract):
    policy = EmaTiers()
    mosts = (1, 3, 7, 16)


class TestEmaTiersOfOnesOwn(SpeculationContract):
    policy = EmaTiers(tiers=[1, 2, 4], start=3, alpha=1.0, interval=1, warmup=0, down=-0.5, up=0.5)


class TestGoodput(SpeculationContract):
    policy = Goodput()
    mosts = (1, 3, 16)


class TestDisableWhenLow(SpeculationContract):
    policy = DisableWhenLow(window=100, threshold=0.6)
    mosts = (1, 3, 16)


class TestPerRequest(SpeculationContract):
    policy = PerRequest()
    mosts = (1, 3, 16)


class TestAlwaysSplit(DisaggregationContract):
    policy = AlwaysSplit()


class TestNever(DisaggregationContract):
    policy = Never()


class TestUncachedLength(DisaggregationContract):
    policy = UncachedLength(tokens=512)


class TestLengthAndQueue(DisaggregationContract):
    policy = LengthAndQueue()


class TestLengthAndQueueWithHysteresis(DisaggregationContract):
    policy = LengthAndQueue(tokens=0, queue=8, queue_back=3)


class TestBoundedLength(DisaggregationContract):
    policy = BoundedLength()


class TestMixedOverflow(DisaggregationContract):
    policy = MixedOverflow()


class TestSplitBySlo(DisaggregationContract):
    policy = SplitBySlo(ttft_ms=1000, tpot_ms=50)


def test_no_policy_is_left_out() -> None:
    tested = {
        type(case.policy)
        for case in globals().values()
        if isinstance(case, type) and hasattr(case, "policy") and not case.__name__.endswith("Contract")
    }
    assert tested == {policy for kind in KINDS for policy in union(kind) if _is_bundled(policy)}


def _is_bundled(policy: type) -> bool:
    return policy.__module__.startswith("servetwin.")
