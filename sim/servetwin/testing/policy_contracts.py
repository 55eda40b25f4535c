"""The contracts of policies, as test cases to inherit from.

A test of a policy is a subclass with one attribute; a third party's policy inherits the same suite::

    class TestMine(RoutingContract):
        policy = MyPolicy(limit=3)
"""

from __future__ import annotations

import pickle
from inspect import isdatadescriptor
from typing import Any, ClassVar

from servetwin.cluster.protocols import Admission, Router
from servetwin.engine.protocols import Scheduler
from servetwin.policies import Policy, PolicyContext, find, parse_policy
from servetwin.request import Request
from servetwin.streams import Streams
from servetwin.testing.doubles import FakeFleet, make_request


def context(seed: int = 0, replicas: int = 4) -> PolicyContext:
    """A context of a small cluster, with four seats on each replica."""
    return PolicyContext(streams=Streams(seed), replicas=replicas, seats=4 * replicas)


class PolicyContract:
    """What holds for a policy of any kind; not a test by itself."""

    #: The policy under test.
    policy: ClassVar[Policy]

    def test_is_registered_under_its_name(self) -> None:
        """A scenario that names the policy gets this class."""
        assert find(self.policy.kind, self.policy.name()) is type(self.policy)

    def test_survives_a_round_trip_through_a_scenario(self) -> None:
        """The fields that a resolved scenario writes give the same policy again."""
        written = self.policy.model_dump(mode="json")
        assert parse_policy(self.policy.kind, written) == self.policy

    def test_says_its_rule_and_its_source(self) -> None:
        """The docstring is the documentation: a rule, a source, and every field."""
        text = type(self.policy).__doc__ or ""
        assert len(text.strip()) > 20, "the docstring must say the rule"
        assert "Source:" in text, "the docstring must say where the rule comes from"
        missing = [field for field in self.policy.parameters() if f"{field}:" not in text]
        assert not missing, f"the docstring must explain the fields {missing}"

    def test_is_frozen_and_pickles(self) -> None:
        """A sweep hands policies to other processes; nobody may change one on the way."""
        assert self.policy.model_config.get("frozen") is True
        assert pickle.loads(pickle.dumps(self.policy)) == self.policy

    def test_each_build_is_new(self) -> None:
        """Two engines, or two runs, never share state."""
        assert self.policy.build(context()) is not self.policy.build(context())


class RoutingContract(PolicyContract):
    """What every router promises."""

    fleets: ClassVar = [
        FakeFleet([0]),
        FakeFleet([0, 0, 0, 0]),
        FakeFleet([7, 3, 0, 3], tokens=[10, 20, 30, 40]),
        FakeFleet([1, 2, 3], indices=[2, 5, 9]),
    ]

    def router(self, seed: int = 0) -> Router:
        """A new router."""
        router: Router = self.policy.build(context(seed))
        return router

    def test_chooses_a_replica_of_the_fleet(self) -> None:
        """Never an index that the view does not show, whatever its size, gaps in its indices included."""
        for fleet in self.fleets:
            router = self.router()
            for id in range(50):
                assert router.choose(make_request(id, sealed=True), fleet) in fleet.all()

    def test_does_not_read_the_output_length(self) -> None:
        """The output length lies in the future."""
        router = self.router()
        fleet = FakeFleet([3, 1, 2])
        for id in range(20):
            request = make_request(id, sealed=True)
            replica = router.choose(request, fleet)
            router.on_routed(request, replica)
            router.on_finished(request, replica)

    def test_same_seed_same_choices(self) -> None:
        """Two routers of the same seed choose alike, on the same views."""
        assert self._choices(self.router(3)) == self._choices(self.router(3))

    def test_leaves_the_request_alone(self) -> None:
        """Choosing stamps nothing: the gateway does."""
        router, request = self.router(), make_request(0)
        before = _fields(request)
        router.choose(request, FakeFleet([1, 0]))
        assert _fields(request) == before

    def test_bookkeeping_survives_many_requests(self) -> None:
        """Hooks may be called in any order of ends, and a replica may leave the fleet."""
        router, fleet = self.router(), FakeFleet([0, 0, 0, 0])
        sent = []
        for id in range(200):
            request = make_request(id)
            replica = router.choose(request, fleet)
            router.on_routed(request, replica)
            fleet.routed(request, replica)
            sent.append((request, replica))
        for request, replica in reversed(sent):
            router.on_finished(request, replica)
        smaller = FakeFleet([0, 0], indices=[1, 3])
        assert router.choose(make_request(999), smaller) in smaller.all()

    @staticmethod
    def _choices(router: Router) -> list[int]:
        fleet, choices = FakeFleet([0, 0, 0, 0, 0]), []
        for id in range(100):
            request = make_request(id)
            replica = router.choose(request, fleet)
            router.on_routed(request, replica)
            fleet.routed(request, replica)
            choices.append(replica)
        return choices


class SchedulingContract(PolicyContract):
    """What every scheduler promises."""

    def scheduler(self) -> Scheduler:
        """A new scheduler."""
        scheduler: Scheduler = self.policy.build(context())
        return scheduler

    @staticmethod
    def requests() -> list[Request]:
        """Requests that differ in everything that a scheduler may look at; some have equal keys."""
        return [
            make_request(
                id,
                arrival_ps=(id * 7) % 5,
                prompt_tokens=1 + (id * 37) % 90,
                priority=id % 3,
                deadline_ps=-1 if id % 4 == 0 else id * 11 % 50,
                sealed=True,
            )
            for id in range(40)
        ]

    def test_declares_what_it_reads(self) -> None:
        """``fcfs`` and ``reads_cache`` are plain booleans."""
        scheduler = self.scheduler()
        assert isinstance(scheduler.fcfs, bool)
        assert isinstance(scheduler.reads_cache, bool)

    def test_keys_can_be_compared(self) -> None:
        """The keys of any two requests have an order; a victim key is None for all of them or for none."""
        scheduler = self.scheduler()
        requests = self.requests()
        sorted(scheduler.order(request, 0) for request in requests)
        victims = [scheduler.victim(request) for request in requests]
        if any(victim is not None for victim in victims):
            sorted(victims)

    def test_keys_stay_the_same(self) -> None:
        """A key is read once, so asking again must give the same one."""
        scheduler = self.scheduler()
        for request in self.requests():
            assert scheduler.order(request, 16) == scheduler.order(request, 16)
            assert scheduler.victim(request) == scheduler.victim(request)

    def test_reads_the_cache_only_if_it_says_so(self) -> None:
        """The engine looks into the cache only for schedulers that say that they need it."""
        scheduler = self.scheduler()
        if not scheduler.reads_cache:
            for request in self.requests():
                assert scheduler.order(request, 0) == scheduler.order(request, 64)

    def test_first_come_first_served_has_no_victims_of_its_own(self) -> None:
        """An fcfs queue preempts the last admitted: its front is where the preempted request returns to."""
        scheduler = self.scheduler()
        if scheduler.fcfs:
            assert all(scheduler.victim(request) is None for request in self.requests())


class AdmissionContract(PolicyContract):
    """What every admission policy promises."""

    def admission(self) -> Admission:
        """A new admission."""
        admission: Admission = self.policy.build(context())
        return admission

    def test_lets_a_request_into_an_empty_cluster(self) -> None:
        """A cluster with nothing in it takes a small request."""
        assert self.admission().admit(make_request(0, prompt_tokens=1, sealed=True), FakeFleet([0, 0, 0, 0])) is None

    def test_answers_none_or_a_reason(self) -> None:
        """A rejection says why, on one line, and names the policy."""
        admission = self.admission()
        for load in (0, 1, 10, 10_000, 10**9):
            answer = admission.admit(make_request(0, sealed=True), FakeFleet([load] * 4))
            assert answer is None or (self.policy.name() in answer and "\n" not in answer)

    def test_more_load_never_opens_the_door(self) -> None:
        """What is rejected under some load is rejected under a higher one."""
        admission = self.admission()
        answers = [
            admission.admit(make_request(0), FakeFleet([load] * 4)) is None for load in (0, 1, 4, 16, 10**4, 10**9)
        ]
        assert answers == sorted(answers, reverse=True)


def _fields(request: Request) -> dict[str, Any]:
    return {name: getattr(request, name) for name, kind in vars(Request).items() if isdatadescriptor(kind)}
