"""The number of drafts that yields most tokens per second, by what was accepted and what steps take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from servetwin.engine.protocols import DraftView
from servetwin.policies.registry import PolicyContext, register
from servetwin.policies.speculation.base import BatchController, DraftPolicy


@register
class Goodput(DraftPolicy):
    """The number of drafts with the most expected tokens per predicted second.

    With k drafts a request can expect 1 + c₁ + c₁c₂ + … + c₁…c_k tokens of a step, where cᵢ is how often the draft at
    position i was accepted after all before it were. cᵢ is estimated from what was seen, older steps counting less;
    ``weight`` drafts with the share ``prior`` accepted stand in before anything was seen, so positions that were never
    tried keep the prior. The time is the simulator's own price of a step in which every request has k drafts to verify
    and gets k new ones. The choice is reviewed every few steps and whenever the number of requests changes; another k
    must promise more than the present one by a margin. At 0 it learns nothing, and returns when predicted times change.

    Source: SmartSpec, Liu et al., "Optimizing Speculative Decoding for Serving Large Language Models Using Goodput",
        arXiv 2406.14066, and vLLM RFC #4565; there with one acceptance rate for all positions, here by position, as the
        adaptive verification of later versions of vLLM has it.

    Attributes:
        interval: steps between reviews.
        margin: by what share another number of drafts must promise more than the present one (0 = by anything).
        memory: how many steps with drafts the estimates look back; older ones weigh e times less.
        prior: share of drafts accepted at a position before anything was seen (0–1).
        weight: how many drafts the prior counts for [drafts].

    >>> from servetwin.policies.speculation import Goodput
    >>> from servetwin.testing import FakeDraftView
    >>> controller = Goodput(prior=0.8).build(None)
    >>> controller.choose(FakeDraftView(most=2, requests=4, times_ps=[100, 110, 120]))  # 1/100, 1.8/110, 2.44/120
    2
    >>> controller.choose(FakeDraftView(most=2, requests=400, times_ps=[100, 200, 300]))
    0
    """

    policy: Literal["goodput"] = "goodput"
    interval: PositiveInt = 8
    margin: Annotated[float, Field(ge=0, strict=False)] = 0.02
    memory: PositiveInt = 100
    prior: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.7
    weight: Annotated[float, Field(gt=0, strict=False)] = 10.0

    def build(self, context: PolicyContext) -> GoodputController:
        """A controller for one engine."""
        return GoodputController(self)


class GoodputController(BatchController):
    """Counts tries and successes by position, and compares promises."""

    observes = True

    def __init__(self, policy: Goodput) -> None:
        self.review_steps = policy.interval
        self._policy = policy
        self._keep = 1 - 1 / policy.memory
        self._tried: list[float] = []
        self._accepted: list[float] = []
        self._k = -1

    def observe(self, requests: int, drafted: int, accepted: Sequence[int]) -> None:
        """Count a step: a position is tried where all before it were accepted."""
        missing = len(accepted) - len(self._tried)
        self._tried += [0.0] * missing
        self._accepted += [0.0] * missing
        tries = requests
        for place, stood in enumerate(accepted):
            self._tried[place] = self._keep * self._tried[place] + tries
            self._accepted[place] = self._keep * self._accepted[place] + stood
            tries = stood

    def choose(self, view: DraftView) -> int:
        """The number of drafts with the highest promise [tokens]; the present one unless it is beaten clearly."""
        promises = [tokens / view.step_ps(k) for k, tokens in enumerate(self.expected(view.most))]
        # The first of equals: the fewest drafts.
        best = max(range(len(promises)), key=lambda k: (promises[k], -k))
        present = promises[self._k] if 0 <= self._k < len(promises) else 0.0
        if promises[best] > present * (1 + self._policy.margin):
            self._k = best
        return self._k

    def expected(self, most: int) -> list[float]:
        """What a request can expect of a step with 0, 1, … ``most`` drafts [tokens]."""
        prior, weight = self._policy.prior, self._policy.weight
        tokens, survives = [1.0], 1.0
        for place in range(most):
            known = place < len(self._tried)
            tried = self._tried[place] if known else 0.0
            accepted = self._accepted[place] if known else 0.0
            survives *= (accepted + prior * weight) / (tried + weight)
            tokens.append(tokens[-1] + survives)
        return tokens
