"""The contracts find what they are there to find: each of these policies breaks one promise."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest

from servetwin.policies import Kind, Policy, PolicyContext
from servetwin.policies.speculation import BatchController, DraftPolicy
from servetwin.request import Request
from servetwin.testing import AdmissionContract, RoutingContract, SchedulingContract, SpeculationContract


class _Peeking(Policy):
    """Reads the future."""

    kind: ClassVar[Kind] = "routing"
    policy: Literal["peeking"] = "peeking"

    def build(self, context: PolicyContext) -> Any:
        return _Router(lambda request, fleet: request.output_tokens % len(fleet.all()))


class _Outside(Policy):
    """Chooses a replica that does not exist."""

    kind: ClassVar[Kind] = "routing"
    policy: Literal["outside"] = "outside"

    def build(self, context: PolicyContext) -> Any:
        return _Router(lambda request, fleet: len(fleet.all()))


class _Router:
    def __init__(self, rule: Any) -> None:
        self._rule = rule

    def choose(self, request: Request, fleet: Any) -> int:
        return int(self._rule(request, fleet))

    def on_routed(self, request: Request, replica: int) -> None: ...

    def on_finished(self, request: Request, replica: int) -> None: ...


class _Forgetful(Policy):
    """Keys that change while a request waits."""

    kind: ClassVar[Kind] = "scheduling"
    policy: Literal["forgetful"] = "forgetful"

    def build(self, context: PolicyContext) -> Any:
        class Scheduler:
            fcfs = False
            reads_cache = False
            asked = 0

            def order(self, request: Request, cached_tokens: int) -> int:
                self.asked += 1
                return self.asked

            def victim(self, request: Request) -> None:
                return None

        return Scheduler()


class _Contrary(Policy):
    """Lets in only when it is full."""

    kind: ClassVar[Kind] = "admission"
    policy: Literal["contrary"] = "contrary"

    def build(self, context: PolicyContext) -> Any:
        class Admission:
            def admit(self, request: Request, fleet: Any) -> str | None:
                return None if fleet.value(0, "requests") != 4 else "contrary: four"

        return Admission()


class _Speculation(Policy):
    """A controller made by a rule: the view and how often it was asked → drafts."""

    kind: ClassVar[Kind] = "speculation"
    policy: Literal["ruled"] = "ruled"
    rule: Any

    def build(self, context: PolicyContext) -> Any:
        rule = self.rule

        class Controller(BatchController):
            observes = True
            per_request = True

            def choose(self, view: Any) -> int:
                return int(rule(view))

            def observe(self, requests: int, drafted: int, accepted: Any) -> None:
                assert accepted[-1] < 1000, "cannot stand that much luck"

            def limit(self, history: Any) -> int:
                return 2 - len(history)

        return Controller()


_asked = iter(range(10**9))


def _case(contract: type, policy: Policy) -> Any:
    return type("Case", (contract,), {"policy": policy})()


def test_reading_the_output_length_fails() -> None:
    with pytest.raises(AssertionError, match="output length"):
        _case(RoutingContract, _Peeking()).test_does_not_read_the_output_length()


def test_a_replica_outside_the_fleet_fails() -> None:
    with pytest.raises(AssertionError):
        _case(RoutingContract, _Outside()).test_chooses_a_replica_of_the_fleet()


def test_changing_keys_fail() -> None:
    with pytest.raises(AssertionError):
        _case(SchedulingContract, _Forgetful()).test_keys_stay_the_same()


def test_a_door_that_opens_under_load_fails() -> None:
    with pytest.raises(AssertionError):
        _case(AdmissionContract, _Contrary()).test_more_load_never_opens_the_door()


def test_more_drafts_than_there_may_be_fail() -> None:
    with pytest.raises(AssertionError, match="at most"):
        _case(
            SpeculationContract, _Speculation(rule=lambda view: view.most + 1)
        ).test_answers_stay_within_what_it_was_given()


def test_a_choice_that_was_not_said_fails() -> None:
    class _Two(DraftPolicy):
        policy: Literal["two"] = "two"

        def build(self, context: PolicyContext) -> Any:
            return _Speculation(rule=lambda view: 2).build(context)

        def choices(self, k: int, requests: int) -> set[int]:
            return {0, k}

    with pytest.raises(AssertionError):
        _case(SpeculationContract, _Two()).test_chooses_what_it_says_it_may()


def test_prices_beyond_the_most_fail() -> None:
    with pytest.raises(AssertionError, match="asked for the time"):
        case = _case(SpeculationContract, _Speculation(rule=lambda view: view.step_ps(view.most + 1)))
        case.test_answers_stay_within_what_it_was_given()


def test_answers_that_depend_on_anything_else_fail() -> None:
    with pytest.raises(AssertionError):
        case = _case(SpeculationContract, _Speculation(rule=lambda view: next(_asked) % (view.most + 1)))
        case.test_the_same_past_gives_the_same_answers()


def test_a_controller_that_breaks_at_extremes_fails() -> None:
    with pytest.raises(AssertionError, match="luck"):
        _case(SpeculationContract, _Speculation(rule=lambda view: view.most)).test_survives_extremes()


def test_a_limit_below_nothing_fails() -> None:
    with pytest.raises(AssertionError):
        _case(SpeculationContract, _Speculation(rule=lambda view: 0)).test_limits_are_numbers_of_drafts()


def test_an_unregistered_policy_fails() -> None:
    with pytest.raises(KeyError):
        _case(RoutingContract, _Outside()).test_is_registered_under_its_name()


def test_a_docstring_without_source_fails() -> None:
    with pytest.raises(AssertionError, match="where the rule comes from"):
        _case(RoutingContract, _Outside()).test_says_its_rule_and_its_source()
