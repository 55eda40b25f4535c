"""A planned step."""

from __future__ import annotations

from servetwin.physics.protocols import StepPrice, StepShape
from servetwin.request import Request


class PlannedStep:
    """What one step computes, its price, and what its end brings about.

    Attributes:
        shape: what the price depends on.
        price: what the step takes.
        version: the decode batch's version when the step was planned; steps of equal version and without chunks
            form a series.
        steady: only decodes, whose last tokens came from the step before: the step may start a series.
        emitted: output tokens that the step yields.
        held: tokens of KV cache in use when the step was planned, its own included.
        released: ``Rank.released`` at that time.
        prefill_tokens: prompt tokens (or tokens computed again) in the step.
        recomputed: tokens among them that had been computed before a preemption.
        attended: token × context pairs attended.
        context: KV tokens read.
        completing: requests whose prompt the step completes.
        late: decoding requests whose last token came earlier than from the step before.
    """

    __slots__ = ("attended", "completing", "context", "emitted", "held", "late", "prefill_tokens", "price",
                 "recomputed", "released", "shape", "steady", "version")  # fmt: skip

    def __init__(
        self,
        shape: StepShape,
        price: StepPrice,
        version: int,
        held: int,
        released: int,
        late: list[Request] | None,
        emitted: int,
        context: int,
        attended: int,
        prefill_tokens: int = 0,
        completing: list[Request] | None = None,
        recomputed: int = 0,
    ) -> None:
        self.shape = shape
        self.price = price
        self.version = version
        self.held = held
        self.released = released
        self.late = late
        self.emitted = emitted
        self.context = context
        self.attended = attended
        self.prefill_tokens = prefill_tokens
        self.completing = completing
        self.recomputed = recomputed
        self.steady = late is None and not prefill_tokens
