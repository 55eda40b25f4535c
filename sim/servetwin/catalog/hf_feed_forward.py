"""The feed-forward block of a layer, as Hugging Face configurations describe it: dense, or a mixture of experts.

The defaults that the ``transformers`` classes fill in silently are named here.
"""

from __future__ import annotations

from servetwin.catalog.fields import Fields
from servetwin.specs import DenseMlp, MoeMlp

#: Model types whose feed-forward block has two matrices instead of three.
_NOT_GATED = (
    "opt", "gpt2", "gpt_neox", "gpt_bigcode", "bloom", "falcon", "phi", "starcoder2", "nemotron", "nemotron_h",
)  # fmt: skip

#: Of these, the types whose inner width is four times the outer one unless they say otherwise.
_FOUR_TIMES = ("gpt2", "bloom", "falcon", "gpt_bigcode")

_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")


def check_experts(text: Fields, model_type: str) -> None:
    """Refuse a type that is a mixture of experts and does not say of how many: it would be priced as dense."""
    if "moe" in model_type and not any(text.has(name) for name in _EXPERTS):
        raise text.error(
            f"the model type {model_type!r} is a mixture of experts, and the number of its experts is missing",
            _EXPERTS[0], allowed=f"one of {', '.join(_EXPERTS)}",
        )  # fmt: skip


def feed_forward(text: Fields, model_type: str, index: int, hidden: int) -> DenseMlp | MoeMlp:
    """The feed-forward block of layer ``index``.

    Raises:
        CatalogError: where a field is missing or wrong.
    """
    count = next((name for name in _EXPERTS if text.has(name)), None)
    # One expert is a dense block under another name (Jamba).
    if count is None or text.integer(count, least=0) <= 1 or not _is_moe_layer(text, index):
        return dense(text, model_type, hidden)
    return experts(text, model_type)


def dense(text: Fields, model_type: str, hidden: int) -> DenseMlp:
    """A dense block; its inner width is 0 where the layer has none."""
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


def experts(text: Fields, model_type: str) -> MoeMlp:
    """A mixture of experts, with those that every token visits."""
    number = next((name for name in _EXPERTS if text.has(name)), _EXPERTS[0])
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
    mlp = MoeMlp(text.integer(number), text.integer(top_k), intermediate, shared, gated)
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
