"""What proposing tokens takes at the end of a step, by how the drafter works."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from servetwin.physics.communication import Communication, Exchange
from servetwin.physics.operators import Gemm
from servetwin.physics.overheads import Machine
from servetwin.physics.protocols import DRAFT, Phase, StepShape
from servetwin.physics.roofline import picoseconds
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs import Calibration


class DraftCost(NamedTuple):
    """What drafting takes, by what bounds it [ps], and by how much more when every decode reads one token more [ps].

    Waiting is for the CPU.
    """

    compute_ps: int
    memory_ps: int
    communication_ps: int
    waiting_ps: int
    growth_ps: int = 0

    @property
    def total_ps(self) -> int:
        """All of it [ps]."""
        return self.compute_ps + self.memory_ps + self.communication_ps + self.waiting_ps


_PassPrice = tuple[int, int, int, int, int, int]
"""A pass: compute, compute per token of context, memory, memory per token of context, communication, waiting [ps]."""


class Drafting(ABC):
    """Prices the drafts made at the end of a step, ``shape.drafts`` for each of its requests, which may be none."""

    @abstractmethod
    def passes(self, shape: StepShape) -> list[tuple[int, DraftCost]]:
        """The passes of the drafter in order, equal ones together: how many, and what they take."""

    def exchanges(self, shape: StepShape) -> list[Exchange]:
        """The collectives of all passes; none where the GPUs draft each for itself."""
        return []

    def cost(self, shape: StepShape) -> tuple[int, int]:
        """What all passes take, and by how much more when every decode reads one token more [ps]."""
        total = growth = 0
        for _, cost in self.passes(shape):
            total += cost.total_ps
            growth += cost.growth_ps
        return total, growth

    def phases(self, shape: StepShape) -> list[Phase]:
        """The passes in order; their sum is the cost."""
        found = []
        for count, cost in self.passes(shape):
            parts = zip(("host", "hbm", "sm", "link"), (cost[3], cost[1], cost[0], cost[2]), strict=True)
            found += [Phase(DRAFT, resource, count, ps) for resource, ps in parts if ps]
        return found


class ModelDrafting(Drafting):
    """A drafter with layers of its own, which runs once for each token, or once for all.

    The first pass reads what the step has computed: verified tokens and prompts. A drafter that runs on hidden states
    takes each token with the state of the one before it, so that the newest token of a request takes the place of its
    oldest; any other one has a slot more per request, for it, and one that drafts all tokens at once has one for each
    (``net_num_new_slots_per_request``). Each later pass drafts another token of every request, prompts that are not
    complete included, as in vLLM. Where nothing is drafted, the first pass runs all the same, without logits: otherwise
    the drafter's cache would lack what it reads when drafting goes on.

    Where scheduling is synchronous, a pass begins when the CPU has launched it, ``pass + layers · layer``, and the GPU
    waits for as much of that as is longer than the pass without its context; an engine that schedules ahead launches
    passes while the model runs. A pass that fits into no captured graph has its kernels launched one by one,
    ``step.eager`` per layer, in any engine.

    An approximation: windows of a drafter are priced as attention to everything.

    Source: vLLM ``v1/spec_decode/llm_base_proposer.py`` (``propose``; ``eagle.py`` before 0.15).

    Args:
        prices: prices the drafter's layers and output matrix.
        once: matrix products of the first pass besides.
        each: those of each pass.
        parallel: whether one pass drafts all tokens.
        on_states: whether it runs on the model's hidden states.
        branching: tokens per request and pass: above 1 where a tree is drafted.
        graph_sizes: captured CUDA-graph sizes, ascending; empty = eager.
        synchronous: whether scheduling is.
        calibration: its constants.
    """

    def __init__(
        self, prices: RooflineStepTime, *, once: Sequence[Gemm], each: Sequence[Gemm], parallel: bool, on_states: bool,
        branching: int, graph_sizes: Sequence[int], synchronous: bool, calibration: Calibration,
    ) -> None:  # fmt: skip
        self.prices = prices
        self._once, self._each = tuple(once), tuple(each)
        self._parallel, self._on_states, self._branching = parallel, on_states, branching
        self._sizes = graph_sizes
        layers = prices.model.num_layers
        begun_s = calibration.draft_pass_s if synchronous else 0.0
        captured_s = begun_s + layers * calibration.draft_layer_s if synchronous else 0.0
        #: What launching a pass takes the CPU: without a captured graph, and with one [ps].
        self._launching_ps = (picoseconds(begun_s) + prices.launching_ps, picoseconds(captured_s))
        self._products: dict[tuple[int, bool], tuple[int, int]] = {}
        self._bases: dict[tuple[int, float], _PassPrice] = {}

    def passes(self, shape: StepShape) -> list[tuple[int, DraftCost]]:
        """See ``Drafting``."""
        found = [(1, self._cost(self._first(shape), 1, once=True))]
        later = self._later(shape)
        if later:
            found.append((later, self._later_cost(shape, later)))
        return found

    def exchanges(self, shape: StepShape) -> list[Exchange]:
        """See ``Drafting``."""
        links, later = self.prices.links, self._later(shape)
        passes = [(1, self._first(shape))]
        if later:
            passes.append((later, self._later_shape(shape.requests, shape.link_share)))
        return [
            exchange._replace(calls=count * exchange.calls)
            for count, one in passes for exchange in links.exchanges(one.padded_tokens, one.rows)
        ]  # fmt: skip

    def _later(self, shape: StepShape) -> int:
        """Passes after the first one."""
        return 0 if self._parallel or not shape.drafts else shape.drafts - 1

    def _first(self, shape: StepShape) -> StepShape:
        """The pass over the tokens of the step, as the drafter sees it; a row of logits for each drafted token."""
        drafts = shape.drafts if self._parallel else min(shape.drafts, 1)
        slots = max(0, drafts - 1) if self._on_states else drafts
        tokens = shape.tokens + slots * shape.requests
        padded, graph = self._pad(tokens) if slots else (shape.padded_tokens, shape.graph)
        chunks = tuple([(new + slots, before) for new, before in shape.chunks]) if slots else shape.chunks
        return StepShape(
            tokens, padded, graph, shape.requests, shape.decodes, self._kinds(shape.context[0] + slots * shape.decodes),
            self._kinds(shape.growing[0]), chunks, 0, shape.link_share, width=shape.width + slots,
            rows=drafts * shape.requests,
        )  # fmt: skip

    def _later_cost(self, shape: StepShape, passes: int) -> DraftCost:
        """The passes after the first one, whose context is the mean of theirs, rounded up."""
        requests = shape.requests
        base = self._bases.get((requests, shape.link_share))
        if base is None:
            base = self._bases[requests, shape.link_share] = self._base(requests, shape.link_share)
        compute, by_compute, memory, by_memory, communication, waiting = base
        context = shape.context[0] + sum([new + before for new, before in shape.chunks])
        # The newest token has a slot of its own, or stands in the place of another one.
        context += requests * (passes + (1 if self._on_states else 3)) + 1 >> 1
        return DraftCost(
            passes * (compute + by_compute * context), passes * (memory + by_memory * context), passes * communication,
            passes * waiting, passes * (by_compute + by_memory) * shape.decodes,
        )  # fmt: skip

    def _base(self, requests: int, link_share: float) -> _PassPrice:
        """One of the later passes: it depends on nothing else of a step but the context, and on that it is linear."""
        shape = self._later_shape(requests, link_share)
        price, cost = self.prices.price(shape), self._cost(shape, 1, once=False)
        return (
            cost.compute_ps, price.compute_growth_ps, cost.memory_ps, price.memory_growth_ps, cost.communication_ps,
            cost.waiting_ps,
        )  # fmt: skip

    def _later_shape(self, requests: int, link_share: float) -> StepShape:
        """One of the later passes without its context."""
        tokens = requests * self._branching
        padded, graph = self._pad(tokens)
        return StepShape(
            tokens, padded, graph, requests, requests, self._kinds(0), self._kinds(1), (), tokens - requests, link_share
        )

    def _kinds(self, value: int) -> tuple[int, ...]:
        return (value,) * (len(self.prices.windows) + 1)

    def _pad(self, tokens: int) -> tuple[int, bool]:
        place = bisect_left(self._sizes, tokens)
        return (self._sizes[place], True) if place < len(self._sizes) else (tokens, False)

    def _cost(self, shape: StepShape, count: int, *, once: bool) -> DraftCost:
        """``count`` passes of this shape."""
        price = self.prices.price(shape)
        compute, memory = self._besides(shape.padded_tokens, once)
        compute += price.compute_ps
        memory += price.memory_ps
        waiting, launching = 0, self._launching_ps[shape.graph]
        if launching:
            slopes = self.prices.slopes_of(shape)
            context = sum([(by[0] + by[1]) * read for by, read in zip(slopes, shape.context, strict=True)])
            waiting = max(0, launching - (compute + memory + price.communication_ps - context))
        growth = price.compute_growth_ps + price.memory_growth_ps
        return DraftCost(
            count * compute, count * memory, count * price.communication_ps, count * waiting, count * growth
        )

    def _besides(self, rows: int, once: bool) -> tuple[int, int]:
        """The products beside the layers: bound by arithmetic, and by HBM [ps]."""
        found = self._products.get((rows, once))
        if found is None:
            found = self._products[rows, once] = _products_ps(self._each + (self._once if once else ()), rows)
        return found


class HeadDrafting(Drafting):
    """Heads on the model's last hidden state, one for each drafted token; they read nothing else.

    Each GPU has the logits of its part of the vocabulary, which an all-gather puts together for each head.

    Args:
        products: the matrix products of a head.
        links: prices the collectives of the model.
    """

    def __init__(self, products: Sequence[Gemm], links: Communication) -> None:
        self._products = tuple(products)
        self._links = links
        self._rows: dict[int, tuple[int, int]] = {}

    def passes(self, shape: StepShape) -> list[tuple[int, DraftCost]]:
        """See ``Drafting``."""
        if not shape.drafts:
            return []
        found = self._rows.get(shape.requests)
        if found is None:
            found = self._rows[shape.requests] = _products_ps(self._products, shape.requests)
        compute, memory = found
        gather = self._links.gather_ps(shape.requests, shape.link_share)
        drafts = shape.drafts
        return [(drafts, DraftCost(drafts * compute, drafts * memory, drafts * gather, 0))]

    def exchanges(self, shape: StepShape) -> list[Exchange]:
        """See ``Drafting``."""
        return [
            exchange._replace(calls=shape.drafts * exchange.calls) for exchange in self._links.gathered(shape.requests)
        ]


class LookupDrafting(Drafting):
    """Drafts are found in the text by the CPU, for which the GPU waits.

    Args:
        calibration: its ``lookup_s``.
    """

    def __init__(self, calibration: Calibration) -> None:
        self._cost = DraftCost(0, 0, 0, picoseconds(calibration.lookup_s))

    def passes(self, shape: StepShape) -> list[tuple[int, DraftCost]]:
        """See ``Drafting``."""
        return [(1, self._cost)] if shape.drafts else []


def products(sizes: Sequence[tuple[int, int]], tensor: int, machine: Machine) -> list[Gemm]:
    """Matrix products of ``(columns, rows)`` in bf16 on one of ``tensor`` ranks."""
    return [Gemm("draft", columns / tensor, rows, "bf16", machine) for columns, rows in sizes]


def _products_ps(found: Sequence[Gemm], rows: int) -> tuple[int, int]:
    compute = memory = 0.0
    for product in found:
        cost = product.cost(rows)
        if cost.compute_bound:
            compute += cost.seconds
        else:
            memory += cost.seconds
    return picoseconds(compute), picoseconds(memory)
