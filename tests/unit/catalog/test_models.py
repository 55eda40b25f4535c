"""Shapes of models, ours and Hugging Face's, against what publishers say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.errors import CatalogError
from servetwin.specs import GroupedAttention, LatentAttention, MoeMlp

CATALOG = Catalog()
SHARED = Path(__file__).resolve().parents[4] / "shared" / "models"

PUBLISHED = {  # parameters and active parameters in billions, from the model cards
    "llama-2-7b": (6.74, 6.74), "llama-2-13b": (13.0, 13.0), "llama-2-70b": (69.0, 69.0),
    "llama-3.1-8b": (8.03, 8.03), "llama-3.1-70b": (70.6, 70.6), "llama-3.1-405b": (405.9, 405.9),
    "qwen3-0.6b": (0.60, 0.60), "qwen3-8b": (8.2, 8.2), "qwen3-14b": (14.8, 14.8), "qwen3-32b": (32.8, 32.8),
    "qwen3-30b-a3b": (30.5, 3.3), "qwen3-235b-a22b": (235, 22), "mixtral-8x7b": (46.7, 12.9),
    "deepseek-r1": (671, 37), "deepseek-v3": (671, 37), "gpt-oss-120b": (116.8, 5.1), "gpt-oss-20b": (20.9, 3.6),
    "codellama-34b": (33.7, 33.7), "yi-34b": (34.4, 34.4), "mistral-nemo-12b": (12.2, 12.2),
    "qwen2.5-7b": (7.6, 7.6), "llama-4-scout": (109, 17),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_parameters_match_the_model_card(name: str) -> None:
    model = CATALOG.model(name)
    total, active = PUBLISHED[name]
    assert model.parameters() / 1e9 == pytest.approx(total, rel=0.015)
    # Cards count the embedding among the active parameters; here it is looked up, not multiplied.
    assert model.active_parameters() / 1e9 == pytest.approx(active, rel=0.12)
    assert model.active_parameters() <= model.parameters()


@pytest.mark.parametrize(
    ("name", "kv_bytes"),
    [
        ("llama-3.1-8b", 131_072), ("llama-3.1-70b", 327_680), ("llama-2-7b", 524_288), ("deepseek-r1", 70_272),
        ("gpt-oss-120b", 36_864), ("llama-4-scout", 196_608), ("mixtral-8x7b", 131_072),
    ],
)  # fmt: skip
def test_kv_cache_per_token(name: str, kv_bytes: int) -> None:
    """Sliding windows hold a constant amount, so gpt-oss counts half of its layers; latent vectors have 576 values."""
    assert CATALOG.model(name).kv_bytes_per_token() == kv_bytes


def test_kv_heads_are_repeated_beyond_their_number_and_latents_always() -> None:
    model = CATALOG.model("qwen3-235b-a22b")
    assert model.kv_bytes_per_token("bf16", 4) == model.kv_bytes_per_token() / 4
    assert model.kv_bytes_per_token("bf16", 8) == model.kv_bytes_per_token("bf16", 4)
    assert CATALOG.model("deepseek-r1").kv_bytes_per_token("bf16", 8) == 70_272


@pytest.mark.parametrize(
    ("name", "weights", "gigabytes"),
    [
        ("llama-3.1-8b", "auto", 16.06), ("llama-3.1-70b", "bf16", 141.1), ("llama-3.1-70b", "fp8", 72.7),
        ("deepseek-r1", "auto", 673), ("deepseek-r1", "bf16", 1342), ("gpt-oss-120b", "auto", 65.2),
        ("gpt-oss-20b", "auto", 13.7), ("qwen3-235b-a22b-fp8", "auto", 236), ("llama-4-scout-fp8", "auto", 113),
    ],
)  # fmt: skip
def test_size_of_the_weights(name: str, weights: str, gigabytes: float) -> None:
    assert CATALOG.model(name).weight_bytes(weights) / 1e9 == pytest.approx(gigabytes, rel=0.005)


def test_ranks_share_the_weights_out() -> None:
    model = CATALOG.model("llama-3.1-70b")
    assert model.weight_bytes("bf16", 8) == pytest.approx(model.weight_bytes() / 8, rel=1e-3)
    assert model.weight_bytes("bf16", 16) > 1.005 * model.weight_bytes() / 16, "KV projections are repeated"


def test_a_step_reads_neither_the_embedding_nor_every_expert() -> None:
    dense = CATALOG.model("llama-3.1-8b")
    assert dense.weight_bytes() - dense.step_weight_bytes() == 2 * 128_256 * 4_096
    mixture = CATALOG.model("mixtral-8x7b")
    assert mixture.step_weight_bytes() == pytest.approx(2 * mixture.active_parameters(), rel=1e-3)


def test_arithmetic_per_token_grows_with_the_context_up_to_the_window() -> None:
    model = CATALOG.model("gpt-oss-120b")
    base, short, long = (model.flops_per_token(context) for context in (0, 128, 1_128))
    assert base == 2 * model.active_parameters()
    assert short - base == 36 * 128 * 4 * 64 * 64
    assert long - short == 18 * 1_000 * 4 * 64 * 64


def config(**changes: Any) -> dict[str, Any]:
    base = {
        "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1_000, "max_position_embeddings": 2_048,
    }  # fmt: skip
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


def test_a_small_configuration() -> None:
    model = CATALOG.model(config())
    assert model.parameters() == 2 * 256_000 + 4 * (2 * 256 * 256 + 2 * 256 * 64 + 3 * 256 * 512) + 9 * 256
    assert model.max_position == 2_048
    assert not model.tied_embeddings


def test_windows_of_configurations() -> None:
    assert CATALOG.model(config(sliding_window=4_096, model_type="mistral")).windows == (4_096,)
    assert CATALOG.model(config(sliding_window=4_096, use_sliding_window=False)).windows == ()
    layered = config(layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=128)
    assert CATALOG.model(layered).windows == (128,)
    assert [layer.count for layer in CATALOG.model(layered).layers] == [2, 2]
    upper = CATALOG.model(config(model_type="qwen2", sliding_window=64, use_sliding_window=True, max_window_layers=3))
    assert sorted((layer.attention.window or 0, layer.count) for layer in upper.layers) == [(0, 3), (64, 1)]
    chunked = CATALOG.model(config(attention_chunk_size=8_192, model_type="llama4_text"))
    assert sorted((layer.attention.window or 0, layer.count) for layer in chunked.layers) == [(0, 1), (8_192, 3)]


def test_mixtures_of_configurations() -> None:
    sparse = CATALOG.model(
        config(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64, decoder_sparse_step=2)
    )
    assert sorted((isinstance(layer.mlp, MoeMlp), layer.count) for layer in sparse.layers) == [(False, 2), (True, 2)]
    first = CATALOG.model(
        config(
            n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=64, n_shared_experts=2,
            first_k_dense_replace=1, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        )
    )  # fmt: skip
    assert sorted((isinstance(layer.mlp, MoeMlp), layer.count) for layer in first.layers) == [(False, 1), (True, 3)]
    assert next(layer.mlp for layer in first.layers if isinstance(layer.mlp, MoeMlp)).shared_intermediate == 128
    assert all(isinstance(layer.attention, LatentAttention) for layer in first.layers)
    assert first.layers[0].attention.q_rank is None


@pytest.mark.parametrize(
    ("quantisation", "dtype", "parts"),
    [
        ({"quant_method": "fp8"}, "fp8", {"attention", "dense", "experts", "shared"}),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate"]},
            "fp8", {"attention", "dense", "experts", "shared"},
        ),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, "mxfp4", {"experts"}),
        (
            {
                "quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*self_attn.*"],
                "config_groups": {"group_0": {"weights": {"type": "int", "num_bits": 4}}},
            },
            "int4", {"dense", "experts", "shared"},
        ),
        ({"quant_method": "awq", "bits": 4}, "int4", {"attention", "dense", "experts", "shared"}),
    ],
)  # fmt: skip
def test_quantised_parts_of_configurations(quantisation: dict[str, Any], dtype: str, parts: set[str]) -> None:
    model = CATALOG.model(config(quantization_config=quantisation))
    assert (model.native_weights, set(model.quantised_parts)) == (dtype, parts)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"hidden_size": ...}, "'hidden_size' is missing"),
        ({"num_hidden_layers": 0}, "whole number"),
        ({"num_attention_heads": 7}, "do not divide"),
        ({"num_key_value_heads": 3}, "multiple of the KV heads"),
        ({"vocab_size": "many"}, "whole number"),
        ({"linear_num_value_heads": 4}, "'linear_num_key_heads' is missing"),
        ({"index_topk": 4}, "latent attention only"),
        ({"linear_attn_config": {"kda_layers": [], "num_heads": 2, "head_dim": 8}}, "constant-state layers of a kind"),
        ({"attn_type_list": [0, 1, 0, 1]}, "constant-state layers of a kind"),
        ({"layer_types": ["linear_attention"] * 4}, "not known for this model"),
        ({"layer_types": ["dilated_attention"] * 4}, "'dilated_attention' is not modelled"),
        ({"is_encoder_decoder": True}, "has an encoder"),
        ({"model_type": "bert"}, "no decoder of text"),
        ({"num_kv_shared_layers": 2}, "share the KV cache of other layers"),
        ({"hc_mult": 4}, "several residual streams"),
        ({"model_type": "opt", "word_embed_proj_dim": 128}, "another width"),
        ({"hybrid_override_pattern": "-M*", "ssm_state_size": 8, "mamba_num_heads": 4}, "this order of layers"),
        ({"num_experts": 4, "num_experts_per_tok": 8}, "more experts than there are"),
        ({"quantization_config": {"quant_method": "magic"}}, "not modelled"),
        ({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}}}, "at least one group"),
        ({"quantization_config": {"quant_method": "fp8", "ignore": 1}}, "a list is expected"),
        ({"layer_types": "full_attention"}, "a list is expected"),
        ({"num_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": "one"}, "whole number"),
        ({"num_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": "two"}, "whole number"),
        ({"num_hidden_layers": 10**8}, "no model has so many layers"),
        ({"hybrid_override_pattern": "M-" * 501}, "no model has so many layers"),
        ({"model_type": "ernie4_5_moe"}, "number of its experts is missing"),
        ({"moe_frobnication": 2}, "about experts that is not known(.|\\n)*moe_frobnication"),
        ({"nExperts": 8}, "about experts that is not known(.|\\n)*nExperts"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "moe_layer_frequency": 2}, "moe_layer_frequency"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "use_residual": True}, "a dense block beside the experts"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "model_type": "arctic"}, "dense block beside the experts"),
    ],
)
def test_wrong_configurations_say_what_is_wrong(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint):
        CATALOG.model(config(**changes))


@pytest.mark.parametrize("value", [None, False, 0, []])
def test_keys_of_experts_that_are_switched_off_are_no_matter(value: Any) -> None:
    assert CATALOG.model(config(moe_frobnication=value)).notes == ()


def test_the_mixture_of_ernie() -> None:
    """ERNIE-4.5-21B-A3B as its configuration class has it: 21.8 billion parameters without further-token layers."""
    ernie = {
        "model_type": "ernie4_5_moe", "hidden_size": 2_560, "intermediate_size": 12_288, "num_hidden_layers": 28,
        "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 103_424,
        "moe_num_experts": 64, "moe_k": 6, "moe_num_shared_experts": 2, "moe_intermediate_size": 1_536,
        "moe_layer_start_index": 1, "moe_layer_end_index": 27, "moe_layer_interval": 1, "moe_norm_min": 1e-12,
        "moe_capacity": [64, 64, 64], "moe_gate": "topk", "moe_use_aux_free": True,
    }  # fmt: skip
    model = CATALOG.model(config(**ernie))
    assert model.notes == () and model.tied_embeddings
    found = {layer.count: layer.mlp for layer in model.layers}
    assert found[27] == MoeMlp(64, 6, 1_536, 3_072, True)
    assert not isinstance(found[1], MoeMlp) and found[1].intermediate == 12_288
    assert model.parameters() / 1e9 == pytest.approx(21.8, rel=0.015)
    every = CATALOG.model(config(**{**ernie, "moe_layer_interval": 2, "moe_layer_end_index": 9}))
    assert {layer.count for layer in every.layers if isinstance(layer.mlp, MoeMlp)} == {5}
    open_end = CATALOG.model(config(**{**ernie, "moe_layer_end_index": -1, "moe_layer_start_index": 20}))
    assert {layer.count for layer in open_end.layers if isinstance(layer.mlp, MoeMlp)} == {8}


@pytest.mark.parametrize("key", ["n_positions", "max_seq_len", "seq_length", "model_max_length", "max_sequence_length"])
def test_other_names_of_the_longest_sequence(key: str) -> None:
    model = CATALOG.model(config(max_position_embeddings=..., **{key: 4_096}))
    assert model.max_position == 4_096 and model.notes == ()


def test_a_longest_sequence_that_is_missing_is_noted() -> None:
    model = CATALOG.model(config(max_position_embeddings=...))
    assert model.max_position == 2_048
    assert any("no max_position_embeddings: 2,048 tokens" in note for note in model.notes)


@pytest.mark.parametrize(
    ("model_type", "head_dim"),
    [("qwen3", 128), ("gemma", 256), ("gemma2", 256), ("gemma3_text", 256), ("llama", 32), ("qwen3_moe", 32)],
)
def test_the_size_of_a_head_that_is_not_given(model_type: str, head_dim: int) -> None:
    experts = {"num_experts": 4, "num_experts_per_tok": 2} if "moe" in model_type else {}
    (layer,) = CATALOG.model(config(model_type=model_type, **experts)).layers
    assert isinstance(layer.attention, GroupedAttention) and layer.attention.head_dim == head_dim


TIED = (
    "opt", "gpt2", "gpt_bigcode", "gemma", "gemma2", "gemma3", "gemma3_text", "bloom", "falcon", "cohere", "cohere2",
    "ernie4_5", "smollm3", "starcoder2",
)  # fmt: skip


@pytest.mark.parametrize("model_type", [*TIED, "llama", "qwen2", "qwen3", "gpt_neox", "phi", "phi3", "mistral", "olmo"])
def test_tied_embeddings_are_the_default_of_the_class(model_type: str) -> None:
    assert CATALOG.model(config(model_type=model_type)).tied_embeddings == (model_type in TIED)
    for stated in (True, False):
        model = CATALOG.model(config(model_type=model_type, tie_word_embeddings=stated))
        assert model.tied_embeddings == stated


def test_starcoder2_by_its_class() -> None:
    """StarCoder2-7B: 7.17 billion parameters on its page, with one matrix for the embedding and the output."""
    model = CATALOG.model(
        {
            "model_type": "starcoder2", "hidden_size": 4_608, "intermediate_size": 18_432, "num_hidden_layers": 32,
            "num_attention_heads": 36, "num_key_value_heads": 4, "vocab_size": 49_152,
            "max_position_embeddings": 16_384,
        }
    )  # fmt: skip
    assert model.tied_embeddings
    assert model.parameters() / 1e9 == pytest.approx(7.17, rel=0.005)


@pytest.mark.parametrize(("model_type", "heads"), [("falcon", 1), ("gpt_bigcode", 1), ("llama", 8)])
def test_one_key_value_head_is_the_default_of_the_class(model_type: str, heads: int) -> None:
    (layer,) = CATALOG.model(config(model_type=model_type, num_key_value_heads=...)).layers
    assert isinstance(layer.attention, GroupedAttention) and layer.attention.kv_heads == heads


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3", "qwen2_5_vl_text"])
def test_windows_of_qwen_are_off_unless_switched_on(model_type: str) -> None:
    given: dict[str, Any] = {"model_type": model_type, "sliding_window": 64, "max_window_layers": 0}
    assert CATALOG.model(config(**given)).windows == ()
    assert CATALOG.model(config(**given, layer_types=["sliding_attention"] * 4)).windows == ()
    assert CATALOG.model(config(**given, use_sliding_window=True)).windows == (64,)


def test_windows_of_qwen2_start_at_layer_28_unless_it_says_otherwise() -> None:
    given = config(model_type="qwen2", sliding_window=64, use_sliding_window=True, num_hidden_layers=30)
    found = sorted((layer.attention.window or 0, layer.count) for layer in CATALOG.model(given).layers)
    assert found == [(0, 28), (64, 2)]


@pytest.mark.parametrize(
    ("name", "word"),
    [("Llama-8B-FP8", "FP8"), ("llama-nvfp4", "nvfp4"), ("x-AWQ", "AWQ"), ("llama.w4a16", "w4a16"), ("fp800-x", None)],
)
def test_a_name_that_says_more_than_the_configuration(name: str, word: str | None) -> None:
    notes = CATALOG.model(config(_name_or_path=f"someone/{name}")).notes
    assert (notes == ()) if word is None else (f"the name says {word}," in notes[0])
    quantised = config(_name_or_path=f"someone/{name}", quantization_config={"quant_method": "fp8"})
    assert CATALOG.model(quantised).notes == ()


PROFILE: dict[str, Any] = {
    "name": "tiny", "hidden": 64, "vocab": 100, "max_position": 128, "tied_embeddings": True,
    "layers": [{
        "count": 2, "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16}, "mlp": {"intermediate": 128},
    }],
}  # fmt: skip


def test_an_inline_profile() -> None:
    model = CATALOG.model(PROFILE)
    assert (model.name, model.num_layers, model.native_weights) == ("tiny", 2, "bf16")
    assert model.layers[0].attention == GroupedAttention(4, 2, 16)


@pytest.mark.parametrize(
    ("where", "value", "path", "nearest"),
    [
        (("hiden",), 64, "model.hiden", "hidden"),
        (("layers", 0, "attention", "head"), 4, "model.layers.0.attention.head", "heads"),
        (("layers", 0, "mlp", "kind"), "mo", "model.layers.0.mlp.kind", "moe"),
        (("layers", 0, "count"), 0, "model.layers.0.count", None),
        (("layers", 0, "attention", "kv_heads"), 3, "model.layers.0.attention.kv_heads", None),
        (("weights",), {"dtype": "fp9"}, "model.weights.dtype", "fp8"),
        (("weights",), {"dtype": "fp8", "quantised": ["norms"]}, "model.weights.quantised", None),
        (("layers",), [], "model.layers", None),
        (("tied_embeddings",), "yes", "model.tied_embeddings", None),
    ],
)
def test_wrong_profiles_say_where(where: tuple[Any, ...], value: Any, path: str, nearest: str | None) -> None:
    data = json.loads(json.dumps(PROFILE))
    inner = data
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    with pytest.raises(CatalogError) as caught:
        CATALOG.model(data)
    assert caught.value.path == path
    if nearest is not None:
        assert caught.value.nearest == nearest


def test_our_profiles_agree_with_the_published_configurations() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the published configurations are not here: {SHARED}")
    pairs = {
        "llama-2-7b-hf": "llama-2-7b", "llama-2-70b-hf": "llama-2-70b", "yi-34b": "yi-34b", "qwen3-14b": "qwen3-14b",
        "meta-llama--Meta-Llama-3.1-8B": "llama-3.1-8b", "meta-llama--Meta-Llama-3.1-405B": "llama-3.1-405b",
        "mistralai--Mixtral-8x7B-v0.1": "mixtral-8x7b", "deepseek-ai--DeepSeek-R1": "deepseek-r1",
        "openai--gpt-oss-120b": "gpt-oss-120b", "Qwen--Qwen3-235B-A22B-FP8": "qwen3-235b-a22b-fp8",
        "llama-4-scout-17b-16e-instruct-fp8-dynamic": "llama-4-scout-fp8",
    }  # fmt: skip
    for published, ours in pairs.items():
        theirs, model = CATALOG.model(str(SHARED / f"{published}.json")), CATALOG.model(ours)
        assert (theirs.layers, theirs.hidden, theirs.vocab) == (model.layers, model.hidden, model.vocab), ours
        assert theirs.quantised_parts == model.quantised_parts, ours
        assert theirs.tied_embeddings == model.tied_embeddings, ours


@pytest.mark.parametrize(("algorithm", "weights"), [("FP8", "fp8"), ("NVFP4", "nvfp4"), (None, "bf16")])
def test_the_quantisation_of_modelopt_stands_beside_the_configuration(
    tmp_path: Path, algorithm: str | None, weights: str
) -> None:
    config = Path(__file__).parents[1] / "scenario" / "tiny_config.json"
    (tmp_path / "config.json").write_text(config.read_text())
    quantisation = {"quant_algo": algorithm, "exclude_modules": ["lm_head", "*.self_attn*"]}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": quantisation}))
    for reference in (tmp_path, tmp_path / "config.json"):
        model = CATALOG.model(CATALOG.model_reference(str(reference)))
        assert model.native_weights == weights
        assert ("attention" in model.quantised_parts, "dense" in model.quantised_parts) == (
            False,
            algorithm is not None,
        )


def test_an_unknown_quantisation_of_modelopt_is_refused(tmp_path: Path) -> None:
    config = Path(__file__).parents[1] / "scenario" / "tiny_config.json"
    (tmp_path / "config.json").write_text(config.read_text())
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "TERNARY"}}')
    with pytest.raises(CatalogError, match="not modelled"):
        CATALOG.model(str(tmp_path))
