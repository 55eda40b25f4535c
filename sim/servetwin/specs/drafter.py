"""What proposes tokens for a model to verify: its shapes, and how often it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from servetwin.specs.attention import Attention, GroupedAttention, LatentAttention
from servetwin.specs.layers import DenseMlp, Layer
from servetwin.specs.model import ModelSpec

Method = Literal["draft-model", "parallel", "eagle", "eagle3", "mtp", "medusa", "ngram", "suffix"]
"""The methods of speculation, as scenarios and presets name them."""

METHOD_NAMES: tuple[str, ...] = get_args(Method)

SEQUENTIAL, PARALLEL, HEADS, LOOKUP = "sequential", "parallel", "heads", "lookup"
"""How tokens are drafted: one pass for each; all in one pass; by heads on the hidden state; found in the text."""

EAGLE3_VOCAB = 32_000
"""Tokens that published heads of EAGLE-3 can draft (``draft_vocab_size`` of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B)."""


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A drafter.

    Attributes:
        name: what it is called.
        works: one of ``SEQUENTIAL``, ``PARALLEL``, ``HEADS``, ``LOOKUP``.
        model: its layers and its output matrix; None of what only looks tokens up, and of heads.
        once: matrix products that its first pass has besides, ``(columns, rows)`` of the weights; each GPU has all of
            them.
        each: the same in each pass, shared out like the layers; of heads, the products of one of them.
        whole: the same, of which each GPU has all (plain ``Linear`` and ``ReplicatedLinear`` in vLLM).
        on_states: whether it runs on hidden states of the model.
        shares_embedding: whether it uses the embedding matrix of the model.
        shares_output: whether it uses the output matrix of the model.
        quantised: whether it is a part of the model's checkpoint, in its precision.
    """

    name: str
    works: str
    model: ModelSpec | None = None
    once: tuple[tuple[int, int], ...] = ()
    each: tuple[tuple[int, int], ...] = ()
    whole: tuple[tuple[int, int], ...] = ()
    on_states: bool = False
    shares_embedding: bool = False
    shares_output: bool = False
    quantised: bool = False

    def weight_bytes(self, drafts: int, weights: str = "auto", tensor: int = 1) -> float:
        """Bytes [B] of its own weights on one of ``tensor`` ranks.

        Args:
            drafts: tokens that it drafts at most; there is a head for each.
            weights: precision that the engine runs it with, or ``auto``.
            tensor: ranks that share it out.
        """
        products = sum(2.0 * columns * rows for columns, rows in self.each) / tensor
        products += sum(2.0 * columns * rows for columns, rows in self.once + self.whole)
        if self.works == HEADS:
            return drafts * products
        if self.model is None:
            return 0.0
        stored = replace(
            self.model, embeds=self.model.embeds and not self.shares_embedding,
            has_output=self.model.has_output and not self.shares_output,
        )  # fmt: skip
        return stored.weight_bytes(weights, tensor) + products

    def kv_bytes_per_token(self, dtype: str = "bf16", tensor: int = 1) -> float:
        """KV cache [B] that it keeps per token on one of ``tensor`` ranks."""
        return self.model.kv_bytes_per_token(dtype, tensor) if self.model is not None else 0.0


def draft_model(model: ModelSpec) -> DrafterSpec:
    """A small model of its own that runs once for each token."""
    return DrafterSpec(model.name, SEQUENTIAL, model)


def parallel_model(model: ModelSpec) -> DrafterSpec:
    """A small model that drafts all tokens in one pass over as many masked places (PARD, P-EAGLE, DFlash)."""
    return DrafterSpec(model.name, PARALLEL, model)


def eagle(target: ModelSpec) -> DrafterSpec:
    """One layer like the model's on its hidden states and the embeddings of its tokens, put together by a matrix.

    Source: Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty", arXiv 2401.15077;
        vLLM ``model_executor/models/llama_eagle.py``: embedding and output matrix are those of the model.
    """
    hidden = target.hidden
    return DrafterSpec(
        f"EAGLE of {target.name}", SEQUENTIAL, _one_layer(target), whole=((hidden, 2 * hidden),),
        on_states=True, shares_embedding=True, shares_output=True,
    )  # fmt: skip


def eagle3(target: ModelSpec) -> DrafterSpec:
    """One layer on hidden states of three depths of the model, with an output matrix of its own.

    The first pass puts the three states together; the layer's queries, keys and values are of state and embedding, so
    that they are twice as deep. Its output matrix has ``EAGLE3_VOCAB`` tokens.

    Source: Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test",
        arXiv 2503.01840; vLLM ``model_executor/models/llama_eagle3.py``.
    """
    hidden = target.hidden
    layer = _one_layer(target)
    inputs = _input_width(layer.layers[0].attention)
    return DrafterSpec(
        f"EAGLE-3 of {target.name}", SEQUENTIAL, replace(layer, vocab=min(EAGLE3_VOCAB, target.vocab)),
        once=((hidden, 3 * hidden),), each=((inputs, hidden),), on_states=True, shares_embedding=True,
    )  # fmt: skip


def mtp(target: ModelSpec) -> DrafterSpec:
    """The model's own module for multi-token prediction: one more decoder layer, run once for each token.

    Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv 2412.19437, section 2.2; vLLM
        ``model_executor/models/deepseek_mtp.py``.
    """
    hidden = target.hidden
    last = replace(target.layers[-1], count=1)
    layer = replace(_alone(target), layers=(last,))
    return DrafterSpec(
        f"MTP of {target.name}", SEQUENTIAL, layer, whole=((hidden, 2 * hidden),), on_states=True,
        shares_embedding=True, shares_output=True, quantised=True,
    )  # fmt: skip


def medusa(target: ModelSpec) -> DrafterSpec:
    """A head for each drafted token on the model's last hidden state: a residual block and an output matrix.

    Source: Cai et al., "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads",
        arXiv 2401.10774.
    """
    hidden = target.hidden
    return DrafterSpec(
        f"Medusa of {target.name}", HEADS, each=((target.vocab, hidden),), whole=((hidden, hidden),), on_states=True
    )


def lookup(name: str) -> DrafterSpec:
    """Drafts are found in the prompt and in what was generated before."""
    return DrafterSpec(name, LOOKUP)


def _alone(target: ModelSpec) -> ModelSpec:
    """The model without what a drafter of it does not have."""
    return replace(target, mtp_parameters=0, vision_parameters=0, position_rows=0, tied_embeddings=False, notes=())


def _one_layer(target: ModelSpec) -> ModelSpec:
    """One dense layer in bf16, its attention that of the model's layers which attend to everything.

    Published heads of mixtures are dense too; where the model has no dense layer, the inner width is four times the
    outer one, an approximation.
    """
    kinds = sorted(
        target.layers, key=lambda layer: layer.attention.window is not None or layer.attention.state_bytes(1) > 0
    )
    dense = [layer.mlp for layer in target.layers if isinstance(layer.mlp, DenseMlp) and layer.mlp.intermediate]
    layer = Layer(1, kinds[0].attention, dense[0] if dense else DenseMlp(4 * target.hidden))
    return replace(_alone(target), layers=(layer,), native_weights="bf16", quantised_parts=())


def _input_width(attention: Attention) -> int:
    """Columns of the projections that take in the residual stream."""
    if isinstance(attention, GroupedAttention):
        queries = attention.heads * attention.head_dim * (2 if attention.gated else 1)
        return queries + 2 * attention.kv_heads * attention.head_dim
    if isinstance(attention, LatentAttention):
        queries = attention.q_rank or attention.heads * (attention.nope_dim + attention.rope_dim)
        return queries + attention.kv_rank + attention.rope_dim
    return attention.inputs
