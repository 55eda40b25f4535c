"""What a Hugging Face ``config.json`` says about the shapes of a model.

Only the shapes are read; the defaults that the ``transformers`` classes fill in silently are named here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from servetwin.catalog.fields import Fields
from servetwin.specs import DenseMlp, GroupedAttention, LatentAttention, Layer, ModelSpec, MoeMlp
from servetwin.specs.layers import QUANTISABLE

#: Model types whose output matrix is the embedding matrix unless the configuration says otherwise.
_TIED_BY_DEFAULT = ("opt", "gpt2", "gemma", "gemma2", "gemma3_text", "bloom", "falcon")

#: What marks a configuration whose attention is of a kind that is not modelled.
_NOT_MODELLED = {
    "linear_num_value_heads": "linear attention (a constant state instead of a KV cache)",
    "index_topk": "sparse attention with an indexer",
    "mamba_d_state": "state-space layers",
    "ssm_state_size": "state-space layers",
}

#: Algorithms of NVIDIA's ModelOpt, and the formats of the weights that they leave.
_MODELOPT = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8", "NVFP4": "nvfp4", "INT4_AWQ": "int4",
    "W4A16_AWQ": "int4",
}  # fmt: skip

#: Module names, as they stand in the exclusion lists of quantised checkpoints, by part.
_MODULES = {
    "attention": ("self_attn", "attention"),
    "shared": ("shared_expert", "shared_experts"),
    "experts": ("experts",),
    "dense": ("mlp", "feed_forward"),
}


def looks_like_huggingface(data: Mapping[str, object]) -> bool:
    """Whether a mapping is a Hugging Face configuration rather than one of our profiles."""
    return any(key in data for key in ("hidden_size", "text_config", "model_type", "architectures"))


def huggingface_name(data: Mapping[str, object]) -> str:
    """The name that a configuration gives itself, without the organisation; empty where it gives a path or none."""
    name = data.get("_name_or_path")
    if not isinstance(name, str) or name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        return ""
    return name.strip("/ ").rsplit("/", 1)[-1]


def model_from_huggingface(fields: Fields, name: str) -> ModelSpec:
    """The model that a configuration describes.

    Raises:
        CatalogError: where a needed field is missing or wrong, or the attention is of a kind that is not modelled.
    """
    text = fields.inner("text_config") if fields.has("text_config") else fields
    for marker, what in _NOT_MODELLED.items():
        if text.has(marker):
            raise text.error(f"this model uses {what}, which is not modelled", marker, found=text.take(marker))
    model_type = str(text.take("model_type", fields.take("model_type", "")))
    count = text.integer("num_hidden_layers")
    hidden = text.integer("hidden_size")
    layers = [(_attention(text, model_type, i, hidden), _mlp(text, model_type, i)) for i in range(count)]
    groups: dict[Any, int] = {}
    for layer in layers:
        groups[layer] = groups.get(layer, 0) + 1
    tied = text.take("tie_word_embeddings", fields.take("tie_word_embeddings", model_type in _TIED_BY_DEFAULT))
    config = text.take("quantization_config", None) or fields.take("quantization_config", None)
    native, parts = _quantisation(fields, config) if config else (_dtype(text, fields), ())
    return ModelSpec(
        name=name,
        hidden=hidden,
        vocab=text.integer("vocab_size"),
        layers=tuple(Layer(number, attention, mlp) for (attention, mlp), number in groups.items()),
        tied_embeddings=bool(tied),
        max_position=text.integer("max_position_embeddings", text.take("n_positions", 2048)),
        native_weights=native,
        quantised_parts=parts,
        source=f"Hugging Face configuration {fields.file}",
    )


def _dtype(text: Fields, fields: Fields) -> str:
    name = text.take("torch_dtype", None) or text.take("dtype", None) or fields.take("torch_dtype", "bfloat16")
    return "fp16" if name == "float16" else "bf16"


def _attention(text: Fields, model_type: str, index: int, hidden: int) -> GroupedAttention | LatentAttention:
    heads = text.integer("num_attention_heads")
    if text.has("kv_lora_rank"):
        return LatentAttention(
            heads=heads,
            q_rank=text.integer("q_lora_rank") if text.has("q_lora_rank") else None,
            kv_rank=text.integer("kv_lora_rank"),
            nope_dim=text.integer("qk_nope_head_dim"),
            rope_dim=text.integer("qk_rope_head_dim"),
            v_dim=text.integer("v_head_dim"),
        )
    if not text.has("head_dim") and hidden % heads:
        raise text.error("head_dim is missing and the heads do not divide the hidden size", "head_dim", found=heads)
    kv_heads = text.integer("num_key_value_heads", heads)
    if heads % kv_heads:
        raise text.error("the query heads must be a multiple of the KV heads", "num_key_value_heads", found=kv_heads)
    window, chunked = _window(text, model_type, index)
    return GroupedAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=text.integer("head_dim", hidden // heads),
        window=window,
        chunked=chunked,
        gated=text.flag("attn_output_gate"),
    )


def _window(text: Fields, model_type: str, index: int) -> tuple[int | None, bool]:
    """The attention window of a layer [tokens], and whether it is a chunk of the sequence."""
    if text.has("attention_chunk_size"):
        # Llama 4: every fourth layer has no rotary embedding and attends everything.
        switches = text.entries("no_rope_layers")
        full = not switches[index] if index < len(switches) else (index + 1) % 4 == 0
        return (None, False) if full else (text.integer("attention_chunk_size"), True)
    kinds = text.entries("layer_types")
    if kinds:
        kind = kinds[index] if index < len(kinds) else "full_attention"
        if kind == "sliding_attention":
            return text.integer("sliding_window"), False
        if kind not in ("full_attention", "attention"):
            raise text.error(f"attention of kind {kind!r} is not modelled", f"layer_types.{index}", found=kind)
        return None, False
    if not text.has("sliding_window") or not text.take("use_sliding_window", True):
        return None, False
    # Qwen2: layers below max_window_layers attend everything.
    if model_type.startswith("qwen") and index < text.integer("max_window_layers", 0, least=0):
        return None, False
    return text.integer("sliding_window"), False


def _mlp(text: Fields, model_type: str, index: int) -> DenseMlp | MoeMlp:
    experts = next((n for n in ("n_routed_experts", "num_local_experts", "num_experts") if text.has(n)), None)
    if experts is None or not _is_moe_layer(text, index):
        dense = "intermediate_size_mlp" if text.has("intermediate_size_mlp") else "intermediate_size"
        if text.has("ffn_dim"):
            return DenseMlp(text.integer("ffn_dim"), gated=False)
        return DenseMlp(text.integer(dense), gated=model_type not in _TIED_BY_DEFAULT or "gemma" in model_type)
    inner = "moe_intermediate_size" if text.has("moe_intermediate_size") else "intermediate_size"
    intermediate = text.integer(inner)
    given = [n for n in ("shared_expert_intermediate_size", "shared_intermediate_size") if text.has(n)]
    if given:
        shared = text.integer(given[0], least=0)
    else:
        # Llama 4 has one shared expert of the experts' size without saying so.
        implied = 1 if model_type.startswith("llama4") else 0
        shared = intermediate * text.integer("n_shared_experts", implied, least=0)
    top_k = "num_experts_per_tok" if text.has("num_experts_per_tok") else "experts_per_token"
    mlp = MoeMlp(text.integer(experts), text.integer(top_k), intermediate, shared)
    if mlp.top_k > mlp.experts:
        raise text.error("a token cannot visit more experts than there are", top_k, found=mlp.top_k)
    return mlp


def _is_moe_layer(text: Fields, index: int) -> bool:
    if index < text.integer("first_k_dense_replace", 0, least=0) or index in text.entries("mlp_only_layers"):
        return False
    if isinstance(text.take("moe_layer_freq", None), list):
        switches = text.entries("moe_layer_freq")
        return index < len(switches) and bool(switches[index])
    if text.has("moe_layer_freq"):
        return index % text.integer("moe_layer_freq") == 0
    every = "interleave_moe_layer_step" if text.has("interleave_moe_layer_step") else "decoder_sparse_step"
    return (index + 1) % (text.integer(every, 1, least=0) or 1) == 0


def _quantisation(fields: Fields, config: object) -> tuple[str, tuple[str, ...]]:
    """Precision of the quantised weights, and the parts that have it."""
    quant = Fields(config, fields.file, "quantization_config")
    method = quant.text("quant_method")
    excluded = quant.entries("modules_to_not_convert") or quant.entries("ignore") or quant.entries("exclude_modules")
    if method == "mxfp4":
        return "mxfp4", ("experts",)
    if method == "fp8":
        return "fp8", _quantised(excluded)
    if method == "compressed-tensors":
        groups = quant.inner("config_groups")
        if not groups.names():
            raise groups.error("at least one group of weights is expected")
        weights = groups.inner(groups.names()[0]).inner("weights")
        found = (weights.text("type"), weights.integer("num_bits"))
        name = {("float", 8): "fp8", ("int", 8): "int8", ("int", 4): "int4", ("float", 4): "nvfp4"}.get(found)
        if name is None:
            raise quant.error("this quantisation is not modelled", "config_groups", found=found)
        return name, _quantised(excluded)
    if method in ("awq", "gptq") and quant.take("bits", quant.take("w_bit", 4)) == 4:
        return "int4", _quantised(excluded)
    if method.startswith("modelopt"):
        algorithm = quant.text("quant_algo")
        if algorithm.upper() in _MODELOPT:
            return _MODELOPT[algorithm.upper()], _quantised(excluded)
        raise quant.error("this quantisation is not modelled", "quant_algo", found=algorithm, allowed=list(_MODELOPT))
    raise quant.error(
        "this quantisation is not modelled", "quant_method", found=method,
        allowed="fp8, mxfp4, compressed-tensors, modelopt, awq, gptq (4 bit)",
    )  # fmt: skip


def _quantised(excluded: list[Any]) -> tuple[str, ...]:
    """The parts that an exclusion list leaves quantised.

    The list names modules (``model.layers.0.self_attn.q_proj``) or patterns (``re:.*self_attn.*``); a part
    counts as excluded when a module of the language model that belongs to it is.
    """
    left = set(QUANTISABLE)
    for entry in excluded:
        module = re.sub(r"\\", "", str(entry).removeprefix("re:")).lower()
        if any(word in module for word in ("vision", "visual", "layernorm", "projector")):
            continue
        last = module.rstrip(".*$").rsplit(".", 1)[-1]
        if last in ("gate", "router", "lm_head", "embed_tokens", "e_score_correction_bias"):
            continue
        for part, words in _MODULES.items():
            if any(word in re.split(r"[.*]+", module) for word in words):
                left.discard(part)
                break
    return tuple(part for part in QUANTISABLE if part in left)
