"""The attention of a layer, as Hugging Face configurations describe it.

The defaults that the ``transformers`` classes fill in silently are named here.
"""

from __future__ import annotations

from servetwin.catalog.fields import Fields
from servetwin.catalog.hf_state import state_layer
from servetwin.specs import Attention, GroupedAttention, LatentAttention

#: By model type, every how manieth layer attends everything where neither the layers nor a pattern are given.
_PATTERNS = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}

#: By model type, the size of a head where it is not given [values]; elsewhere the heads share out the hidden size.
#: Defaults of the configuration classes of transformers, 2026.
_HEAD_DIMS = {
    "qwen3": 128, "qwen3_next": 256, "qwen3_5": 256, "qwen3_5_moe": 256, "gemma": 256, "gemma2": 256, "gemma3": 256,
}  # fmt: skip

#: Model types of which layers below 28 attend everything unless they say otherwise, once windows are switched on.
_WINDOWS_FROM_28 = ("qwen2", "qwen2_moe", "qwen3")


def attention(text: Fields, model_type: str, index: int, hidden: int) -> Attention:
    """The attention of layer ``index``, or its constant-size state.

    Raises:
        CatalogError: where a field is missing or wrong, or the attention is not modelled.
    """
    state = state_layer(text, model_type, index, hidden)
    if state is not None:
        return state
    if text.has("kv_lora_rank"):
        top_k = text.integer("index_topk") if text.has("index_topk") else None
        indexed = top_k is not None and _has_indexer(text, index)
        return LatentAttention(
            heads=text.integer("num_attention_heads"),
            q_rank=text.integer("q_lora_rank") if text.has("q_lora_rank") else None,
            kv_rank=text.integer("kv_lora_rank"),
            nope_dim=text.integer("qk_nope_head_dim"),
            rope_dim=text.integer("qk_rope_head_dim"),
            v_dim=text.integer("v_head_dim"),
            top_k=top_k,
            index_heads=text.integer("index_n_heads") if indexed else 0,
            index_dim=text.integer("index_head_dim") if indexed else 0,
        )
    if text.has("index_topk"):
        raise text.error(
            "sparse attention with an indexer is modelled for latent attention only", "index_topk",
            found=text.take("index_topk"),
        )  # fmt: skip
    return grouped_attention(text, model_type, index, hidden)


def _has_indexer(text: Fields, index: int) -> bool:
    """Whether a layer chooses its tokens itself; others attend what the layer before them chose (GLM-5.2)."""
    kinds = text.entries("indexer_types")
    if kinds:
        return index < len(kinds) and kinds[index] == "full"
    every, first = text.integer("index_topk_freq", 1), text.integer("index_skip_topk_offset", 1, least=0)
    return index < first or (index - first + 1) % every == 0


def grouped_attention(text: Fields, model_type: str, index: int, hidden: int) -> GroupedAttention:
    """Attention with keys and values of their own, shared by groups of query heads."""
    heads = text.integer("num_attention_heads")
    head_dim = _HEAD_DIMS.get(model_type.removesuffix("_text"))
    if not text.has("head_dim") and head_dim is None and hidden % heads:
        raise text.error("head_dim is missing and the heads do not divide the hidden size", "head_dim", found=heads)
    # One head of keys and values is the default of these two classes of transformers.
    one = (
        text.take("multi_query", model_type in ("falcon", "gpt_bigcode")) is True
        and text.take("new_decoder_architecture", False) is not True
    )
    kv_heads = 1 if one else text.integer("num_key_value_heads", heads)
    if heads % kv_heads:
        raise text.error("the query heads must be a multiple of the KV heads", "num_key_value_heads", found=kv_heads)
    window, chunked = _window(text, model_type, index)
    return GroupedAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=text.integer("head_dim", head_dim or hidden // heads),
        window=window,
        chunked=chunked,
        gated=text.flag("attn_output_gate", model_type.startswith(("qwen3_next", "qwen3_5"))),
    )


def _window(text: Fields, model_type: str, index: int) -> tuple[int | None, bool]:
    """The attention window of a layer [tokens], and whether it is a chunk of the sequence."""
    if text.has("attention_chunk_size"):
        # Llama 4: every fourth layer has no rotary embedding and attends everything.
        switches = text.entries("no_rope_layers")
        full = not switches[index] if index < len(switches) else (index + 1) % 4 == 0
        return (None, False) if full else (text.integer("attention_chunk_size"), True)
    # The classes of Qwen leave windows off unless they are switched on, whatever else is given.
    switch = text.take("use_sliding_window", not model_type.startswith("qwen"))
    kinds = text.entries("layer_types")
    if kinds:
        kind = kinds[index] if index < len(kinds) else "full_attention"
        if kind == "sliding_attention" and model_type.startswith("qwen") and not switch:
            return None, False
        if kind == "sliding_attention":
            return text.integer("sliding_window"), False
        if kind not in ("full_attention", "attention"):
            raise text.error(f"attention of kind {kind!r} is not modelled", f"layer_types.{index}", found=kind)
        return None, False
    if not text.has("sliding_window") or not switch:
        return None, False
    if text.has("sliding_window_pattern") or model_type in _PATTERNS:
        every = text.integer("sliding_window_pattern", _PATTERNS.get(model_type, 1))
        return (None if (index + 1) % every == 0 else text.integer("sliding_window")), False
    # Qwen2: layers below max_window_layers attend everything.
    first = 28 if model_type in _WINDOWS_FROM_28 else 0
    if model_type.startswith("qwen") and index < text.integer("max_window_layers", first, least=0):
        return None, False
    return text.integer("sliding_window"), False
