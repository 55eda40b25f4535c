"""Step times that fit on a line, for tests: integer prices, affine in everything."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.physics.protocols import DRAFT, Phase, StepPrice, StepShape


@dataclass(frozen=True)
class AffinePrice:
    """``base + token · tokens + request · requests + Σ context[i] · kv tokens of kind i`` and some more [ps].

    Attributes:
        base: per step, counted as memory [ps].
        token: per token, after padding, counted as compute [ps].
        request: per request, counted as memory [ps].
        context: per KV token read by decodes, one for full attention and one for each window [ps].
        context_bound: for each kind, whether that part counts as compute instead of memory.
        pair: per new token × (context before it) of prefill chunks, counted as compute [ps].
        eager: once more per step when no graph runs, counted as host [ps].
        launching: the least that all but ``eager`` takes when no graph runs; what is missing counts as host [ps].
        communication: per token [ps].
        windows: attention windows besides full attention [tokens].
        layers: pieces that the phases are cut into.
    """

    base: int = 100
    token: int = 10
    request: int = 0
    context: tuple[int, ...] = (1,)
    context_bound: tuple[bool, ...] = (False,)
    pair: int = 0
    eager: int = 0
    launching: int = 0
    communication: int = 0
    windows: tuple[int, ...] = ()
    layers: int = 3

    def price(self, shape: StepShape) -> StepPrice:
        compute = self.token * shape.padded_tokens + self.pair * sum(new * before for new, before in shape.chunks)
        memory = self.base + self.request * shape.requests
        compute_growth = memory_growth = 0
        for kind, per_token in enumerate(self.context):
            if self.context_bound[kind]:
                compute += per_token * shape.context[kind]
                compute_growth += per_token * shape.growing[kind]
            else:
                memory += per_token * shape.context[kind]
                memory_growth += per_token * shape.growing[kind]
        host = 0 if shape.graph else self.eager
        communication = self.communication * shape.tokens
        waiting = self.launching - compute - memory - communication
        if shape.graph or waiting <= 0:
            return StepPrice(compute, memory, communication, host, compute_growth, memory_growth)
        growth = compute_growth + memory_growth
        return StepPrice(
            compute, memory, communication, host + waiting, compute_growth, memory_growth, host_growth_ps=-growth,
            lasts=1 + waiting // growth if growth else 10**9,
        )  # fmt: skip

    def phases(self, shape: StepShape) -> list[Phase]:
        price = self.price(shape)
        return [
            Phase("host", "host", 1, price.host_ps),
            Phase("compute", "sm", self.layers, price.compute_ps),
            Phase("memory", "hbm", self.layers, price.memory_ps),
            Phase("all_reduce", "link", self.layers, price.communication_ps),
        ]

    def work(self, tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
        return float(tokens + attended), float(requests + context)


@dataclass(frozen=True)
class PipelinePrice:
    """A pipeline of affine stages, all with the same windows.

    Attributes:
        parts: the price of each stage.
        latency: of every hand-off [ps].
        per_token: of every hand-off, per padded token [ps].
    """

    parts: tuple[AffinePrice, ...]
    latency: int = 0
    per_token: int = 0

    @property
    def windows(self) -> tuple[int, ...]:
        return self.parts[0].windows

    def stages(self, shape: StepShape) -> list[StepPrice]:
        return [part.price(shape) for part in self.parts]

    def hand_offs(self, shape: StepShape) -> list[int]:
        return [self.latency + self.per_token * shape.padded_tokens] * (len(self.parts) - 1)

    def stage_phases(self, stage: int, shape: StepShape) -> list[Phase]:
        return self.parts[stage].phases(shape)

    def price(self, shape: StepShape) -> StepPrice:
        prices = self.stages(shape)
        names = ("compute", "memory", "communication", "host", "compute_growth", "memory_growth")
        sums = (sum(getattr(price, f"{name}_ps") for price in prices) for name in names)
        shrinks = sum(price.host_growth_ps for price in prices)
        return StepPrice(*sums, host_growth_ps=shrinks, lasts=min(price.lasts for price in prices))

    def phases(self, shape: StepShape) -> list[Phase]:
        return [phase for part in self.parts for phase in part.phases(shape)]

    def work(self, tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
        return float(tokens + attended), float(requests + context)


@dataclass(frozen=True)
class DraftingPrice(AffinePrice):
    """An affine price with rows of logits for drafts, and drafting at the end of a step.

    Attributes:
        row: per drafted token, counted as memory [ps].
        draft: per pass of the drafter [ps].
        draft_request: per pass and request [ps].
        draft_context: per pass and KV token of the decodes [ps].
        reads: per token of a step whose drafter is not over with [ps].
        wide: per KV token of the decodes and token that attends it, rounded down for each KV token, as compute [ps].
    """

    row: int = 0
    draft: int = 0
    draft_request: int = 0
    draft_context: int = 0
    wide: int = 0
    reads: int = 0

    def price(self, shape: StepShape) -> StepPrice:
        price = super().price(shape)
        passes = max(0, shape.drafts)
        drafting = passes * (
            self.draft + self.draft_request * shape.requests + self.draft_context * shape.context[0]
        ) + (0 if shape.drafts < 0 else self.reads * shape.tokens)
        attending = int(self.wide * shape.width)
        return StepPrice(
            price.compute_ps + attending * shape.context[0], price.memory_ps + self.row * shape.drafted,
            price.communication_ps, price.host_ps, price.compute_growth_ps + attending * shape.growing[0],
            price.memory_growth_ps, drafting, passes * self.draft_context * shape.growing[0], price.host_growth_ps,
            price.lasts,
        )  # fmt: skip

    def phases(self, shape: StepShape) -> list[Phase]:
        drafting = self.price(shape).draft_ps
        return [*super().phases(shape), Phase(DRAFT, "hbm", max(1, shape.drafts), drafting)]
