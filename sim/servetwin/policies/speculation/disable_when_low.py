"""Off for good once too little is accepted."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from servetwin.engine.protocols import DraftView
from servetwin.policies.registry import PolicyContext, register
from servetwin.policies.speculation.base import BatchController, DraftPolicy


@register
class DisableWhenLow(DraftPolicy):
    """Speculation is switched off for the rest of the run once the mean of accepted tokens falls below a threshold.

    The mean is over the drafts of the last steps: as many steps as it takes to have ``window`` drafts, a draft being
    all that is drafted for one request in one step. Nothing happens before there are so many.

    Source: ``SpeculationGate`` of TensorRT-LLM (``tensorrt_llm/_torch/speculative/speculation_gate.py``, settings
        ``acceptance_window`` and ``acceptance_length_threshold``; in the path of one model with PR #10860). There the
        window counts completed requests, and each weighs the same; a controller here sees steps, not ends of requests.

    Attributes:
        window: drafts over which the mean is taken [drafts].
        threshold: least mean number of accepted tokens per draft [tokens].

    >>> from servetwin.policies.speculation import DisableWhenLow
    >>> from servetwin.testing import FakeDraftView
    >>> controller = DisableWhenLow(window=4, threshold=0.6).build(None)
    >>> controller.observe(requests=2, drafted=6, accepted=[1, 0, 0])  # 2 drafts so far
    >>> controller.choose(FakeDraftView(most=3, requests=2))
    3
    >>> controller.observe(requests=2, drafted=6, accepted=[1, 0, 0])  # 2 tokens of 4 drafts
    >>> controller.choose(FakeDraftView(most=3, requests=2))
    0
    """

    all_or_nothing: ClassVar[bool] = True
    policy: Literal["disable-when-low"] = "disable-when-low"
    window: PositiveInt
    threshold: Annotated[float, Field(ge=0, strict=False)]

    def choices(self, k: int, requests: int) -> set[int]:
        """``k``, and none once too little was accepted [tokens]: no mean is below a threshold of 0."""
        return {k, 0} if self.threshold else {k}

    def build(self, context: PolicyContext) -> GateController:
        """A controller for one engine."""
        return GateController(self.window, self.threshold)


class GateController(BatchController):
    """Keeps the steps of the window, and whether it is over."""

    review_steps = 1
    observes = True

    def __init__(self, window: int, threshold: float) -> None:
        self._window = window
        self._threshold = threshold
        self._steps: deque[tuple[int, int]] = deque()
        self._drafts = 0
        self._accepted = 0
        self.over = False

    def choose(self, view: DraftView) -> int:
        """The scenario's ``k`` [tokens], and 0 ever after it was switched off."""
        return 0 if self.over else view.most

    def observe(self, requests: int, drafted: int, accepted: Sequence[int]) -> None:
        """Take a step into the window, let old ones go that it does not need, and judge."""
        if self.over:
            return
        steps, stood = self._steps, sum(accepted)
        steps.append((requests, stood))
        self._drafts += requests
        self._accepted += stood
        while self._drafts - steps[0][0] >= self._window:
            drafts, old = steps.popleft()
            self._drafts -= drafts
            self._accepted -= old
        self.over = self._drafts >= self._window and self._accepted < self._threshold * self._drafts
