"""The matrices of a model under the names that checkpoints give them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from servetwin.specs import Attention, DenseMlp, GroupedAttention, LatentAttention, Layer, MoeMlp

#: What stands before ``layers`` in the names of checkpoints.
_BEFORE = ("model.", "language_model.model.", "model.language_model.", "backbone.")

_DENSE = ("mlp", "feed_forward", "ffn")
_SHARED = ("mlp.shared_experts", "mlp.shared_expert", "feed_forward.shared_expert", "block_sparse_moe.shared_experts",
           "mixer.shared_experts")  # fmt: skip
_EXPERTS = ("mlp.experts", "mlp.experts.0", "block_sparse_moe.experts", "block_sparse_moe.experts.0",
            "feed_forward.experts", "feed_forward.experts.0", "mixer.experts", "mixer.experts.0")  # fmt: skip
_UP = ("gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "fc1")
_DOWN = ("down_proj", "w2", "fc2")


@dataclass(frozen=True, slots=True)
class Module:
    """A matrix, or matrices that are always treated alike.

    Attributes:
        part: the part of the layer that it belongs to.
        weights: its size in multiples of the width of the residual stream, which most matrices have on one side.
        layer: the number of its layer.
        paths: its possible names below the layer.
    """

    part: str
    weights: float
    layer: int
    paths: tuple[str, ...]

    @property
    def names(self) -> Iterator[str]:
        """Its possible full names."""
        for path in self.paths:
            for before in _BEFORE:
                yield f"{before}layers.{self.layer}.{path}"

    def pieces(self) -> Iterator[tuple[str, ...]]:
        """Every stretch of words of its possible names, from ``layers`` on."""
        for path in self.paths:
            words = ("layers", str(self.layer), *path.split("."))
            for start in range(len(words)):
                for stop in range(start + 1, len(words) + 1):
                    # "layers" alone and a bare number mean no matrix.
                    if (start, stop) not in ((0, 1), (1, 2)):
                        yield words[start:stop]


def modules(layers: Sequence[Layer], hidden: int) -> list[Module]:
    """The matrices of a model.

    Args:
        layers: its layers in their order; each entry is one layer.
        hidden: width of the residual stream.
    """
    return [module for index, layer in enumerate(layers) for module in _of_layer(index, layer, hidden)]


def _of_layer(index: int, layer: Layer, hidden: int) -> Iterator[Module]:
    for weights, blocks, leaves in _attention(layer.attention, hidden):
        yield Module("attention", weights, index, _paths(blocks, leaves))
    mlp = layer.mlp
    if isinstance(mlp, MoeMlp):
        size = float(mlp.experts * mlp.intermediate)
        yield from _block("experts", size, mlp.gated, index, _EXPERTS)
        if mlp.shared_intermediate:
            yield from _block("shared", float(mlp.shared_intermediate), mlp.gated, index, _SHARED)
    elif isinstance(mlp, DenseMlp) and mlp.intermediate:
        yield from _block("dense", float(mlp.intermediate), mlp.gated, index, _DENSE)


def _block(part: str, size: float, gated: bool, index: int, blocks: Sequence[str]) -> Iterator[Module]:
    yield Module(part, (2 if gated else 1) * size, index, _paths(blocks, _UP))
    yield Module(part, size, index, _paths(blocks, _DOWN))


def _attention(attention: Attention, hidden: int) -> list[tuple[float, tuple[str, ...], tuple[str, ...]]]:
    """Size, blocks and names of each projection of a layer."""
    own = ("self_attn", "attention", "mixer")
    if isinstance(attention, GroupedAttention):
        query, keys = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
        return [
            (query * (2 if attention.gated else 1), own, ("q_proj", "qkv_proj")),
            (keys, own, ("k_proj", "qkv_proj")),
            (keys, own, ("v_proj", "qkv_proj")),
            (query, own, ("o_proj", "out_proj")),
        ]
    if isinstance(attention, LatentAttention):
        # These two start from a compressed query and a compressed cache instead of the residual stream.
        queries = (attention.q_rank or hidden) * attention.heads * (attention.nope_dim + attention.rope_dim)
        keys_values = attention.kv_rank * attention.heads * (attention.nope_dim + attention.v_dim)
        return [
            ((attention.q_rank or 0) + attention.kv_rank + attention.rope_dim, own,
             ("q_a_proj", "kv_a_proj_with_mqa", "fused_qkv_a_proj")),
            (queries / hidden, own, ("q_b_proj", "q_proj")),
            (keys_values / hidden, own, ("kv_b_proj",)),
            (attention.heads * attention.v_dim, own, ("o_proj",)),
        ]  # fmt: skip
    state = ("linear_attn", "mamba", "mixer", "self_attn")
    return [
        (attention.inputs, state, ("in_proj", "in_proj_qkvz", "in_proj_qkv", "in_proj_z", "qkv_proj", "q_proj")),
        (attention.inner, state, ("out_proj", "o_proj")),
    ]


def _paths(blocks: Sequence[str], leaves: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{block}.{leaf}" for block in blocks for leaf in leaves)
