"""Steps that verify drafts and make new ones: from the state of a rank to shape and price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.engine.batch import DecodeBatch
from servetwin.engine.draft_batch import DraftBatch
from servetwin.engine.plan import PlannedStep
from servetwin.engine.protocols import EngineSettings
from servetwin.engine.steps import StepMaker
from servetwin.physics.protocols import StepPrice, StepShape, StepTime
from servetwin.request import Request

if TYPE_CHECKING:
    from servetwin.engine.rank import Rank


class _Price:
    """The price of steps of so many decodes and drafts, as far as it does not depend on their context [ps].

    ``by_…`` is per token of context; ``base`` and ``by_context`` are all of it. ``even``: it is the same whichever
    requests verify the drafts, for reading the context takes longer than attending it; no ``width`` is needed.
    """

    __slots__ = ("base", "by_compute", "by_context", "by_draft", "by_memory", "communication", "compute", "draft",
                 "even", "memory", "shape")  # fmt: skip

    def __init__(self, shape: StepShape, step_time: StepTime, widest: int) -> None:
        price = step_time.price(shape)
        size = shape.decodes
        self.shape = shape
        self.even = shape.drafted in (0, size * (widest - 1)) or _alike(
            price, step_time.price(_wide(shape, float(widest)))
        )
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
        size, drafts, context = batch.size, batch.next_drafts, batch.context
        spans: list[int] = []
        for ahead in range(count):
            drafted = batch.drafted(ahead)
            spans.append(self._total_ps(size, drafted, drafts, context + drafted, batch.width(ahead, context)))
            context += batch.gains(ahead)
        return spans

    def forecast(self, requests: int, context: int, k: int) -> int:
        """The time of a step in which ``requests`` with ``context`` KV tokens verify ``k`` drafts each and get ``k``
        new ones [ps]; windows are taken as if all requests had the same context."""
        drafted = requests * (self._nodes if k == self._most else k)
        if self.windows:
            contexts = tuple([min(context, requests * window) + drafted for window in (context, *self.windows)])
            return self._step_time.price(self._verify_shape(requests, drafted, k, contexts)).total_ps
        return self._total_ps(requests, drafted, k, context + drafted, 0.0)

    def _total_ps(self, size: int, drafted: int, drafts: int, context: int, width: float) -> int:
        """What ``_verifying`` says that a step takes, in a model without windows [ps]."""
        known = self._price_of(size, drafted, drafts)
        if known.even:
            width = 0.0
        if known.shape.graph and not width:
            return known.base + known.by_context * context
        return self._step_time.price(self._verify_shape(size, drafted, drafts, (context,), width)).total_ps

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
        before = batch.context + grown
        context = before + drafted
        attended = batch.attended(ahead, before)
        held = rank.tokens_held + grown - rank.pool.overlap * self._block_size + size + drafted
        known = None if batch.windows or rank.noise is not None else self._price_of(size, drafted, batch.next_drafts)
        width = 0.0 if known is not None and known.even else batch.width(ahead, before)
        if known is None or width or not known.shape.graph:
            shape = self._verify_shape(size, drafted, batch.next_drafts, batch.contexts(ahead, grown), width)
            if rank.noise is not None:
                shape.stretch = rank.noise()
            price = self._step_time.price(shape)
            return PlannedStep(
                shape, price.total_ps, price.growth_ps, price.compute_ps, price.memory_ps, price.communication_ps,
                price.compute_growth_ps, price.memory_growth_ps, batch.version, held, rank.released, late, emitted,
                context, attended, 0, None, 0, price.draft_ps, batch.packing.accepted(stood), batch.verifying(ahead),
                stood,
            )  # fmt: skip
        return PlannedStep(
            known.shape, known.base + known.by_context * context, known.by_context * size,
            known.compute + known.by_compute * context, known.memory + known.by_memory * context, known.communication,
            known.by_compute * size, known.by_memory * size, batch.version, held, rank.released, late, emitted, context,
            attended, 0, None, 0, known.draft + known.by_draft * context, batch.packing.accepted(stood),
            batch.verifying(ahead), stood,
        )  # fmt: skip

    def _price_of(self, size: int, drafted: int, drafts: int) -> _Price:
        last, key = self._last, self._last_key
        if last is not None and key[0] == size and key[1] == drafted and key[2] == drafts:
            return last
        found = self._verify_prices.get((size, drafted, drafts))
        if found is None:
            shape = self._verify_shape(size, drafted, drafts, (0,) * (len(self.windows) + 1))
            found = self._verify_prices[size, drafted, drafts] = _Price(shape, self._step_time, 1 + self._nodes)
        self._last, self._last_key = found, (size, drafted, drafts)
        return found

    def _verify_shape(
        self, size: int, drafted: int, drafts: int, contexts: tuple[int, ...], width: float = 0.0
    ) -> StepShape:
        tokens = size + drafted
        padded = self._padded
        graph = tokens < len(padded)
        return StepShape(
            tokens, padded[tokens] if graph else tokens, graph, size, size, contexts, (size,) * len(contexts), (),
            drafted, 1.0, 1.0, drafts, width,
        )  # fmt: skip


def _wide(shape: StepShape, width: float) -> StepShape:
    """The shape with another width."""
    return StepShape(
        shape.tokens, shape.padded_tokens, shape.graph, shape.requests, shape.decodes, shape.context, shape.growing,
        shape.chunks, shape.drafted, shape.link_share, shape.stretch, shape.drafts, width, shape.rows,
    )  # fmt: skip


def _alike(one: StepPrice, other: StepPrice) -> bool:
    """Whether context adds as much to one price as to the other."""
    return (
        one.compute_growth_ps == other.compute_growth_ps
        and one.memory_growth_ps == other.memory_growth_ps
        and one.draft_growth_ps == other.draft_growth_ps
    )
