"""Always the same number of drafts."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.engine.protocols import DraftView
from servetwin.policies.registry import PolicyContext, register
from servetwin.policies.speculation.base import BatchController, DraftPolicy


@register
class Fixed(DraftPolicy):
    """As many tokens as the scenario's ``k`` are drafted per request, whatever the batch and whatever became of them.

    Source: the default of vLLM (``num_speculative_tokens``), SGLang (``--speculative-num-steps``) and TensorRT-LLM
        (``max_draft_len``).

    >>> from servetwin.policies.speculation import Fixed
    >>> from servetwin.testing import FakeDraftView
    >>> Fixed().build(None).choose(FakeDraftView(most=3, requests=500))
    3
    """

    constant: ClassVar[bool] = True
    all_or_nothing: ClassVar[bool] = True
    policy: Literal["fixed"] = "fixed"

    def choices(self, k: int, requests: int) -> set[int]:
        """Only ``k`` [tokens]."""
        return {k}

    def build(self, context: PolicyContext) -> FixedController:
        """A controller for one engine."""
        return FixedController()


class FixedController(BatchController):
    """The most, always."""

    def choose(self, view: DraftView) -> int:
        """The scenario's ``k`` [tokens]."""
        return view.most
