"""The operators of a step that depend on its tokens only, and what each takes.

An operator maps a number of rows (tokens of the step, or rows of logits) to a ``Cost``. Attention is not here: it
depends on the context too (``servetwin.physics.attention``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from servetwin.physics.moe import distinct_experts
from servetwin.physics.overheads import Machine
from servetwin.physics.roofline import Cost, roofline
from servetwin.specs import (
    Attention,
    DenseMlp,
    Gpu,
    GroupedAttention,
    ModelSpec,
    MoeMlp,
    StateAttention,
    bytes_per_value,
    padded_vocab,
)

#: Bytes of an activation: they are bf16 between operators whatever the weights are.
ACTIVATION_BYTES = 2.0

#: Tokens after which the prefill kernels of constant-state layers write the state, flash-linear-attention's chunk.
_STATE_CHUNK = 64

#: The name of the routed experts.
EXPERTS = "experts"

#: Weight types whose activations get scales of their own in every step.
_EIGHT_BIT = ("fp8", "fp8_block", "int8")

#: Weight types that are unpacked to bf16 before they are multiplied, whatever units a GPU has.
_UNPACKED = ("int4", "mxfp4", "fp16")

#: Types whose experts are priced with their own curve even where they are multiplied in bf16.
_OWN_EXPERTS = (*_UNPACKED, "mxfp4_mxfp8")


class Work(NamedTuple):
    """What an operator needs: ``bytes_moved`` through HBM [B] and ``flops`` [FLOP] on the units of ``dtype``."""

    bytes_moved: float
    flops: float
    dtype: str = "bf16"


class Operator(Protocol):
    """Something that a step does."""

    @property
    def name(self) -> str:
        """Its name in tables and timelines."""

    def work(self, rows: int) -> Work:
        """What it needs for ``rows`` rows."""

    def cost(self, rows: int) -> Cost:
        """What it takes for ``rows`` rows."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """A matrix product: activations (rows × inner) times weights (inner × outer).

    ``bytes = outer · inner · weight_bytes + 2 · rows · (inner + outer)``, ``flops = 2 · rows · inner · outer``. Where
    the weights have fewer bits than the activations and are multiplied so, the activations are quantised first, which
    moves another ``rows · inner · (2 + weight_bytes)`` bytes, not overlapped with the product.

    Attributes:
        name: its name.
        outer: columns of the weights on one rank.
        inner: rows of the weights on one rank.
        dtype: precision of the weights.
        machine: where it runs.
    """

    name: str
    outer: float
    inner: float
    dtype: str
    machine: Machine

    def work(self, rows: int) -> Work:
        """Bytes and arithmetic for ``rows`` rows."""
        weights = self.outer * self.inner * bytes_per_value(self.dtype)
        moved = weights + ACTIVATION_BYTES * rows * (self.outer + self.inner)
        return Work(moved, 2.0 * rows * self.outer * self.inner, self.dtype)

    def cost(self, rows: int) -> Cost:
        """Time for ``rows`` rows."""
        gpu, calibration = self.machine.gpu, self.machine.calibration
        dtype = multiplied_as(self.dtype, gpu)
        curve = self.machine.kernels.product(dtype)
        work = self.work(rows)
        alone_s = calibration.launch * curve.launch_s
        if dtype in _EIGHT_BIT:
            alone_s += self.machine.kernels.quantise_product_s
        if curve.quantise is not None:
            moved = rows * self.inner * (ACTIVATION_BYTES + bytes_per_value(dtype))
            alone_s += moved / (curve.quantise * gpu.hbm_bytes_per_s)
        return roofline(
            work.bytes_moved,
            work.flops,
            bandwidth=curve.memory * gpu.hbm_bytes_per_s,
            arithmetic=curve.compute * gpu.peak(dtype),
            power=calibration.roofline_power,
            launch_s=alone_s,
        )


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of one layer, its router included.

    Bytes are those of the distinct experts that the step touches (``distinct_experts``); arithmetic is
    ``2 · matrices · hidden · intermediate · top_k`` per token. The ``top_k`` copies of every token are gathered and
    added up again, ``2 · hidden · top_k`` bytes per token at the share ``ExpertsCurve.routing`` of the bandwidth, not
    overlapped with the products.

    Attributes:
        name: its name.
        hidden: width of the residual stream.
        mlp: the mixture.
        dtype: precision of the experts.
        tensor: ranks that share out every expert.
        machine: where it runs.
    """

    name: str
    hidden: int
    mlp: MoeMlp
    dtype: str
    tensor: int
    machine: Machine

    def work(self, rows: int) -> Work:
        """Bytes and arithmetic for ``rows`` tokens."""
        mlp = self.mlp
        expert = mlp.expert_parameters(self.hidden) / self.tensor
        touched = distinct_experts(rows, mlp.experts, mlp.top_k, self.machine.calibration.expert_overlap)
        router = mlp.experts * self.hidden
        moved = touched * expert * bytes_per_value(self.dtype) + ACTIVATION_BYTES * router
        return Work(moved, 2.0 * rows * (mlp.top_k * expert + router), self.dtype)

    def cost(self, rows: int) -> Cost:
        """Time for ``rows`` tokens."""
        work = self.work(rows)
        copies = ACTIVATION_BYTES * rows * self.mlp.top_k * self.hidden
        routing_s = self.machine.calibration.router_s * self.mlp.experts
        return experts_cost(work.bytes_moved, work.flops, copies, self.dtype, self.machine, routing_s)


def experts_cost(
    bytes_moved: float, flops: float, copied_bytes: float, dtype: str, machine: Machine, routing_s: float = 0.0
) -> Cost:
    """Time of the fused kernels of a mixture.

    Args:
        bytes_moved: bytes of the experts that are visited [B].
        flops: their arithmetic [FLOP].
        copied_bytes: bytes of the copies of all tokens that are sent to experts [B].
        dtype: data type of the experts.
        machine: where it runs.
        routing_s: choosing the experts, before them [s].

    Returns:
        time [s] and the bound that is larger.
    """
    gpu, calibration = machine.gpu, machine.calibration
    math = multiplied_as(dtype, gpu)
    curve = machine.kernels.mixture(dtype if dtype in _OWN_EXPERTS else math)
    alone_s = routing_s + calibration.experts_launch * curve.launch_s
    alone_s += copied_bytes / (curve.routing * gpu.hbm_bytes_per_s)
    if math in _EIGHT_BIT:
        alone_s += machine.kernels.quantise_experts_s
    return roofline(
        bytes_moved,
        flops,
        bandwidth=curve.memory * gpu.hbm_bytes_per_s,
        arithmetic=curve.compute * gpu.peak(math),
        power=calibration.roofline_power,
        launch_s=alone_s,
    )


@dataclass(frozen=True, slots=True)
class ElementWise:
    """Norms, rotary embedding, activation and residual additions of one layer, with the constant of its attention.

    ``rows · (10 · hidden + 3 · intermediate) · 2`` bytes at the element-wise bandwidth, plus the launch constant of the
    attention kernels, which does not depend on what is attended.

    Attributes:
        name: its name.
        values: values read and written per row.
        kv_cache: data type of the cache.
        machine: where it runs.
    """

    name: str
    values: float
    kv_cache: str
    machine: Machine

    def work(self, rows: int) -> Work:
        """Bytes for ``rows`` tokens; the arithmetic is negligible."""
        return Work(rows * self.values * ACTIVATION_BYTES, 0.0)

    def cost(self, rows: int) -> Cost:
        """Time for ``rows`` tokens."""
        calibration, kernels = self.machine.calibration, self.machine.kernels
        bandwidth = calibration.element_wise * self.machine.gpu.hbm_bytes_per_s
        launch_s = calibration.launch * kernels.attending(self.kv_cache).launch_s
        seconds = self.work(rows).bytes_moved / bandwidth + launch_s
        return Cost(seconds, False)


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """What each token does to the state of its request in one constant-size layer.

    ``flops = 6 · state`` per token at the rate of prefill attention; ``bytes = 2 · state / 64`` per token, for the
    kernels cut a prompt into chunks of 64 tokens and write and read the state once for each. That the state of a
    decoding request is read and written in every step is in ``AttentionPrices.per_request_ps``. An approximation: the
    kinds of layers differ in their arithmetic.

    Attributes:
        name: its name.
        flops: arithmetic per token on one rank [FLOP].
        state_bytes: state of a request on one rank [B].
        machine: where it runs.
    """

    name: str
    flops: float
    state_bytes: float
    machine: Machine

    def work(self, rows: int) -> Work:
        """Bytes and arithmetic for ``rows`` tokens."""
        return Work(2.0 * rows * self.state_bytes / _STATE_CHUNK, rows * self.flops)

    def cost(self, rows: int) -> Cost:
        """Time for ``rows`` tokens."""
        gpu, curve = self.machine.gpu, self.machine.kernels.attending("bf16")
        work = self.work(rows)
        return roofline(
            work.bytes_moved,
            work.flops,
            bandwidth=curve.memory * gpu.hbm_bytes_per_s,
            arithmetic=curve.compute * gpu.peak("bf16"),
            power=self.machine.calibration.roofline_power,
            launch_s=0.0,
        )


def multiplied_as(dtype: str, gpu: Gpu) -> str:
    """The data type in which weights of ``dtype`` are multiplied: 4-bit weights with 16-bit activations are unpacked to
    bf16, and so is what a GPU has no units for."""
    if dtype in _UNPACKED or gpu.peak(dtype) == gpu.peak("bf16"):
        return "bf16"
    return dtype


def on_tokens(operator: Operator) -> bool:
    """Whether an operator runs on the tokens that carry a request, not on the padded ones of a captured graph."""
    return operator.name == EXPERTS


def layer_operators(
    model: ModelSpec, attention: Attention, mlp: DenseMlp | MoeMlp, *, weights: str, kv_cache: str, tensor: int,
    machine: Machine,
) -> list[Operator]:  # fmt: skip
    """The operators of one layer on one of ``tensor`` ranks that depend on the tokens of the step.

    Each does 1/n of the work, but for what every rank repeats: ``attention.down``, ``attention.index_q`` and
    ``attention.index_k`` as a whole; of ``attention.qkv`` the KV heads beyond one per rank, of ``attention.q_kv_down``
    the latent part, of ``experts`` the router, and of ``element-wise`` all but the activation.

    Args:
        model: the model.
        attention: the layer's attention.
        mlp: the layer's feed-forward block.
        weights: precision that the engine runs with.
        kv_cache: data type of the KV cache.
        tensor: ranks that share out the matrices.
        machine: where it runs.
    """
    hidden = model.hidden
    dtype = model.dtype_of("attention", weights)
    products = _attention_products(hidden, attention, tensor)
    if isinstance(mlp, DenseMlp):
        inner = mlp.intermediate
        if inner:
            products += _mlp_products("mlp", hidden, inner / tensor, mlp.gated)
    else:
        inner = mlp.top_k * mlp.intermediate + mlp.shared_intermediate
        if mlp.shared_intermediate:
            products += _mlp_products("shared", hidden, mlp.shared_intermediate / tensor, mlp.gated)
    operators: list[Operator] = []
    for name, outer, deep in products:
        part = {"mlp": "dense", "shared": "shared"}.get(name.split(".")[0])
        operators.append(Gemm(name, outer, deep, model.dtype_of(part, weights) if part else dtype, machine))
    if isinstance(mlp, MoeMlp):
        operators.append(Experts(EXPERTS, hidden, mlp, model.dtype_of("experts", weights), tensor, machine))
    if isinstance(attention, StateAttention):
        flops, state = attention.on_rank(attention.state_flops(), tensor), attention.state_bytes(tensor)
        operators.append(StateUpdate("attention.state", flops, state, machine))
    operators.append(ElementWise("element-wise", 10 * hidden + 3 * inner / tensor, kv_cache, machine))
    return operators


def head_operator(model: ModelSpec, tensor: int, machine: Machine) -> Gemm:
    """The output matrix on one of ``tensor`` ranks; its rows are the sampled tokens only."""
    return Gemm("logits", padded_vocab(model.vocab, tensor), model.hidden, "bf16", machine)


def _attention_products(hidden: int, attention: Attention, tensor: int) -> list[tuple[str, float, float]]:
    """Name, columns and rows of each projection on one rank."""
    heads = attention.heads_on(tensor)
    if isinstance(attention, GroupedAttention):
        queries = heads * attention.head_dim * (2 if attention.gated else 1)
        keys = attention.local_kv_heads(tensor) * attention.head_dim
        return [
            ("attention.qkv", queries + 2 * keys, hidden),
            ("attention.out", hidden, heads * attention.head_dim),
        ]
    if isinstance(attention, StateAttention):
        # The convolution and the low-rank gates are small; they ride on the input projection.
        small = (attention.convolved * attention.kernel + attention.extra) / hidden
        return [
            ("attention.in", attention.on_rank(attention.inputs + small, tensor), hidden),
            ("attention.out", hidden, attention.on_rank(attention.inner, tensor)),
        ]
    query = heads * (attention.nope_dim + attention.rope_dim)
    latent = attention.kv_rank + attention.rope_dim
    # The key and value matrices of the latent vector are multiplied with the query and the output while decoding and
    # with the latent vector while prefilling: the same weights and, per token, the same arithmetic.
    rest = [
        ("attention.kv_up", heads * (attention.nope_dim + attention.v_dim), attention.kv_rank),
        ("attention.out", hidden, heads * attention.v_dim),
    ]
    if attention.index_heads:
        rest += [
            ("attention.index_q", attention.index_heads * attention.index_dim, attention.q_rank or hidden),
            ("attention.index_k", attention.index_dim + attention.index_heads, hidden),
        ]
    if attention.q_rank is None:
        return [("attention.q_kv_down", query + latent, hidden), *rest]
    return [
        ("attention.down", attention.q_rank + latent, hidden),
        ("attention.q_up", query, attention.q_rank),
        *rest,
    ]


def _mlp_products(name: str, hidden: int, inner: float, gated: bool) -> list[tuple[str, float, float]]:
    return [(f"{name}.up", (2 if gated else 1) * inner, hidden), (f"{name}.down", hidden, inner)]
