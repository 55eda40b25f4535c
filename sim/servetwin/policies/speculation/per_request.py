"""Each request has its own number of drafts, by its own history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from servetwin.engine.protocols import DraftView
from servetwin.policies.registry import PolicyContext, register
from servetwin.policies.speculation.base import BatchController, DraftPolicy


@register
class PerRequest(DraftPolicy):
    """A request gets one draft more than last time where it accepts most of them, one fewer where it accepts few.

    Its acceptance is the mean, over its last steps with drafts, of the share of drafted tokens that stood. At or above
    ``target`` + ``band`` it gets one more than in its last step, at or below ``target`` − ``band`` one fewer, else as
    many; never fewer than ``least`` nor more than the scenario's ``k``. It begins with ``k``, and keeps it until
    ``patience`` steps are known. The load does not enter: what requests accept hardly depends on it, so this rule never
    switches speculation off. The drafter runs as often as ``k`` says, for it drafts for the whole batch at once: the
    limit of a request shortens what is verified for it.

    Source: per-sequence speculation in vLLM (issue #17984), with the rule and the constants of the ``DynamicProposer``
        proposed in PR #26504 (``vllm/v1/spec_decode/dynamic_proposer.py``); the target is a
        setting there, its default here is ours. The same idea with another signal: DSDE, arXiv 2509.01083.

    Attributes:
        target: share of drafted tokens to be accepted (0–1).
        band: half the width of the band around it in which nothing changes (0–1).
        window: steps of the request over which its acceptance is taken [steps].
        patience: steps of the request before anything changes [steps].
        least: fewest drafts of a request [tokens].

    >>> from servetwin.policies.speculation import PerRequest
    >>> controller = PerRequest(target=0.7).build(None)
    >>> controller.limit([(3, 3), (3, 3)]) >= 3  # too early to say
    True
    >>> controller.limit([(3, 3), (3, 3), (3, 3)])  # all accepted: one more
    4
    >>> controller.limit([(3, 1), (3, 0), (3, 2)])  # a third accepted: one fewer
    2
    """

    policy: Literal["per-request"] = "per-request"
    target: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.7
    band: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.05
    window: PositiveInt = 10
    patience: PositiveInt = 3
    least: PositiveInt = 1

    def counts(self) -> dict[tuple[str | int, ...], int]:
        """The fewest drafts [tokens]."""
        return {("least",): self.least}

    def choices(self, k: int, requests: int) -> set[int]:
        """From the fewest on [tokens]."""
        return set(range(self.least, k + 1))

    def build(self, context: PolicyContext) -> RequestController:
        """A controller for one engine."""
        return RequestController(self)


class RequestController(BatchController):
    """Judges a request by its last steps."""

    per_request = True

    def __init__(self, policy: PerRequest) -> None:
        self._policy = policy

    def choose(self, view: DraftView) -> int:
        """The scenario's ``k`` [tokens]: requests have their own limits."""
        return view.most

    def limit(self, history: Sequence[tuple[int, int]]) -> int:
        """The most drafts for a request with this history [tokens]."""
        policy = self._policy
        if len(history) < policy.patience:
            return super().limit(history)
        last = history[-policy.window :]
        share = sum(accepted / drafted for drafted, accepted in last) / len(last)
        now = history[-1][0]
        if share >= policy.target + policy.band:
            now += 1
        elif share <= policy.target - policy.band:
            now -= 1
        return max(now, policy.least)
