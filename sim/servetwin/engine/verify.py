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

    ``by_…`` is per token of context; ``base`` and ``by_context`` are all of it.
    """

    __slots__ = ("base", "by_compute", "by_context", "by_draft", "by_memory", "communication", "compute", "draft",
                 "memory", "shape")  # fmt: skip

    def __init__(self, shape: StepShape, step_time: StepTime) -> None:
        price = step_time.price(shape)
        size = shape.decodes
        self.shape = shape
        self.compute, self.by_compute = price.compute_ps, price.compute_growth_ps // size
        self.memory, self.by_memory = price.memory_ps, price.memory_growth_ps // size
        self.draft, self.by_draft = price.draft_ps, price.draft_growth_ps // size
        self.communication = price.communication_ps
        self.base = price.total_ps
        self.by_context = self.by_compute + self.by_memory + self.by_draft


class VerifyMaker(StepMaker):
    """Makes planned steps of a ``DraftBatch``, for all ranks that are alike.

    Args:
        settings: as ``StepMaker``.
        step_time: as ``StepMaker``.
        most: drafts in a row per request, at most.
        nodes: drafted tokens that a request verifies for so many.
    """

    __slots__ = ("_last", "_last_key", "_most", "_nodes", "_step_time", "_verify_prices")

    def __init__(self, settings: EngineSettings, step_time: StepTime, most: int, nodes: int) -> None:
        super().__init__(settings, step_time)
        self._most = most
        self._nodes = nodes
        self._step_time = step_time
        self._verify_prices: dict[tuple[int, int, int], _Price] = {}
        #: The price that was asked for last, and its key: that of the step before, mostly.
        self._last: _Price | None = None
        self._last_key = (0, 0, 0)

    def decodes(self, rank: Rank) -> PlannedStep:
        """A step of the decode batch alone."""
        late = rank.rejoined or None
        rank.rejoined = None
        return self._verifying(rank, 0, 0, late)

    def ahead(self, rank: Rank, first: int, end: int) -> list[PlannedStep]:
        """Steps of today's decodes, none of which is planned yet: from the one ``first`` steps after the next one to
        the one before ``end`` steps after it."""
        batch = rank.batch
        late = None
        if not first:
            late = rank.rejoined or None
            rank.rejoined = None
        steps: list[PlannedStep] = []
        grown = sum([batch.gains(ahead) for ahead in range(first)])
        for ahead in range(first, end):
            step = self._verifying(rank, ahead, grown, late)
            steps.append(step)
            late = None
            grown += step.emitted
        return steps

    def spans(self, rank: Rank, count: int) -> list[int]:
        """How long the next ``count`` steps of today's decodes take [ps], in a model without windows."""
        batch = rank.batch
        assert isinstance(batch, DraftBatch)
        size, drafts, context = batch.size, batch.made, batch.context
        spans: list[int] = []
        for ahead in range(count):
            drafted = batch.drafted(ahead)
            known = self._price_of(size, drafted, drafts)
            spans.append(known.base + known.by_context * (context + drafted))
            context += batch.gains(ahead)
        return spans

    def forecast(self, requests: int, context: int, k: int) -> int:
        """The time of a step in which ``requests`` with ``context`` KV tokens verify ``k`` drafts each and get ``k``
        new ones [ps]."""
        drafted = requests * (self._nodes if k == self._most else k)
        price = self._price_of(requests, drafted, k)
        return price.base + price.by_context * (context + drafted)

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
        return PlannedStep(
            known.shape, known.base + known.by_context * context, known.by_context * size,
            known.compute + known.by_compute * context, known.memory + known.by_memory * context, known.communication,
            known.by_compute * size, batch.version, held, rank.released, late, emitted, context, attended, 0, None, 0,
            known.draft + known.by_draft * context, batch.packing.accepted(stood), batch.drafting(ahead), stood,
        )  # fmt: skip

    def _price_of(self, size: int, drafted: int, drafts: int) -> _Price:
        last, key = self._last, self._last_key
        if last is not None and key[0] == size and key[1] == drafted and key[2] == drafts:
            return last
        found = self._verify_prices.get((size, drafted, drafts))
        if found is None:
            shape = self._verify_shape(size, drafted, drafts, (0,) * (len(self.windows) + 1))
            found = self._verify_prices[size, drafted, drafts] = _Price(shape, self._step_time)
        self._last, self._last_key = found, (size, drafted, drafts)
        return found

    def _verify_shape(self, size: int, drafted: int, drafts: int, contexts: tuple[int, ...]) -> StepShape:
        tokens = size + drafted
        padded = self._padded
        graph = tokens < len(padded)
        return StepShape(
            tokens, padded[tokens] if graph else tokens, graph, size, size, contexts, (size,) * len(contexts), (),
            drafted, 1.0, 1.0, drafts,
        )  # fmt: skip
