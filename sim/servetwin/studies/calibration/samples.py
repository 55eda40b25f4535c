"""Measured kernels as the physics sees them: a shape, a time, and what the simulator says for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from servetwin.physics.attention import AttentionPrices
from servetwin.physics.operators import ACTIVATION_BYTES, Gemm, experts_cost
from servetwin.physics.overheads import Machine
from servetwin.specs import DenseMlp, GroupedAttention, Layer, ModelSpec, bytes_per_value
from servetwin.units import PS_PER_S

_HELD_OUT = 3
"""One shape in so many is left out of the fit."""

_LAYERS = 1_000
"""Layers of the models that attention is priced in: prices are whole picoseconds, and one layer takes few per token."""


def is_held_out(shape: tuple[int, ...]) -> bool:
    """Whether a shape is left out of the fit: decided by its hash alone, the same on every GPU and for every type."""
    digest = hashlib.sha256(":".join(map(str, shape)).encode()).digest()
    return int.from_bytes(digest[:8], "big") % _HELD_OUT == 0


class Sample(Protocol):
    """A measured kernel."""

    @property
    def shape(self) -> tuple[int, ...]:
        """What it is known by."""

    @property
    def measured_s(self) -> float:
        """Its time [s]."""

    def operand_bytes(self) -> float:
        """Bytes [B] that it reads or writes between two uses of the same byte."""

    def seconds(self, machine: Machine) -> float:
        """What the simulator says [s]."""


@dataclass(frozen=True)
class ProductSample:
    """A matrix product of ``rows`` activations.

    Attributes:
        copies: sets of weights that the benchmark takes in turn.
    """

    rows: int
    outer: int
    inner: int
    dtype: str
    copies: int
    measured_s: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, columns and depth."""
        return self.rows, self.outer, self.inner

    def operand_bytes(self) -> float:
        """All sets of weights, and the activations."""
        weights = self.outer * self.inner * bytes_per_value(self.dtype)
        return self.copies * weights + ACTIVATION_BYTES * self.rows * (self.outer + self.inner)

    def seconds(self, machine: Machine) -> float:
        """The operator ``Gemm``."""
        return Gemm("", self.outer, self.inner, self.dtype, machine).cost(self.rows).seconds


@dataclass(frozen=True)
class ExpertsSample:
    """The fused experts of a layer on one rank.

    Attributes:
        visited: distinct experts that the tokens of the benchmark visit on the rank.
    """

    tokens: int
    hidden: int
    intermediate: int
    top_k: int
    experts: int
    tensor: int
    expert_ranks: int
    visited: float
    dtype: str
    measured_s: float

    @property
    def shape(self) -> tuple[int, ...]:
        """All that the table tells apart."""
        return (
            self.tokens, self.hidden, self.intermediate, self.top_k, self.experts, self.tensor, self.expert_ranks,
        )  # fmt: skip

    @property
    def _expert(self) -> float:
        return 3.0 * self.hidden * self.intermediate / self.tensor

    def operand_bytes(self) -> float:
        """The visited experts."""
        return self.visited * self._expert * bytes_per_value(self.dtype)

    def seconds(self, machine: Machine) -> float:
        """The operator ``Experts``, with the experts that the benchmark visits and without the router."""
        flops = 2.0 * self.tokens * self.top_k / self.expert_ranks * self._expert
        copied = ACTIVATION_BYTES * self.tokens * self.top_k * self.hidden
        return experts_cost(self.operand_bytes(), flops, copied, self.dtype, machine).seconds


@dataclass(frozen=True)
class _AttentionSample:
    heads: int
    kv_heads: int
    head_dim: int
    batch: int
    tokens: int
    kv_cache: str
    measured_s: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Heads, batch and tokens of each request."""
        return self.heads, self.kv_heads, self.head_dim, self.batch, self.tokens

    @cached_property
    def model(self) -> ModelSpec:
        """A model of this attention and nothing else."""
        attention = GroupedAttention(self.heads, self.kv_heads, self.head_dim)
        layer = Layer(_LAYERS, attention, DenseMlp(0))
        return ModelSpec("", self.heads * self.head_dim, 1, (layer,), tied_embeddings=False, max_position=1)

    def _launch_s(self, machine: Machine) -> float:
        return machine.kernels.attending(self.kv_cache).launch_s


@dataclass(frozen=True)
class DecodeSample(_AttentionSample):
    """Attention of ``batch`` requests with one new token each; ``tokens`` is the context of each."""

    def operand_bytes(self) -> float:
        """The cache that is read."""
        values = 2.0 * self.batch * self.tokens * self.kv_heads * self.head_dim
        return values * bytes_per_value(self.kv_cache)

    def seconds(self, machine: Machine) -> float:
        """As ``AttentionPrices`` prices it."""
        prices = AttentionPrices(self.model, 1, self.kv_cache, machine)
        ((compute, memory),) = prices.slopes(1, mixed=False)
        picoseconds = prices.per_request_ps * self.batch + (compute + memory) * self.batch * self.tokens
        return self._launch_s(machine) + picoseconds / PS_PER_S / _LAYERS


@dataclass(frozen=True)
class PrefillSample(_AttentionSample):
    """Attention of ``batch`` prompts of ``tokens`` tokens each, without context."""

    def operand_bytes(self) -> float:
        """Queries, keys, values and output, all in bf16."""
        return ACTIVATION_BYTES * 2.0 * self.batch * self.tokens * (self.heads + self.kv_heads) * self.head_dim

    def seconds(self, machine: Machine) -> float:
        """As ``AttentionPrices`` prices it."""
        prices = AttentionPrices(self.model, 1, self.kv_cache, machine)
        chunks_ps = sum(prices.chunks_ps(((self.tokens, 0),) * self.batch))
        return self._launch_s(machine) + chunks_ps / PS_PER_S / _LAYERS
