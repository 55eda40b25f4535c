"""No drafts in large batches."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import PositiveInt

from servetwin.engine.protocols import DraftView
from servetwin.policies.registry import PolicyContext, register
from servetwin.policies.speculation.base import BatchController, DraftPolicy


@register
class DisableByBatchSize(DraftPolicy):
    """Speculation is off while the step has as many requests as the limit, or more.

    Below it, the scenario's ``k`` tokens are drafted per request.

    Source: ``speculative_disable_by_batch_size`` of vLLM V0 (PR #5000; ``_should_disable_all_speculation`` in
        ``vllm/spec_decode/spec_decode_worker.py``, which compares the running queue with ``>=``). There, a request that
        was in a step without drafts gets none for the rest of its life; here it does.

    Attributes:
        requests: from how many requests on nothing is drafted [requests].

    >>> from servetwin.policies.speculation import DisableByBatchSize
    >>> from servetwin.testing import FakeDraftView
    >>> controller = DisableByBatchSize(requests=32).build(None)
    >>> [controller.choose(FakeDraftView(most=3, requests=size)) for size in (31, 32, 33)]
    [3, 0, 0]
    """

    all_or_nothing: ClassVar[bool] = True
    policy: Literal["disable-by-batch-size"] = "disable-by-batch-size"
    requests: PositiveInt

    def choices(self, k: int, requests: int) -> set[int]:
        """``k`` below the limit, none from it on [tokens]."""
        return {*([k] if self.requests > 1 else []), *([0] if requests >= self.requests else [])}

    def build(self, context: PolicyContext) -> ThresholdController:
        """A controller for one engine."""
        return ThresholdController(self.requests)


class ThresholdController(BatchController):
    """All or nothing."""

    def __init__(self, requests: int) -> None:
        self._requests = requests

    def choose(self, view: DraftView) -> int:
        """The scenario's ``k`` below the limit [tokens], else 0."""
        return view.most if view.requests < self._requests else 0
