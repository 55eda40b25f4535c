"""A planned step."""

from __future__ import annotations

from servetwin.physics.protocols import ALWAYS, StepShape
from servetwin.request import Request


class PlannedStep:
    """What one step computes, its price, and what its end brings about.

    Attributes:
        shape: what the price depends on. Steps of one size that only decode may share one, so that their context is
            told by ``context`` instead; ``shape_after`` fills it in.
        total_ps: what the step takes [ps].
        growth_ps: by how much the next step of its series takes longer [ps].
        compute_ps, memory_ps, communication_ps: parts of ``total_ps``; the rest is host time [ps].
        compute_growth_ps, memory_growth_ps: parts of ``growth_ps``; the rest is host time, which may shrink [ps].
        version: the decode batch's version when the step was planned; steps of equal version and without chunks
            form a series.
        draft_ps: part of ``total_ps`` in which tokens are drafted [ps]; not in the other parts.
        accepted: drafts that stand.
        verifying: requests that verify any.
        stood: what its decodes yield and which drafts stand, packed (``draft_reading.Packing``).
        steady: only decodes, whose last tokens came from the step before: the step may start a series.
        emitted: output tokens that the step yields.
        held: tokens of KV cache in use when the step was planned, its own included.
        released: ``Rank.released`` at that time.
        prefill_tokens: prompt tokens (or tokens computed again) in the step.
        recomputed: tokens among them that had been computed before a preemption.
        attended: token × context pairs attended.
        context: KV tokens read.
        completing: requests whose prompt the step completes.
        late: decoding requests whose last token came earlier than from the step before, or elsewhere.
        lasts: for how many steps of its series, itself included, they grow by ``growth_ps``.
        chunked: requests of ``shape.chunks``, where a connector wants to know when their steps begin.
    """

    __slots__ = (
        "accepted", "attended", "chunked", "communication_ps", "completing", "compute_growth_ps", "compute_ps",
        "context", "draft_ps", "emitted", "growth_ps", "held", "lasts", "late", "memory_growth_ps", "memory_ps",
        "prefill_tokens", "recomputed", "released", "shape", "steady", "stood", "total_ps", "verifying", "version",
    )  # fmt: skip

    def __init__(
        self,
        shape: StepShape,
        total_ps: int,
        growth_ps: int,
        compute_ps: int,
        memory_ps: int,
        communication_ps: int,
        compute_growth_ps: int,
        memory_growth_ps: int,
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
        draft_ps: int = 0,
        accepted: int = 0,
        verifying: int = 0,
        stood: int = 0,
        lasts: int = ALWAYS,
    ) -> None:
        self.shape = shape
        self.total_ps = total_ps
        self.growth_ps = growth_ps
        self.compute_ps = compute_ps
        self.memory_ps = memory_ps
        self.communication_ps = communication_ps
        self.compute_growth_ps = compute_growth_ps
        self.memory_growth_ps = memory_growth_ps
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
        self.draft_ps = draft_ps
        self.accepted = accepted
        self.verifying = verifying
        self.stood = stood
        self.chunked: list[Request] | None = None
        self.lasts = lasts
        self.steady = late is None and not prefill_tokens

    def shape_after(self, steps: int) -> StepShape:
        """The whole shape of the step that comes ``steps`` steps later in the series that this one starts."""
        shape = self.shape
        if self.prefill_tokens:
            return shape
        if len(shape.context) == 1:
            context: tuple[int, ...] = (self.context + steps * shape.decodes,)
        else:
            context = tuple(now + steps * growing for now, growing in zip(shape.context, shape.growing, strict=True))
        return StepShape(
            shape.tokens, shape.padded_tokens, shape.graph, shape.requests, shape.decodes, context, shape.growing,
            shape.chunks, shape.drafted, shape.link_share, shape.stretch, shape.drafts, shape.width, shape.rows,
        )  # fmt: skip
