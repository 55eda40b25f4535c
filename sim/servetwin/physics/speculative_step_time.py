"""The price of a step that verifies drafts and makes new ones."""

from __future__ import annotations

from servetwin.physics.drafting import Drafting
from servetwin.physics.protocols import OVER, Phase, StepPrice, StepShape
from servetwin.physics.step_time import RooflineStepTime


class SpeculativeStepTime:
    """A model's steps with what drafting at their end takes; implements ``StepTime``.

    Verifying is a step of the model with more tokens and more rows of logits; that is all in the shape.

    Args:
        verifying: prices the steps of the model.
        drafting: prices the drafts.
    """

    def __init__(self, verifying: RooflineStepTime, drafting: Drafting) -> None:
        self._verifying = verifying
        self._drafting = drafting
        self.windows: tuple[int, ...] = verifying.windows

    def price(self, shape: StepShape) -> StepPrice:
        """What the step takes, in whole picoseconds [ps]."""
        price = self._verifying.price(shape)
        if shape.drafts == OVER:
            return price
        draft, growth = self._drafting.cost(shape)
        return StepPrice(
            price.compute_ps, price.memory_ps, price.communication_ps, price.host_ps, price.compute_growth_ps,
            price.memory_growth_ps, draft, growth, price.host_growth_ps, price.lasts,
        )  # fmt: skip

    def phases(self, shape: StepShape) -> list[Phase]:
        """The step in order, its drafting at the end; the sum is exactly the price."""
        phases = self._verifying.phases(shape)
        return phases if shape.drafts == OVER else phases + self._drafting.phases(shape)

    def work(self, tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
        """What the model needs at least, without the drafter; see ``StepTime``."""
        return self._verifying.work(tokens, requests, context, attended)

    def floor(self, shape: StepShape) -> tuple[int, int]:
        """See ``jitter.BoundedStepTime``; of the model, without the drafter."""
        return self._verifying.floor(shape)
