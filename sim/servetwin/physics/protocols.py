"""What a step is, and who says how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

Chunk = tuple[int, int]
"""``(new tokens, context)``: a prefill chunk and the tokens that were computed before it."""


OVER: Final = -1
"""No drafts, ever again: whoever drafted need not read along."""

ALWAYS: Final = (1 << 62) - 1
"""More steps than any run has."""


class StepShape:
    """Everything that the price of one engine step depends on.

    Attributes:
        tokens: tokens scheduled in the step, over all requests.
        padded_tokens: ``tokens`` padded up to the captured CUDA-graph size, or ``tokens`` itself.
        graph: whether a captured CUDA graph runs: whether the tokens of the step, prefill chunks or not, fit into
            the largest captured size.
        requests: requests in the step.
        decodes: requests that decode: one token each, and the drafts.
        context: per attention kind, the KV tokens read by all decoding requests together, their own included.
            Kind 0 is full attention; kind i is window ``StepTime.windows[i - 1]``, where a request reads
            ``min(context, window)``.
        growing: per attention kind, how many decoding requests read one token more in the next step.
        chunks: prefill chunks of the step.
        drafted: drafted tokens that the step verifies, over all decoding requests.
        link_share: share of its links' bandwidth that the step's collectives get, in (0, 1].
        stretch: how much longer than its price the step happens to take; 1 = no noise (``physics.jitter``).
        drafts: tokens that are drafted for every request at the end of the step. With 0 of them a drafter that has a
            cache still reads what the step has computed; with ``OVER`` nobody does.
        width: tokens per decoding request that attend its context. Where requests have different numbers of them, all
            pairs of a token and one that it attends, over ``context[0]``: longer contexts count more in this mean.
        rows: rows of logits.
    """

    __slots__ = ("chunks", "context", "decodes", "drafted", "drafts", "graph", "growing", "link_share",
                 "padded_tokens", "requests", "rows", "stretch", "tokens", "width")  # fmt: skip

    def __init__(
        self,
        tokens: int,
        padded_tokens: int,
        graph: bool,
        requests: int,
        decodes: int,
        context: tuple[int, ...],
        growing: tuple[int, ...],
        chunks: tuple[Chunk, ...] = (),
        drafted: int = 0,
        link_share: float = 1.0,
        stretch: float = 1.0,
        drafts: int = 0,
        width: float = 0.0,
        rows: int = -1,
    ) -> None:
        """Left out, ``width`` is one and the mean number of drafts of a decoding request, and ``rows`` are one of each
        request and one more for each of its drafts."""
        self.tokens = tokens
        self.padded_tokens = padded_tokens
        self.graph = graph
        self.requests = requests
        self.decodes = decodes
        self.context = context
        self.growing = growing
        self.chunks = chunks
        self.drafted = drafted
        self.link_share = link_share
        self.stretch = stretch
        self.drafts = drafts
        self.width = width or (1.0 + drafted / decodes if drafted and decodes else 1.0)
        self.rows = requests + drafted if rows < 0 else rows

    def sharing(self, link_share: float) -> StepShape:
        """The same with another share of the links."""
        return StepShape(
            self.tokens, self.padded_tokens, self.graph, self.requests, self.decodes, self.context, self.growing,
            self.chunks, self.drafted, link_share, self.stretch, self.drafts, self.width, self.rows,
        )  # fmt: skip


class StepPrice:
    """The price of a step, in whole picoseconds, and how it grows when every decode's context grows by one token.

    ``total_ps = compute_ps + memory_ps + communication_ps + host_ps + draft_ps`` and
    ``growth_ps = compute_growth_ps + memory_growth_ps + host_growth_ps + draft_growth_ps``, exactly. An operator counts
    whole as compute or memory, by the larger of the two; communication is what the step waits for; host is what the GPU
    waits for the CPU; draft is all that the drafting at its end takes, whatever bounds it.

    Where the GPU waits for the launch of layers, more context makes it wait less: then host shrinks by what compute and
    memory grow, until nothing is left of it. ``lasts`` says for how many steps, this one included, the step grows so.
    """

    __slots__ = ("communication_ps", "compute_growth_ps", "compute_ps", "draft_growth_ps", "draft_ps", "growth_ps",
                 "host_growth_ps", "host_ps", "lasts", "memory_growth_ps", "memory_ps", "total_ps")  # fmt: skip

    def __init__(
        self,
        compute_ps: int,
        memory_ps: int,
        communication_ps: int,
        host_ps: int,
        compute_growth_ps: int = 0,
        memory_growth_ps: int = 0,
        draft_ps: int = 0,
        draft_growth_ps: int = 0,
        host_growth_ps: int = 0,
        lasts: int = ALWAYS,
    ) -> None:
        self.total_ps = compute_ps + memory_ps + communication_ps + host_ps + draft_ps
        self.growth_ps = compute_growth_ps + memory_growth_ps + host_growth_ps + draft_growth_ps
        self.compute_ps = compute_ps
        self.memory_ps = memory_ps
        self.communication_ps = communication_ps
        self.host_ps = host_ps
        self.compute_growth_ps = compute_growth_ps
        self.memory_growth_ps = memory_growth_ps
        self.host_growth_ps = host_growth_ps
        self.draft_ps = draft_ps
        self.draft_growth_ps = draft_growth_ps
        self.lasts = lasts


DRAFT = "draft"
"""The kind of a phase in which tokens are drafted."""


class Phase(NamedTuple):
    """A part of a step, in order: ``count`` equal pieces on one resource, ``ps`` [ps] in all.

    The pieces are ``ps // count`` each and the last takes the remainder. ``resource`` is one of ``host``, ``sm``,
    ``hbm``, ``link``. Consecutive phases with the same ``count`` > 1 are interleaved: piece i of the first, piece i
    of the second, …, then piece i + 1 (the layers of the model).
    """

    kind: str
    resource: str
    count: int  # type: ignore[assignment]
    ps: int


class StepTime(Protocol):
    """Prices steps of one model on one replica. Time is priced here and nowhere else."""

    #: Attention windows [tokens] of the model besides full attention; index i is attention kind i + 1.
    windows: tuple[int, ...]

    def price(self, shape: StepShape) -> StepPrice:
        """What the step takes. The same shape always has the same price.

        Where a captured graph runs, it is linear in the context of the decodes: what each of its parts grows by per
        token is the same whatever the context is, namely the part's growth divided by ``growing``. Without a graph it
        is so for ``StepPrice.lasts`` steps.
        """

    def phases(self, shape: StepShape) -> list[Phase]:
        """The step in order; the sum is exactly ``price(shape).total_ps``."""

    def work(self, tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
        """Arithmetic [FLOP] and HBM traffic [B] that the step needs at least, over all ranks of the replica.

        Args:
            tokens: tokens scheduled.
            requests: rows of logits.
            context: KV tokens read, summed over requests.
            attended: token × context pairs attended, summed over requests.
        """


class StagedStepTime(StepTime, Protocol):
    """Prices steps of a model whose layers are shared out over the stages of a pipeline.

    As a ``StepTime`` it answers for all stages together: the price is the sum of what the stages compute, in which
    nothing waits and nothing is handed on.
    """

    def stages(self, shape: StepShape) -> Sequence[StepPrice]:
        """What the step takes on each stage, in order."""

    def hand_offs(self, shape: StepShape) -> Sequence[int]:
        """How long its output travels from each stage but the last to the next [ps]; whatever the context is."""

    def stage_phases(self, stage: int, shape: StepShape) -> list[Phase]:
        """The step on one stage in order; the sum is exactly its price."""
