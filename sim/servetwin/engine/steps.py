"""From the state of a rank to the shape and price of its next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.plan import PlannedStep
from servetwin.engine.protocols import EngineSettings
from servetwin.physics.protocols import StepShape, StepTime
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.batch import DecodeBatch
    from servetwin.engine.rank import Rank


_DecodePrice = tuple[StepShape, int, int, int, int, int, int, int]
"""The price of a step of so many decodes, whatever their context: shape, compute, compute per token of context, memory,
memory per token of context, communication, communication and host together, growth of the compute [ps]."""


class StepMaker:
    """Makes planned steps, for all ranks that are alike.

    A step that only decodes in a captured graph, of a model with one kind of attention, has a price that is linear in
    the context (``StepTime.price``): it is asked for once for each number of requests.

    Args:
        settings: the engine's settings: captured graph sizes and block size.
        step_time: prices the steps.

    Attributes:
        windows: attention windows of the model besides full attention [tokens].
    """

    __slots__ = ("_block_size", "_decode_prices", "_padded", "_price", "windows")

    def __init__(self, settings: EngineSettings, step_time: StepTime) -> None:
        self._price = step_time.price
        self._block_size = settings.block_size
        self._padded = padding(settings.graph_sizes)
        self._decode_prices: dict[int, _DecodePrice] = {}
        self.windows = step_time.windows

    def decodes(self, rank: Rank) -> PlannedStep:
        """A step of the decode batch alone."""
        batch = rank.batch
        size = batch.size
        context = batch.context
        late = rank.rejoined or None
        rank.rejoined = None
        held = rank.tokens_held - rank.pool.overlap * self._block_size + size
        if batch.windows or rank.noise is not None or size >= len(self._padded):
            shape = self._decoding(size, *self.by_kind(batch))
            if rank.noise is not None:
                shape.stretch = rank.noise()
            price = self._price(shape)
            return PlannedStep(
                shape, price.total_ps, price.growth_ps, price.compute_ps, price.memory_ps, price.communication_ps,
                price.compute_growth_ps, price.memory_growth_ps, batch.version, held, rank.released, late, size,
                context, context, lasts=price.lasts,
            )  # fmt: skip
        shape, compute, by_compute, memory, by_memory, communication, rest, growth = self._decode_prices.get(
            size
        ) or self._decode_price(size)
        compute += by_compute * context
        memory += by_memory * context
        return PlannedStep(
            shape, compute + memory + rest, growth + by_memory * size, compute, memory, communication, growth,
            by_memory * size, batch.version, held, rank.released, late, size, context, context,
        )  # fmt: skip

    def sharing(self, step: PlannedStep, crowd: float) -> PlannedStep:
        """``step`` as it is when ``crowd`` share the links of its collectives."""
        if crowd == 1.0:
            return step
        shape = step.shape_after(0).sharing(1 / crowd)
        price = self._price(shape)
        shared = PlannedStep(
            shape, price.total_ps, price.growth_ps, price.compute_ps, price.memory_ps, price.communication_ps,
            price.compute_growth_ps, price.memory_growth_ps, step.version, step.held, step.released, step.late,
            step.emitted, step.context, step.attended, step.prefill_tokens, step.completing, step.recomputed,
            price.draft_ps, step.accepted, step.verifying, step.stood, price.lasts,
        )  # fmt: skip
        shared.chunked = step.chunked
        return shared

    def _decode_price(self, size: int) -> _DecodePrice:
        shape = self._decoding(size, (0,), (size,))
        price = self._price(shape)
        found = self._decode_prices[size] = (
            shape, price.compute_ps, price.compute_growth_ps // size, price.memory_ps, price.memory_growth_ps // size,
            price.communication_ps, price.communication_ps + price.host_ps, price.compute_growth_ps,
        )  # fmt: skip
        return found

    def _decoding(self, size: int, contexts: tuple[int, ...], growing: tuple[int, ...]) -> StepShape:
        """The shape of a step of ``size`` decodes."""
        padded = self._padded
        graph = size < len(padded)
        return StepShape(size, padded[size] if graph else size, graph, size, size, contexts, growing)

    def mixed(self, rank: Rank, chunks: list[tuple[Request, int]]) -> PlannedStep:
        """A step of the decode batch and of prefill chunks, whose tokens count as computed from here on."""
        batch = rank.batch
        size = batch.size
        completing: list[Request] = []
        unseen = 0
        sizes = []
        prefill = recomputed = 0
        context = attended = batch.context
        for request, want in chunks:
            before = request.computed
            sizes.append((want, before))
            request.computed = after = before + want
            prefill += want
            context += after
            attended += want * before + (want * (want + 1) >> 1)
            if request.recompute_left:
                again = min(want, request.recompute_left)
                request.recompute_left -= again
                recomputed += again
            if after == request.target:
                completing.append(request)
                unseen += request.discarded
        drafted = batch.drafted(0)
        width = batch.width(0, batch.context) if drafted else 0.0
        tokens = size + drafted + prefill
        padded = self._padded
        graph = tokens < len(padded)
        contexts, growing = self.by_kind(batch)
        shape = StepShape(
            tokens, padded[tokens] if graph else tokens, graph, size + len(chunks), size, contexts, growing,
            tuple(sizes), drafted, 1.0, 1.0, batch.next_drafts, width,
        )  # fmt: skip
        if rank.noise is not None:
            shape.stretch = rank.noise()
        late = rank.rejoined or None
        rank.rejoined = None
        held = rank.tokens_held - rank.pool.overlap * self._block_size + tokens
        price = self._price(shape)
        emitted = batch.gains(0)
        if drafted:
            # Every drafted token attends the context too, and is read with it.
            context += drafted
            attended += batch.attended(0, batch.context) - batch.context
        step = PlannedStep(
            shape, price.total_ps, price.growth_ps, price.compute_ps, price.memory_ps, price.communication_ps,
            price.compute_growth_ps, price.memory_growth_ps, batch.version, held, rank.released, late,
            emitted + len(completing) - unseen, context, attended, prefill, completing, recomputed, price.draft_ps,
            batch.accepted(0), batch.verifying(0), batch.stood(0),
        )  # fmt: skip
        if rank.connector is not None and rank.connector.watches:
            step.chunked = [request for request, _ in chunks]
        return step

    def by_kind(self, batch: DecodeBatch) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Per attention kind, the context of the next step's decodes and how many of them grow."""
        if not batch.windows:
            return (batch.context,), (batch.size,)
        return (
            (batch.context, *(window.context for window in batch.windows)),
            (batch.size, *(window.growing for window in batch.windows)),
        )


def padding(graph_sizes: tuple[int, ...]) -> list[int]:
    """By number of tokens, the smallest captured size that holds them."""
    padded: list[int] = [0] if graph_sizes else []
    for size in graph_sizes:
        padded.extend([size] * (size + 1 - len(padded)))
    return padded
