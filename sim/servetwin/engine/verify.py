"""Steps that verify drafts and make new ones: from the state of a rank to shape and price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.batch import DecodeBatch
from servetwin.engine.drafts import DraftBatch
from servetwin.engine.plan import PlannedStep
from servetwin.engine.protocols import EngineSettings
from servetwin.engine.steps import StepMaker
from servetwin.physics.protocols import StepShape, StepTime
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


class _Price:
    """The price of steps of so many decodes and drafts, as far as it does not depend on their context [ps].

    ``by_…`` is per token of context; ``rest`` is communication and host time.
    """

    __slots__ = ("by_compute", "by_draft", "by_memory", "communication", "compute", "draft", "memory", "rest", "shape")

    def __init__(self, shape: StepShape, step_time: StepTime) -> None:
        price = step_time.price(shape)
        size = shape.decodes
        self.shape = shape
        self.compute, self.by_compute = price.compute_ps, price.compute_growth_ps // size
        self.memory, self.by_memory = price.memory_ps, price.memory_growth_ps // size
        self.draft, self.by_draft = price.draft_ps, price.draft_growth_ps // size
        self.communication = price.communication_ps
        self.rest = price.communication_ps + price.host_ps


class VerifyMaker(StepMaker):
    """Makes planned steps of a ``DraftBatch``, for all ranks that are alike.

    Args:
        settings: as ``StepMaker``.
        step_time: as ``StepMaker``.
        most: drafts in a row per request, at most.
        nodes: drafted tokens that a request verifies for so many.
    """

    __slots__ = ("_most", "_nodes", "_step_time", "_verify_prices")

    def __init__(self, settings: EngineSettings, step_time: StepTime, most: int, nodes: int) -> None:
        super().__init__(settings, step_time)
        self._most = most
        self._nodes = nodes
        self._step_time = step_time
        self._verify_prices: dict[tuple[int, int, int], _Price] = {}

    def decodes(self, rank: Rank) -> PlannedStep:
        """A step of the decode batch alone."""
        late = rank.rejoined or None
        rank.rejoined = None
        return self._verifying(rank, 0, 0, late)

    def ahead(self, rank: Rank, count: int) -> list[PlannedStep]:
        """The next ``count`` steps of today's decodes, none of which is planned yet."""
        late = rank.rejoined or None
        rank.rejoined = None
        steps: list[PlannedStep] = []
        grown = 0
        for ahead in range(count):
            step = self._verifying(rank, ahead, grown, late)
            steps.append(step)
            late = None
            grown += step.emitted
        return steps

    def forecast(self, requests: int, context: int, k: int) -> int:
        """The time of a step in which ``requests`` with ``context`` KV tokens verify ``k`` drafts each and get ``k``
        new ones [ps]."""
        drafted = requests * (self._nodes if k == self._most else k)
        price = self._price_of(requests, drafted, k)
        by_context = price.by_compute + price.by_memory + price.by_draft
        return price.compute + price.memory + price.rest + price.draft + by_context * (context + drafted)

    def by_kind(self, batch: DecodeBatch) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """See ``StepMaker``; drafted tokens are read too."""
        assert isinstance(batch, DraftBatch)
        contexts = batch.contexts(0, 0)
        return contexts, (batch.size,) * len(contexts)

    def _verifying(self, rank: Rank, ahead: int, grown: int, late: list[Request] | None) -> PlannedStep:
        """The step ``ahead`` steps after the next one, before which the decodes gain ``grown`` tokens."""
        batch = rank.batch
        assert isinstance(batch, DraftBatch)
        size = batch.size
        stood = batch.stood(ahead)
        drafted, emitted = batch.drafted(ahead), batch.packing.gained(stood)
        context = batch.context + grown + drafted
        attended = context + int((context - drafted) * drafted / size)
        held = rank.tokens_held + grown - rank.pool.overlap * self._block_size + size + drafted
        if batch.windows or rank.noise is not None:
            contexts = batch.contexts(ahead, grown)
            shape = self._verify_shape(size, drafted, batch.made, contexts)
            if rank.noise is not None:
                shape.stretch = rank.noise()
            price = self._step_time.price(shape)
            return PlannedStep(
                shape, price.total_ps, price.growth_ps, price.compute_ps, price.memory_ps, price.communication_ps,
                price.compute_growth_ps, batch.version, held, rank.released, late, emitted, context, attended, 0, None,
                0, price.draft_ps, batch.packing.accepted(stood), batch.drafting(ahead), stood,
            )  # fmt: skip
        known = self._price_of(size, drafted, batch.made)
        compute = known.compute + known.by_compute * context
        memory = known.memory + known.by_memory * context
        draft = known.draft + known.by_draft * context
        growth = known.by_compute * size
        return PlannedStep(
            known.shape, compute + memory + known.rest + draft, growth + (known.by_memory + known.by_draft) * size,
            compute, memory, known.communication, growth, batch.version, held, rank.released, late, emitted, context,
            attended, 0, None, 0, draft, batch.packing.accepted(stood), batch.drafting(ahead), stood,
        )  # fmt: skip

    def _price_of(self, size: int, drafted: int, drafts: int) -> _Price:
        found = self._verify_prices.get((size, drafted, drafts))
        if found is None:
            shape = self._verify_shape(size, drafted, drafts, (0,) * (len(self.windows) + 1))
            found = self._verify_prices[size, drafted, drafts] = _Price(shape, self._step_time)
        return found

    def _verify_shape(self, size: int, drafted: int, drafts: int, contexts: tuple[int, ...]) -> StepShape:
        tokens = size + drafted
        padded = self._padded
        graph = tokens < len(padded)
        return StepShape(
            tokens, padded[tokens] if graph else tokens, graph, size, size, contexts, (size,) * len(contexts), (),
            drafted, 1.0, 1.0, drafts,
        )  # fmt: skip
