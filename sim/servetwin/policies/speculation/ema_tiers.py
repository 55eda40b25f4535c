"""Tiers of drafts that follow a moving average of what was accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt

from servetwin.engine.protocols import DraftView
from servetwin.policies.registry import PolicyContext, register
from servetwin.policies.speculation.base import BatchController, DraftPolicy

_TIERS = (1, 3, 7)


def _ascending(tiers: list[int]) -> list[int]:
    if sorted(set(tiers)) != tiers:
        raise ValueError(f"the tiers must ascend: {tiers}")
    return tiers


@register
class EmaTiers(DraftPolicy):
    """The number of drafts is one of a few tiers, near one more than what is usually accepted.

    After each step that verified drafts, the mean number of accepted tokens per request enters an exponential moving
    average, which begins one below the first tier. Every few steps after the warm-up the tier is reviewed: it falls,
    tier by tier, while the average is at most the tier below − 0.5 + ``down``; then it rises while the average is above
    the tier − 0.5 + ``up``. So the target is one more than the average, rounded, with a hysteresis.

    Source: adaptive speculative decoding of SGLang (PR #21599; ``AdaptiveSpeculativeParams`` in
        ``python/sglang/srt/speculative/adaptive_spec_params.py`` at commit 13d3f64, with its defaults; later versions
        have such tiers for each range of batch sizes). There, batches without drafts do not exist.

    Attributes:
        tiers: the numbers of drafts per request to choose from [tokens], ascending; None = 1, 3 and 7 as far as the
            scenario allows, and its ``k``.
        start: the first tier [tokens]; one that is not in ``tiers`` is added. None = the middle one.
        alpha: weight of the last step in the moving average (0–1).
        interval: steps with drafts between reviews.
        warmup: steps with drafts before the first interval begins.
        down: moves the threshold for a lower tier [tokens]; below 0, it is harder to fall.
        up: moves the threshold for a higher tier [tokens]; above 0, it is harder to rise.

    >>> from servetwin.policies.speculation import EmaTiers
    >>> from servetwin.testing import FakeDraftView
    >>> controller = EmaTiers().build(None)
    >>> controller.choose(FakeDraftView(most=7, requests=2))
    3
    >>> for step in range(15):  # both requests have all their drafts accepted
    ...     controller.observe(requests=2, drafted=6, accepted=[2, 2, 2])
    >>> controller.choose(FakeDraftView(most=7, requests=2))
    7
    """

    policy: Literal["ema-tiers"] = "ema-tiers"
    tiers: Annotated[list[PositiveInt], Field(min_length=2), AfterValidator(_ascending)] | None = None
    start: PositiveInt | None = None
    alpha: Annotated[float, Field(gt=0, le=1, strict=False)] = 0.2
    interval: PositiveInt = 5
    warmup: NonNegativeInt = 10
    down: Annotated[float, Field(strict=False)] = -0.25
    up: Annotated[float, Field(strict=False)] = 0.0

    def counts(self) -> Mapping[tuple[str | int, ...], int]:
        """The tiers and the first of them [tokens]."""
        found: dict[tuple[str | int, ...], int] = {("tiers", place): k for place, k in enumerate(self.tiers or ())}
        return found if self.start is None else {**found, ("start",): self.start}

    def choices(self, k: int, requests: int) -> set[int]:
        """The tiers [tokens]."""
        return {min(tier, k) for tier in self.reachable(k)}

    def reachable(self, k: int) -> list[int]:
        """The tiers in order, the first of them included, where ``k`` drafts are possible [tokens]."""
        tiers = set(self.tiers or [tier for tier in (*_TIERS, k) if tier <= k])
        return sorted(tiers if self.start is None else {*tiers, self.start})

    def build(self, context: PolicyContext) -> EmaController:
        """A controller for one engine."""
        return EmaController(self)


class EmaController(BatchController):
    """Keeps the average and the tier. The tiers are known when it is first asked, for they depend on the most."""

    review_steps = 1
    observes = True

    def __init__(self, policy: EmaTiers) -> None:
        self._policy = policy
        self._tiers: list[int] = []
        self._place = 0
        self._average = 0.0
        self._steps = 0

    def choose(self, view: DraftView) -> int:
        """The present tier [tokens]."""
        if not self._tiers:
            self._begin(view.most)
        return min(self._tiers[self._place], view.most)

    def observe(self, requests: int, drafted: int, accepted: Sequence[int]) -> None:
        """Take a step into the average, and review the tier when it is time."""
        policy = self._policy
        if not requests or not self._tiers:
            return
        self._average = (1 - policy.alpha) * self._average + policy.alpha * (sum(accepted) / requests)
        self._steps += 1
        after = self._steps - policy.warmup
        if after > 0 and after % policy.interval == 0:
            self._review()

    def _begin(self, most: int) -> None:
        policy = self._policy
        self._tiers = policy.reachable(most)
        self._place = len(self._tiers) // 2 if policy.start is None else self._tiers.index(policy.start)
        self._average = float(self._tiers[self._place] - 1)

    def _review(self) -> None:
        tiers, average = self._tiers, self._average
        while self._place > 0 and average <= tiers[self._place - 1] - 0.5 + self._policy.down:
            self._place -= 1
        while self._place < len(tiers) - 1 and average > tiers[self._place] - 0.5 + self._policy.up:
            self._place += 1
