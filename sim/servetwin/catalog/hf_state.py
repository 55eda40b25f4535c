"""Layers with a state of constant size, as Hugging Face configurations describe them: linear attention, state spaces.

The shapes of the projections are those of the ``transformers`` classes. The engine keeps states in the precision of
the model unless the configuration or the kind asks for 32 bits, as vLLM's ``mamba_utils`` does.
"""

from __future__ import annotations

from servetwin.catalog.fields import Fields
from servetwin.specs import StateAttention

#: What marks a configuration with constant-state layers of a kind that some reader below must recognise.
STATE_KEYS = (
    "linear_num_value_heads", "linear_attn_config", "attn_type_list", "mamba_d_state", "ssm_state_size", "state_size",
)  # fmt: skip


def state_layer(text: Fields, model_type: str, index: int, hidden: int) -> StateAttention | None:
    """The state of layer ``index``, or None where that layer has attention.

    Raises:
        CatalogError: where the layer has a state of a kind that is not known.
    """
    kinds = text.entries("layer_types")
    kind = str(kinds[index]) if index < len(kinds) else ""
    if text.has("linear_num_value_heads"):
        interval = text.integer("full_attention_interval", 4)
        linear = kind == "linear_attention" if kinds else (index + 1) % interval != 0
        return _gated_delta(text) if linear else None
    if text.has("linear_attn_config"):
        config = text.inner("linear_attn_config")
        linear = index + 1 in config.entries("kda_layers") if config.has("kda_layers") else kind == "linear_attention"
        return _kimi_delta(config, 2 if text.take("mamba_ssm_dtype", None) == "bfloat16" else 4) if linear else None
    if model_type.startswith("minimax") and (text.has("attn_type_list") or kind == "linear_attention"):
        types = text.entries("attn_type_list")
        linear = kind == "linear_attention" if kinds else index < len(types) and types[index] == 0
        return _lightning(text, hidden) if linear else None
    if text.has("mamba_d_state") or text.has("ssm_state_size") or text.has("state_size"):
        return _state_space(text, hidden) if _is_state_space(text, kind, index) else None
    if kind in ("linear_attention", "mamba"):
        raise text.error(f"layers of kind {kind!r} are not known for this model", f"layer_types.{index}", found=kind)
    return None


def _value_bytes(text: Fields) -> int:
    return 4 if text.take("mamba_ssm_dtype", None) == "float32" else 2


def _gated_delta(text: Fields) -> StateAttention:
    """Gated DeltaNet: queries, keys, values and an output gate; two numbers per value head; a convolution."""
    values, keys = text.integer("linear_num_value_heads"), text.integer("linear_num_key_heads")
    key_dim, value_dim = text.integer("linear_key_head_dim"), text.integer("linear_value_head_dim")
    inner, key_width = values * value_dim, keys * key_dim
    return StateAttention(
        heads=values,
        inputs=2 * key_width + 2 * inner + 2 * values,
        inner=inner,
        state=values * key_dim * value_dim,
        value_bytes=_value_bytes(text),
        convolved=2 * key_width + inner,
        kernel=text.integer("linear_conv_kernel_dim", 4),
        extra=2 * values + value_dim,
    )


def _kimi_delta(config: Fields, value_bytes: int) -> StateAttention:
    """Kimi delta attention: as gated DeltaNet, with decays and gates of low rank, and a state in 32 bits."""
    heads, dim = config.integer("num_heads"), config.integer("head_dim")
    inner = heads * dim
    full_rank = config.flag("use_full_rank_gate")
    return StateAttention(
        heads=heads,
        inputs=3 * inner + heads + 2 * (inner if full_rank else dim),
        inner=inner,
        state=heads * dim * dim,
        value_bytes=value_bytes,
        convolved=3 * inner,
        kernel=config.integer("short_conv_kernel_size", 4),
        extra=(0 if full_rank else 2 * dim * inner) + heads + inner + dim,
    )


def _lightning(text: Fields, hidden: int) -> StateAttention:
    """Lightning attention of MiniMax-01: queries, keys, values and an output gate; no convolution."""
    heads = text.integer("num_attention_heads")
    dim = text.integer("head_dim", hidden // heads)
    inner = heads * dim
    return StateAttention(
        heads=heads, inputs=4 * inner, inner=inner, state=heads * dim * dim, value_bytes=_value_bytes(text), extra=inner
    )


def _is_state_space(text: Fields, kind: str, index: int) -> bool:
    if kind:
        return kind == "mamba"
    if text.has("attn_layer_indices"):
        return index not in text.entries("attn_layer_indices")
    if text.has("attn_layer_period"):
        offset = text.integer("attn_layer_offset", 0, least=0)
        return index % text.integer("attn_layer_period") != offset
    return True


def _state_space(text: Fields, hidden: int) -> StateAttention:
    """Mamba 2 where the configuration has heads, else Mamba 1."""
    size_key = next(key for key in ("mamba_d_state", "ssm_state_size", "state_size") if text.has(key))
    size = text.integer(size_key)
    kernel = text.integer("mamba_d_conv", 4)
    expand = text.integer("mamba_expand", 2)
    heads_key = next((key for key in ("mamba_n_heads", "mamba_num_heads") if text.has(key)), None)
    if heads_key is None and text.take("model_type", "") == "mamba2":
        heads_key = "num_attention_heads"
    if heads_key is None:
        inner = expand * hidden
        rank = text.take("mamba_dt_rank", "auto")
        rank = -(-hidden // 16) if rank == "auto" else rank
        extra = inner * (rank + 2 * size) + rank * inner + inner * size + 2 * inner
        return StateAttention(
            heads=inner, inputs=2 * inner, inner=inner, state=inner * size, value_bytes=_value_bytes(text),
            convolved=inner, kernel=kernel, extra=extra,
        )  # fmt: skip
    heads = text.integer(heads_key)
    given = text.take("mamba_d_head", "auto")
    if given == "auto":
        given = text.take("head_dim", None) if heads_key == "num_attention_heads" else None
    inner = heads * given if isinstance(given, int) else expand * hidden
    groups = text.integer("mamba_n_groups", 1)
    convolved = inner + 2 * groups * size
    return StateAttention(
        heads=heads, inputs=inner + convolved + heads, inner=inner, state=inner * size, value_bytes=_value_bytes(text),
        convolved=convolved, kernel=kernel, extra=3 * heads + inner,
    )  # fmt: skip
