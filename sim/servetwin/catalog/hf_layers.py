"""The attention and the feed-forward block of each layer, as Hugging Face configurations describe them.

The defaults that the ``transformers`` classes fill in silently are named here.
"""

from __future__ import annotations

from servetwin.catalog.fields import Fields
from servetwin.catalog.hf_state import state_layer
from servetwin.specs import Attention, DenseMlp, GroupedAttention, LatentAttention, MoeMlp

#: Model types whose feed-forward block has two matrices instead of three.
_NOT_GATED = (
    "opt", "gpt2", "gpt_neox", "gpt_bigcode", "bloom", "falcon", "phi", "starcoder2", "nemotron", "nemotron_h",
)  # fmt: skip

#: Of these, the types whose inner width is four times the outer one unless they say otherwise.
_FOUR_TIMES = ("gpt2", "bloom", "falcon", "gpt_bigcode")

#: By model type, every how manieth layer attends everything where neither the layers nor a pattern are given.
_PATTERNS = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}

#: By model type, the size of a head where it is not given [values]; elsewhere the heads share out the hidden size.
#: Defaults of the configuration classes of transformers, 2026.
_HEAD_DIMS = {
    "qwen3": 128, "qwen3_next": 256, "qwen3_5": 256, "qwen3_5_moe": 256, "gemma": 256, "gemma2": 256, "gemma3": 256,
}  # fmt: skip

#: Model types of which layers below 28 attend everything unless they say otherwise, once windows are switched on.
_WINDOWS_FROM_28 = ("qwen2", "qwen2_moe", "qwen3")

MOST_LAYERS = 1_000
"""More layers than this are a slip of the keyboard."""

Block = tuple[Attention, DenseMlp | MoeMlp]


def read_layers(text: Fields, model_type: str, hidden: int) -> list[Block]:
    """Attention and feed-forward block of each layer, in order.

    Raises:
        CatalogError: where a field is missing or wrong, or there are more layers than any model has.
    """
    _check_experts(text, model_type)
    if text.has("hybrid_override_pattern"):
        return _from_pattern(text, model_type, hidden)
    count = text.integer("num_hidden_layers")
    _check_count(text, "num_hidden_layers", count)
    return [(_attention(text, model_type, i, hidden), _mlp(text, model_type, i, hidden)) for i in range(count)]


def _check_count(text: Fields, key: str, count: int) -> None:
    if count > MOST_LAYERS:
        raise text.error("no model has so many layers", key, found=f"{count:,}", allowed=f"at most {MOST_LAYERS:,}")


def _check_experts(text: Fields, model_type: str) -> None:
    """Refuse a type that is a mixture of experts and does not say of how many: it would be priced as dense."""
    if "moe" in model_type and not any(text.has(name) for name in _EXPERTS):
        raise text.error(
            f"the model type {model_type!r} is a mixture of experts, and the number of its experts is missing",
            _EXPERTS[0], allowed=f"one of {', '.join(_EXPERTS)}",
        )  # fmt: skip


def _from_pattern(text: Fields, model_type: str, hidden: int) -> list[Block]:
    """Layers of Nemotron-H: one letter each for a state (M), attention (*), a dense block (-) or experts (E).

    A block that follows a state or attention is taken as the second half of the same layer.
    """
    pattern = text.text("hybrid_override_pattern")
    _check_count(text, "hybrid_override_pattern", len(pattern))
    none = DenseMlp(0, gated=False)
    layers: list[Block] = []
    for position, letter in enumerate(pattern):
        if letter == "M":
            state = state_layer(text, model_type, position, hidden)
            assert state is not None
            layers.append((state, none))
        elif letter == "*":
            layers.append((_grouped(text, model_type, position, hidden), none))
        elif letter in "-E" and layers and layers[-1][1] == none:
            mlp = _experts(text, model_type) if letter == "E" else _dense(text, model_type, hidden)
            layers[-1] = (layers[-1][0], mlp)
        else:
            raise text.error(
                "this order of layers is not modelled", "hybrid_override_pattern", found=pattern,
                allowed="M, * and after each of them at most one - or E",
            )  # fmt: skip
    return layers


def _attention(text: Fields, model_type: str, index: int, hidden: int) -> Attention:
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
    return _grouped(text, model_type, index, hidden)


def _has_indexer(text: Fields, index: int) -> bool:
    """Whether a layer chooses its tokens itself; others attend what the layer before them chose (GLM-5.2)."""
    kinds = text.entries("indexer_types")
    if kinds:
        return index < len(kinds) and kinds[index] == "full"
    every, first = text.integer("index_topk_freq", 1), text.integer("index_skip_topk_offset", 1, least=0)
    return index < first or (index - first + 1) % every == 0


def _grouped(text: Fields, model_type: str, index: int, hidden: int) -> GroupedAttention:
    heads = text.integer("num_attention_heads")
    head_dim = _HEAD_DIMS.get(model_type.removesuffix("_text"))
    if not text.has("head_dim") and head_dim is None and hidden % heads:
        raise text.error("head_dim is missing and the heads do not divide the hidden size", "head_dim", found=heads)
    one = text.take("multi_query", False) is True and text.take("new_decoder_architecture", False) is not True
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


_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")


def _mlp(text: Fields, model_type: str, index: int, hidden: int) -> DenseMlp | MoeMlp:
    experts = next((name for name in _EXPERTS if text.has(name)), None)
    # One expert is a dense block under another name (Jamba).
    if experts is None or text.integer(experts, least=0) <= 1 or not _is_moe_layer(text, index):
        return _dense(text, model_type, hidden)
    return _experts(text, model_type)


def _dense(text: Fields, model_type: str, hidden: int) -> DenseMlp:
    gated = model_type not in _NOT_GATED
    if text.has("ffn_dim"):
        return DenseMlp(text.integer("ffn_dim"), gated=False)
    if model_type in ("mamba", "mamba2", "falcon_mamba"):
        return DenseMlp(0, gated=False)
    if not text.has("intermediate_size") and model_type in _FOUR_TIMES:
        return DenseMlp(4 * hidden, gated=gated)
    if text.has("shared_intermediate_size") and model_type == "granitemoehybrid":
        return DenseMlp(text.integer("shared_intermediate_size"), gated=gated)
    name = "intermediate_size_mlp" if text.has("intermediate_size_mlp") else "intermediate_size"
    return DenseMlp(text.integer(name), gated=gated)


def _experts(text: Fields, model_type: str) -> MoeMlp:
    experts = next((name for name in _EXPERTS if text.has(name)), _EXPERTS[0])
    inner = "moe_intermediate_size" if text.has("moe_intermediate_size") else "intermediate_size"
    intermediate = text.integer(inner)
    names = ("shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size")
    given = [name for name in names if text.has(name)]
    if given:
        shared = text.integer(given[0], least=0)
    else:
        # Llama 4 has one shared expert of the experts' size without saying so.
        implied = 1 if model_type.startswith("llama4") else 0
        implied = 2 if model_type == "ernie4_5_moe" else implied
        counts = ("num_shared_experts", "moe_num_shared_experts", "n_shared_experts")
        count = next((name for name in counts if text.has(name)), counts[-1])
        shared = intermediate * text.integer(count, implied, least=0)
    tops = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_k")
    top_k = next((name for name in tops if text.has(name)), tops[0])
    gated = model_type not in _NOT_GATED
    mlp = MoeMlp(text.integer(experts), text.integer(top_k), intermediate, shared, gated)
    if mlp.top_k > mlp.experts:
        raise text.error("a token cannot visit more experts than there are", top_k, found=mlp.top_k)
    return mlp


def _is_moe_layer(text: Fields, index: int) -> bool:
    if index < text.integer("first_k_dense_replace", 0, least=0) or index in text.entries("mlp_only_layers"):
        return False
    if text.has("moe_num_experts"):
        return _is_moe_layer_of_ernie(text, index)
    kinds = text.entries("mlp_layer_types")
    if kinds:
        return index < len(kinds) and kinds[index] == "sparse"
    if text.has("moe_layers"):
        return index in text.entries("moe_layers")
    if text.has("expert_layer_period"):
        offset = text.integer("expert_layer_offset", 0, least=0)
        return index % text.integer("expert_layer_period") == offset
    if isinstance(text.take("moe_layer_freq", None), list):
        switches = text.entries("moe_layer_freq")
        return index < len(switches) and bool(switches[index])
    if text.has("moe_layer_freq"):
        return index % text.integer("moe_layer_freq") == 0
    every = "interleave_moe_layer_step" if text.has("interleave_moe_layer_step") else "decoder_sparse_step"
    return (index + 1) % (text.integer(every, 1, least=0) or 1) == 0


def _is_moe_layer_of_ernie(text: Fields, index: int) -> bool:
    """Every so manieth layer from one to another, with the defaults of the class; an end of -1 is the last layer."""
    start, every = text.integer("moe_layer_start_index", 1, least=0), text.integer("moe_layer_interval", 1)
    end = text.integer("moe_layer_end_index", -1, least=-1)
    return (index + 1) % every == 0 and start <= index and (end == -1 or index <= end)
