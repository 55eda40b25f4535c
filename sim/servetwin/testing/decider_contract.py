"""The contract of deciders of disaggregation, as test cases to inherit from."""

from __future__ import annotations

from typing import Any

from servetwin.cluster.protocols import CHOICES, MIXED, REJECT, Decider
from servetwin.policies.disaggregation import SplitPolicy
from servetwin.testing.doubles import FakeSplitView, make_request
from servetwin.testing.policy_contracts import PolicyContract, context


class DisaggregationContract(PolicyContract):
    """What every decider promises."""

    def decider(self, seed: int = 0) -> Decider:
        """A new decider."""
        decider: Decider = self.policy.build(context(seed))
        return decider

    @staticmethod
    def view(number: int, mixed: bool) -> FakeSplitView:
        """A view of its own for each number: empty and full clusters, cold and warm prompts, good and bad forecasts."""
        return FakeSplitView(
            prefill_waiting=number * 7 % 11,
            prefill_tokens=number * 997 % 20_000,
            decode_tokens=number * 1_009 % 50_000,
            decode_room=30_000,
            mixed=mixed,
            cached_tokens=number % 3 * 64 * number,
            ttft_ms=number * 89 % 3_000,
            tpot_ms=number * 13 % 200,
        )

    def test_answers_with_a_choice_or_a_reason(self) -> None:
        """One of the choices, or why the request is rejected, on one line; the output length is not read."""
        decider = self.decider()
        for number in range(60):
            request = make_request(number, prompt_tokens=1 + number * 389 % 20_000, sealed=True)
            answer = decider.decide(request, self.view(number, mixed=number % 2 == 0))
            assert answer in CHOICES or (answer.startswith(REJECT) and self.policy.name() in answer)
            assert "\n" not in answer

    def test_sends_nothing_where_there_is_nobody(self) -> None:
        """Replicas that do both are chosen only where there are some."""
        decider = self.decider()
        for number in range(40):
            view = self.view(number, mixed=False)
            assert decider.decide(make_request(number, prompt_tokens=1 + 500 * number), view) != MIXED

    def test_same_seed_same_choices(self) -> None:
        """Two deciders of the same seed choose alike, on the same views."""
        one, other = self.decider(3), self.decider(3)
        for number in range(100):
            view = self.view(number, mixed=True)
            request = make_request(number, prompt_tokens=1 + number * 389 % 20_000)
            assert one.decide(request, view) == other.decide(request, view)

    def test_says_what_it_asks_for(self) -> None:
        """The gateway keeps the books that a policy asks for, and no others."""
        policy = self.policy
        assert isinstance(policy, SplitPolicy)
        decider, asked, mixed = self.decider(), set[str](), False
        for number in range(200):
            view = _Watched(self.view(number, mixed=True), asked)
            request = make_request(number, prompt_tokens=1 + number * 389 % 20_000)
            mixed = decider.decide(request, view) == MIXED or mixed
        assert "cached_tokens" not in asked or policy.reads_cache
        assert not asked & {"ttft_ps", "tpot_ps"} or policy.predicts
        assert not mixed or policy.uses_mixed
        if policy.reads_cache:
            assert policy.order == "decode-first", "the replica must be known before its cache is asked for"


class _Watched:
    """A view that notes what it is asked."""

    def __init__(self, view: FakeSplitView, asked: set[str]) -> None:
        self._view = view
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        self._asked.add(name)
        return getattr(self._view, name)
