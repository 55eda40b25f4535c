"""A language model as the simulator sees it: its shapes, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.specs.attention import LatentAttention, StateAttention
from servetwin.specs.dtypes import bytes_per_value
from servetwin.specs.layers import QUANTISABLE, Layer, MoeMlp, padded_vocab


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder-only transformer.

    Attributes:
        name: its name in the catalogue.
        hidden: width of the residual stream.
        vocab: tokens in the vocabulary.
        layers: groups of equal layers; the order between groups does not matter.
        tied_embeddings: the output matrix is the embedding matrix.
        max_position: longest sequence [tokens] that the configuration allows.
        native_weights: precision in which the weights are published: bf16, fp16, fp8, int4, mxfp4, …
        quantised_parts: the parts that have that precision (see ``servetwin.specs.layers``); the rest is bf16.
        native_kv_cache: precision of the KV cache that the checkpoint asks for.
        position_rows: rows of a learned table of positions; 0 = none.
        mtp_parameters: weights for multi-token prediction that a checkpoint may hold besides; not among ``parameters``.
        vision_parameters: weights of a vision tower, about; not among ``parameters``.
        notes: what the simulator approximates or could not read of this model, in sentences.
        source: where the shapes come from, and when.
        embeds: whether the embedding is a part of it; false of all but the first stage of a pipeline.
        has_output: whether the output matrix is; false of all but the last stage of a pipeline.
    """

    name: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    max_position: int
    native_weights: str = "bf16"
    quantised_parts: tuple[str, ...] = ()
    native_kv_cache: str = "bf16"
    position_rows: int = 0
    mtp_parameters: int = 0
    vision_parameters: int = 0
    notes: tuple[str, ...] = ()
    source: str = ""
    embeds: bool = True
    has_output: bool = True

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        return sum(layer.count for layer in self.layers)

    @property
    def heads(self) -> int:
        """Query heads, the fewest of any layer."""
        return min(layer.attention.heads for layer in self.layers)

    @property
    def windows(self) -> tuple[int, ...]:
        """The attention windows [tokens] besides full attention, ascending."""
        found = {layer.attention.window for layer in self.layers}
        return tuple(sorted(window for window in found if window is not None))

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(isinstance(layer.mlp, MoeMlp) for layer in self.layers)

    def running(self, weights: str) -> str:
        """The precision that the engine runs with where ``weights`` is asked for: ``auto`` is as published.

        So is ``fp8`` of a checkpoint whose fp8 has scales by blocks, for that is how it is called.
        """
        as_published = weights == "auto" or f"{weights}_block" == self.native_weights
        return self.native_weights if as_published else weights

    def dtype_of(self, part: str, weights: str) -> str:
        """Precision of a part when the engine runs with ``weights`` (``auto`` = as published).

        A precision other than the published one quantises every linear layer, MXFP4 and NVFP4 the routed
        experts of a mixture only; embeddings, output matrix and router stay bf16.
        """
        weights = self.running(weights)
        if weights == self.native_weights:
            quantised = self.quantised_parts
        elif weights in ("mxfp4", "mxfp4_mxfp8", "nvfp4") and self.is_moe:
            quantised = ("experts",)
        else:
            quantised = QUANTISABLE
        if weights in ("bf16", "fp16"):
            return weights
        return weights if part in quantised else "bf16"

    def parts(self) -> dict[str, int]:
        """Weights of the layers by part, all layers together."""
        total = {"norms": (2 * self.num_layers + 1) * self.hidden}
        for layer in self.layers:
            sizes = {"attention": layer.attention.parameters(self.hidden), **layer.mlp.parts(self.hidden)}
            for part, size in sizes.items():
                total[part] = total.get(part, 0) + layer.count * size
        return total

    def parameters(self) -> int:
        """All weights of the language model, embeddings included; biases are left out."""
        rows = self.vocab * self._matrices + (self.position_rows if self.embeds else 0)
        return sum(self.parts().values()) + rows * self.hidden

    @property
    def _matrices(self) -> int:
        """Matrices of the vocabulary that are stored."""
        both = self.embeds and self.has_output
        return 1 if both and self.tied_embeddings else self.embeds + self.has_output

    def active_parameters(self) -> int:
        """Weights that one token is multiplied with: its experts, the output matrix, not the embedding."""
        return self.active_layer_parameters() + self.output_parameters()

    def output_parameters(self) -> int:
        """Weights of the output matrix."""
        return self.vocab * self.hidden if self.has_output else 0

    def active_layer_parameters(self) -> int:
        """The same without the output matrix."""
        return sum(
            layer.count * (layer.attention.parameters(self.hidden) + layer.mlp.active_parameters(self.hidden))
            for layer in self.layers
        )

    def weight_bytes(self, weights: str = "auto", tensor: int = 1) -> float:
        """Bytes [B] of weights on one of ``tensor`` ranks.

        Args:
            weights: precision the engine runs with, or ``auto``.
            tensor: ranks that share out the matrices. KV heads, latent down-projections, routers and norms are
                repeated where they cannot be shared.
        """
        layers = sum(self._layer_bytes(layer, weights, tensor, every_expert=True) for layer in self.layers)
        positions = 2.0 * self.position_rows * self.hidden if self.embeds else 0.0
        return self._vocabulary_bytes(tensor) * self._matrices + positions + layers

    def step_weight_bytes(self, weights: str = "auto", tensor: int = 1) -> float:
        """Bytes [B] of weights that any step must read on one of ``tensor`` ranks.

        That is all but the embedding matrix, of which a step reads a few rows, and of the routed experts only as many
        as one token visits.
        """
        layers = sum(self._layer_bytes(layer, weights, tensor, every_expert=False) for layer in self.layers)
        return (self._vocabulary_bytes(tensor) if self.has_output else 0.0) + layers

    def _vocabulary_bytes(self, tensor: int) -> float:
        return 2.0 * padded_vocab(self.vocab, tensor) * self.hidden

    def _layer_bytes(self, layer: Layer, weights: str, tensor: int, *, every_expert: bool) -> float:
        """Weights [B] of equal layers on one rank, with their norms."""
        attention = layer.attention.local_parameters(self.hidden, tensor)
        total = attention * bytes_per_value(self.dtype_of("attention", weights)) + 2.0 * 2 * self.hidden
        for part, size in layer.mlp.parts(self.hidden).items():
            share = 1.0 if part == "router" else 1.0 / tensor
            if part == "experts" and isinstance(layer.mlp, MoeMlp) and not every_expert:
                share *= layer.mlp.top_k / layer.mlp.experts
            total += size * share * bytes_per_value(self.dtype_of(part, weights))
        return layer.count * total

    def kv_bytes_per_token(self, dtype: str = "bf16", tensor: int = 1) -> float:
        """KV cache [B] that one more token of a long sequence takes on one of ``tensor`` ranks.

        Layers with a sliding window hold a constant amount per sequence where other layers hold all of it, so
        they do not count; where no layer holds all, and for chunked attention, all layers count. Constant-state
        layers hold nothing per token (see ``state_bytes``).
        """
        kept = [layer for layer in self.layers if layer.attention.keeps_cache]
        return sum(
            layer.count * (layer.attention.kv_bytes(tensor, dtype) + layer.attention.index_bytes())
            for layer in kept or self.layers
        )

    def state_bytes(self, tensor: int = 1) -> float:
        """Bytes [B] that a request takes on one of ``tensor`` ranks however long it is: its constant-size states."""
        return sum(layer.count * layer.attention.state_bytes(tensor) for layer in self.layers)

    def flops_per_token(self, context: float = 0.0) -> float:
        """Arithmetic [FLOP] to compute one token, its row of logits included.

        Args:
            context: tokens that it attends [tokens].
        """
        total = 2.0 * self.active_parameters()
        for layer in self.layers:
            window = layer.attention.window
            attended = context if window is None else min(context, window)
            total += layer.count * attended * layer.attention.decode_flops()
            total += layer.count * (context * layer.attention.index_flops() + layer.attention.state_flops())
        return total


def approximations(layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """What is approximated of layers, in sentences."""
    found = []
    states = sum(layer.count for layer in layers if isinstance(layer.attention, StateAttention))
    if states:
        found.append(
            f"{states} of {sum(layer.count for layer in layers)} layers keep a state of constant size; "
            "their price is an approximation"
        )
    sparse = next(
        (a for a in (layer.attention for layer in layers) if isinstance(a, LatentAttention) and a.top_k), None
    )
    if sparse is not None:
        found.append(
            f"sparse attention is approximated: a window of {sparse.top_k:,} tokens, and an indexer that is linear "
            "in the context"
        )
    return tuple(found)
