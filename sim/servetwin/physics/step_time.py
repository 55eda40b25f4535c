"""The price of an engine step, from the roofline of its operators."""

from __future__ import annotations

from collections.abc import Sequence

from servetwin.errors import CapacityError, nearest_name
from servetwin.physics.attention import AttentionPrices, Slopes, attended_pairs, own_tokens
from servetwin.physics.communication import ALL_REDUCE, GATHER, KV_GATHER, Communication
from servetwin.physics.measured import ROOFLINE
from servetwin.physics.memory import check_context, check_tensor
from servetwin.physics.operators import Operator, head_operator, layer_operators, on_tokens
from servetwin.physics.overheads import Machine
from servetwin.physics.protocols import ALWAYS, Phase, StepPrice, StepShape
from servetwin.physics.roofline import picoseconds
from servetwin.specs import Calibration, Gpu, ModelSpec
from servetwin.specs.calibration import SAMPLING
from servetwin.specs.dtypes import KV_DTYPES, WEIGHT_DTYPES
from servetwin.specs.span import Span


class RooflineStepTime:
    """Prices steps of one model on the ranks of one replica; implements ``StepTime``.

    ``step = Σ_layers (GEMMs + experts + element-wise + 2 all-reduces) + attention + logits + their gather +
    sampling + host``. Prefill and decode tokens share one pass over the weights. Operators that depend on tokens only
    are filled into integer tables when a number of tokens is first seen; decode attention is linear in the
    context with integer coefficients, so that ``price`` is exactly base + slope · context and its growth
    exactly slope · growing.

    Without a captured graph the CPU launches the layers one by one: ``layers = max(launching, GPU)``, where the GPU's
    part includes what decodes read. A step of Qwen3-1.7B on H100 takes vLLM without a graph 8.2 to 8.5 ms with 32 to
    512 tokens, and at most 2.5 % more with a context of 8,192 than with none, though reading that takes 2.4 ms (E6 in
    FINDINGS.md of github.com/adixg/vllm-specdecode-cost-model).

    Matrix products and all-reduces run on the padded tokens of a captured graph, experts on the tokens that
    carry a request. The ranks are alike: the price of one is the price of the step. Every rank has the logits of its
    part of the vocabulary; an all-gather puts the rows together before sampling.

    Args:
        model: what runs; of a stage of a pipeline, its layers (``physics.stages``).
        gpu: where.
        tensor: ranks that share out the model.
        weights: precision of the weights, or ``auto``.
        kv_cache: data type of the KV cache, or ``auto`` (bf16).
        sampling: ``greedy``, or ``top-p`` (which sorts the logits; top-k too).
        calibration: efficiencies and constants.
        span: how the GPUs of the replica lie; in one link domain if not given.
        context: groups of ``tensor`` ranks that share out the tokens of prompts; every decode runs on each.
        uneven_heads: whether ``tensor`` need not divide the query heads; the rank with most of them sets the pace.
        synchronous: whether the engine schedules a step only when it knows the tokens of the one before: then the GPU
            waits for the scheduler too.

    Attributes:
        operators: what depends on tokens only: layers that it occurs in, and the operator.
        head: the output matrix.
        attention: prices attention.
        links: prices the collectives.
        launching_ps: how long the CPU takes to launch all layers, where no captured graph runs [ps].

    Raises:
        CapacityError: where ``tensor`` does not divide the query heads, or a precision is unknown.
        CatalogError: where the calibration has no constants for the GPU.
    """

    def __init__(
        self, model: ModelSpec, gpu: Gpu, *, tensor: int, weights: str, kv_cache: str, sampling: str,
        calibration: Calibration, span: Span | None = None, context: int = 1, uneven_heads: bool = False,
        synchronous: bool = False,
    ) -> None:  # fmt: skip
        check_tensor(model, tensor, uneven_heads)
        check_context(model, context)
        _check("precision.weights", weights, (*WEIGHT_DTYPES, "auto"))
        _check("precision.kv_cache", kv_cache, (*KV_DTYPES, "auto"))
        _check("sampling", sampling, SAMPLING)
        kv_cache = "bf16" if kv_cache == "auto" else kv_cache
        machine = Machine.of(gpu, calibration)
        self.model, self.gpu, self.tensor, self.context = model, gpu, tensor, context
        self.weights, self.kv_cache = weights, kv_cache
        self.windows: tuple[int, ...] = model.windows
        self._layers = model.num_layers
        self.operators: list[tuple[int, Operator]] = [
            (layer.count, operator)
            for layer in model.layers
            for operator in layer_operators(
                model, layer.attention, layer.mlp, weights=weights, kv_cache=kv_cache, tensor=tensor, machine=machine
            )
        ]
        self.head: Operator = head_operator(model, tensor, machine)
        self.attention = AttentionPrices(model, tensor, kv_cache, machine, context)
        self.links = Communication(model, gpu, tensor, calibration, span, context)
        greedy_s, chosen_s = calibration.sampling("greedy"), calibration.sampling(sampling)
        row_s = greedy_s + machine.kernels.sort * (chosen_s - greedy_s)
        self._row_ps = picoseconds(row_s * model.vocab / 32_000) if model.has_output else 0
        step_s, request_s = calibration.step_s, calibration.request_step_s
        if synchronous:
            step_s += calibration.scheduling_s
            request_s += calibration.scheduling_s_per_request
        self._host_ps = picoseconds(step_s)
        self._mixed_host_ps = self._host_ps + picoseconds(calibration.mixed_step_s)
        self._request_ps = picoseconds(request_s)
        mixtures = sum(count for count, operator in self.operators if on_tokens(operator))
        self.launching_ps = picoseconds(self._layers * calibration.eager_s + mixtures * calibration.experts_eager_s)
        formats = {model.running(weights), kv_cache}
        wide = formats <= {"bf16", "fp16"} and not any(layer.attention.index_flops() for layer in model.layers)
        # Where anything is in fewer than 16 bits, the floor grants all arithmetic the fastest units of the chip.
        self._fastest = gpu.peak("bf16") if wide else max(rate for _, rate in gpu.flops)
        self._padded: dict[int, tuple[int, int, int]] = {}
        self._has_experts = any(on_tokens(operator) for _, operator in self.operators)
        self._experts: dict[int, tuple[int, int]] = {}
        self._heads: dict[int, tuple[int, int, int]] = {}
        self._kinds = len(self.windows) + 1
        self._decode_slopes = self.attention.slopes(1.0, False)
        self._mixed_slopes = self.attention.slopes(1.0, True)

    def price(self, shape: StepShape) -> StepPrice:
        """What the step takes, in whole picoseconds [ps]."""
        compute, memory, communication, host, head_compute, head_memory, gather, sampling = self._parts(shape)
        slopes = self.slopes_of(shape)
        launching = 0 if shape.graph else self.launching_ps - compute - memory - communication
        compute += head_compute
        memory += head_memory + sampling
        communication += gather
        if launching > 0:
            return _launched(shape, slopes, launching, StepPrice(compute, memory, communication, host))
        if self._kinds == 1:
            ((by_compute, by_memory),) = slopes
            context, growing = shape.context[0], shape.growing[0]
            return StepPrice(
                compute + by_compute * context, memory + by_memory * context, communication, host,
                by_compute * growing, by_memory * growing,
            )  # fmt: skip
        if self._kinds == 2:
            # The common windowed model, written out: this is called for every run of steps.
            (compute0, memory0), (compute1, memory1) = slopes
            (full, windowed), (growing0, growing1) = shape.context, shape.growing
            return StepPrice(
                compute + compute0 * full + compute1 * windowed, memory + memory0 * full + memory1 * windowed,
                communication, host, compute0 * growing0 + compute1 * growing1, memory0 * growing0 + memory1 * growing1,
            )  # fmt: skip
        compute_growth = memory_growth = 0
        for (by_compute, by_memory), context, growing in zip(slopes, shape.context, shape.growing, strict=True):
            compute += by_compute * context
            memory += by_memory * context
            compute_growth += by_compute * growing
            memory_growth += by_memory * growing
        return StepPrice(compute, memory, communication, host, compute_growth, memory_growth)

    def phases(self, shape: StepShape) -> list[Phase]:
        """The step in order: host, layers with their all-reduces, logits, sampling. Sums to the price exactly."""
        compute, memory, communication, host, head_compute, head_memory, gather, sampling = self._parts(shape)
        for (by_compute, by_memory), context in zip(self.slopes_of(shape), shape.context, strict=True):
            compute += by_compute * context
            memory += by_memory * context
        if not shape.graph:
            host += max(0, self.launching_ps - compute - memory - communication)
        shared = self.links.share_ps(self.own(shape)[2], shape.link_share) if self.context > 1 else 0
        phases = [
            Phase("host", "host", 1, host),
            Phase("layers", "hbm", self._layers, memory),
            Phase("layers", "sm", self._layers, compute),
            Phase(KV_GATHER, "link", self._layers, shared),
            Phase(ALL_REDUCE, "link", self._layers, communication - shared),
            Phase("logits", "hbm", 1, head_memory),
            Phase("logits", "sm", 1, head_compute),
            Phase(GATHER, "link", 1, gather),
            Phase("sampling", "hbm", 1, sampling),
        ]
        return [phase for phase in phases if phase.ps]

    def own(self, shape: StepShape) -> tuple[int, int, int]:
        """Tokens that one GPU computes of a step, the same with those of padding, and how many of them are of chunks.

        Context groups share out the tokens of every chunk; without them a GPU computes all.
        """
        own = sum([own_tokens(new, self.context) for new, _ in shape.chunks])
        elsewhere = sum([new for new, _ in shape.chunks]) - own
        return shape.tokens - elsewhere, shape.padded_tokens - elsewhere, own

    def slopes_of(self, shape: StepShape) -> Slopes:
        """The price of a token of context of the step's decodes, by attention kind; whatever the context is."""
        if shape.width == 1.0:
            return self._mixed_slopes if shape.chunks else self._decode_slopes
        return self.attention.slopes(shape.width, bool(shape.chunks))

    def attention_ps(self, shape: StepShape) -> int:
        """What attention takes besides reading and attending context [ps]; it counts as memory."""
        return self.attention.per_request_ps * shape.requests

    def provenance(self, name: str) -> str:
        """Where the price of the operator ``name`` of this step time comes from, one of ``measured.PROVENANCE``."""
        return ROOFLINE

    def remarks(self) -> list[str]:
        """What a user should know about the prices so far, in sentences."""
        return []

    def floor(self, shape: StepShape) -> tuple[int, int]:
        """The least time of the step's arithmetic and HBM traffic, and of its collectives on the wire [ps].

        A window is taken as if all requests had the same context; neither is more than the price.
        """
        context = shape.context[0] + sum(new + before for new, before in shape.chunks)
        pairs = sum(attended_pairs(new, before, None) for new, before in shape.chunks)
        rows = shape.rows
        attended = int(shape.context[0] * shape.width) + pairs
        flops, moved = self.work(shape.tokens, rows, context, attended)
        gpu, price = self.gpu, self.price(shape)
        busy_s = max(flops / self._fastest, moved / gpu.hbm_bytes_per_s) / (self.tensor * self.context)
        tokens, _, own = self.own(shape)
        wire_s = self.links.bound_s(tokens, rows, own)
        return (
            min(picoseconds(busy_s), price.compute_ps + price.memory_ps),
            min(picoseconds(wire_s), price.communication_ps),
        )

    def work(self, tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
        """Arithmetic [FLOP] and HBM traffic [B] that a step needs at least, over all ranks.

        A window is taken as if all requests had the same context, and a mixture as if every token visited the
        same experts.

        Args:
            tokens: tokens scheduled.
            requests: rows of logits.
            context: KV tokens read, summed over requests.
            attended: token × context pairs attended, summed over requests.
        """
        model, tensor = self.model, self.tensor
        flops = 2.0 * tokens * model.active_layer_parameters() + 2.0 * requests * model.output_parameters()
        moved = model.step_weight_bytes(self.weights, tensor)
        for layer in model.layers:
            attention = layer.attention
            window = attention.window
            pairs = attended if window is None else min(attended, tokens * window)
            read = context if window is None else min(context, max(requests, 1) * window)
            flops += layer.count * pairs * min(attention.decode_flops(), attention.prefill_flops())
            flops += layer.count * (attended * attention.index_flops() + tokens * attention.state_flops())
            moved += layer.count * (
                read * attention.kv_bytes(tensor, self.kv_cache) + context * attention.index_bytes()
            )
            # A state is read and written once in a step, however many of the request's tokens pass through it.
            moved += layer.count * 2 * requests * attention.state_bytes(tensor)
        # Each context group reads the weights and all keys for itself.
        return flops, self.context * tensor * moved

    def _parts(self, shape: StepShape) -> tuple[int, int, int, int, int, int, int, int]:
        """A step without the context that decodes read: compute, memory, communication of the layers; host, without the
        launch of layers; compute, memory of the output matrix; gather of the logits; sampling."""
        tokens, padded, own = shape.tokens, shape.padded_tokens, 0
        if self.context > 1:
            tokens, padded, own = self.own(shape)
        compute, memory, communication = self._padded.get(padded) or self._fill(padded)
        if self._has_experts:
            expert_compute, expert_memory = self._experts.get(tokens) or self._fill_experts(tokens)
            compute += expert_compute
            memory += expert_memory
        host = self._host_ps
        if shape.chunks:
            chunk_compute, chunk_memory = self.attention.chunks_ps(shape.chunks)
            compute += chunk_compute
            memory += chunk_memory
            host = self._mixed_host_ps
        if shape.link_share != 1.0:
            communication = self.links.layers_ps(padded, shape.link_share)
        if own:
            communication += self.links.share_ps(own, shape.link_share)
        requests = shape.requests
        host += self._request_ps * requests
        rows = shape.rows
        head_compute, head_memory, gather = self._heads.get(rows) or self._fill_head(rows)
        if shape.link_share != 1.0 and gather:
            gather = self.links.gather_ps(rows, shape.link_share)
        return (
            compute, memory + self.attention_ps(shape), communication, host, head_compute, head_memory, gather,
            self._row_ps * rows,
        )  # fmt: skip

    def _fill(self, tokens: int) -> tuple[int, int, int]:
        """Price of the operators that run on padded tokens: compute, memory, communication [ps]."""
        dense = [(count, operator) for count, operator in self.operators if not on_tokens(operator)]
        compute, memory = _sum(dense, tokens)
        found = self._padded[tokens] = (compute, memory, self.links.layers_ps(tokens, 1.0))
        return found

    def _fill_experts(self, tokens: int) -> tuple[int, int]:
        """Price of the routed experts: compute, memory [ps]."""
        experts = [(count, operator) for count, operator in self.operators if on_tokens(operator)]
        found = self._experts[tokens] = _sum(experts, tokens)
        return found

    def _fill_head(self, rows: int) -> tuple[int, int, int]:
        """Price of the output matrix: compute, memory, gather of the logits [ps]."""
        found = 0, 0, 0
        if rows and self.model.has_output:
            found = (*_sum([(1, self.head)], rows), self.links.gather_ps(rows, 1.0))
        self._heads[rows] = found
        return found


def _launched(shape: StepShape, slopes: Slopes, launching_ps: int, bare: StepPrice) -> StepPrice:
    """The price of a step whose layers take ``launching_ps`` longer to launch than to compute without the context of
    the decodes, from its price without either [ps]."""
    compute = memory = compute_growth = memory_growth = 0
    for (by_compute, by_memory), context, growing in zip(slopes, shape.context, shape.growing, strict=True):
        compute += by_compute * context
        memory += by_memory * context
        compute_growth += by_compute * growing
        memory_growth += by_memory * growing
    waiting, growth, lasts = launching_ps - compute - memory, compute_growth + memory_growth, ALWAYS
    if waiting <= 0:
        waiting = growth = 0
    elif growth:
        lasts = 1 + waiting // growth
    return StepPrice(
        bare.compute_ps + compute, bare.memory_ps + memory, bare.communication_ps, bare.host_ps + waiting,
        compute_growth, memory_growth, 0, 0, -growth, lasts,
    )  # fmt: skip


def _sum(operators: Sequence[tuple[int, Operator]], rows: int) -> tuple[int, int]:
    """Total of ``count`` × operator, by what bounds each: compute, memory [ps]."""
    compute = memory = 0.0
    for count, operator in operators:
        cost = operator.cost(rows)
        if cost.compute_bound:
            compute += count * cost.seconds
        else:
            memory += count * cost.seconds
    return picoseconds(compute), picoseconds(memory)


def _check(path: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise CapacityError(
            "this is not one of the known names", path=path, found=value, allowed=allowed,
            nearest=nearest_name(value, allowed),
        )  # fmt: skip
