"""The contract of controllers of speculation, as a test case to inherit from."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from unittest import SkipTest

from servetwin.engine.protocols import DraftController
from servetwin.policies.speculation import DraftPolicy
from servetwin.testing.doubles import FakeDraftView
from servetwin.testing.policy_contracts import PolicyContract, context

_SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 31, 32, 33, 64, 100, 256, 1000)
_STEPS = 300


class SpeculationContract(PolicyContract):
    """What every controller of speculation promises."""

    #: The most tokens that may be drafted per request, a scenario's ``k``, at which the policy is tried.
    mosts: Sequence[int] = (7, 8, 16)

    def controller(self) -> DraftController:
        """A new controller."""
        controller: DraftController = self.policy.build(context())
        return controller

    def test_declares_what_it_wants(self) -> None:
        """``observes`` and ``per_request`` are plain booleans, ``review_steps`` is a number of steps."""
        controller = self.controller()
        assert isinstance(controller.observes, bool)
        assert isinstance(controller.per_request, bool)
        assert type(controller.review_steps) is int
        assert controller.review_steps >= 0

    def test_answers_stay_within_what_it_was_given(self) -> None:
        """Whatever came of the drafts before, the answer is a whole number from 0 to ``most``."""
        for most in self.mosts:
            for answer in self._answers(most, seed=most):
                assert type(answer) is int
                assert 0 <= answer <= most, f"{answer} drafts, where at most {most} are possible"

    def test_chooses_what_it_says_it_may(self) -> None:
        """Every answer is one of the policy's ``choices``, by which scenarios find policies without effect."""
        if not isinstance(self.policy, DraftPolicy):
            raise SkipTest("the policy does not say what it may choose")
        for most in self.mosts:
            assert set(self._answers(most, seed=most)) <= set(self.policy.choices(most, max(_SIZES)))

    def test_the_same_past_gives_the_same_answers(self) -> None:
        """Two controllers that see the same answer alike: nothing is random, nothing is shared."""
        for most in self.mosts:
            assert list(self._answers(most, seed=1)) == list(self._answers(most, seed=1))

    def test_survives_extremes(self) -> None:
        """All accepted, none accepted, and steps in which few of many requests had drafts."""
        for most in self.mosts:
            controller = self.controller()
            view = FakeDraftView(most, 8)
            for requests, share in ((1, 1), (1000, 1), (1000, 0), (1, 0)) * 20:
                k = controller.choose(view)
                assert 0 <= k <= most
                if k and controller.observes:
                    controller.observe(requests, requests * k, [requests * share] * k)

    def test_limits_are_numbers_of_drafts(self) -> None:
        """The limit of a request is 0 or more, and the same for the same history, which it leaves alone."""
        controller, rng = self.controller(), random.Random(5)
        if not controller.per_request:
            raise SkipTest("requests have no limits of their own")
        history: list[tuple[int, int]] = []
        for _ in range(60):
            before = list(history)
            limit = controller.limit(history)
            assert type(limit) is int
            assert limit >= 0
            assert controller.limit(tuple(history)) == limit
            assert history == before
            drafted = max(min(limit, max(self.mosts)), 1)
            history.append((drafted, rng.randint(0, drafted)))

    def _answers(self, most: int, seed: int) -> Iterator[int]:
        """What a new controller answers over a run of random batches and random luck."""
        controller, rng = self.controller(), random.Random(seed)
        for _ in range(_STEPS):
            requests = rng.choice(_SIZES)
            times = sorted(rng.randrange(1, 10**9) for _ in range(most + 1))
            k = controller.choose(FakeDraftView(most, requests, 1000 * requests, times))
            yield k
            if k and controller.observes:
                accepted, left = [], requests
                for _ in range(k):
                    left = rng.randint(0, left)
                    accepted.append(left)
                drafted = rng.randint(max(requests, sum(accepted)), requests * k)
                controller.observe(requests, drafted, accepted)
