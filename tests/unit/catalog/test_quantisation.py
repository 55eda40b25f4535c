"""What is quantised, and what stays in bf16, as configurations of all kinds say it."""

from __future__ import annotations

from typing import Any

import pytest

from servetwin.catalog import Catalog, hf_patterns
from servetwin.catalog.hf_modules import modules
from servetwin.errors import CatalogError
from servetwin.specs import ModelSpec

CATALOG = Catalog()
FP8 = {"type": "float", "num_bits": 8}
FP4 = {"type": "float", "num_bits": 4}
GROUPS = {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": FP8}}}


def read(quantisation: dict[str, Any], **changes: Any) -> ModelSpec:
    """A small mixture with a dense first layer and shared experts."""
    config = {
        "model_type": "deepseek_v3", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
        "kv_lora_rank": 32, "q_lora_rank": 64, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "intermediate_size": 512, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "vocab_size": 1_000, "max_position_embeddings": 2_048,
        "quantization_config": quantisation,
    }  # fmt: skip
    return CATALOG.model({**config, **changes})


ALL = ("attention", "dense", "experts", "shared")


@pytest.mark.parametrize(
    ("quantisation", "dtype", "parts"),
    [
        ({"quant_method": "fp8"}, "fp8", ALL),
        # A scale per block of 128 x 128 weights runs on kernels of its own.
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", ALL),
        ({"quant_method": "fp8", "weight_block_size": None}, "fp8", ALL),
        ({"quant_algo": "FP8_PB_WO"}, "fp8_block", ALL),
        (
            {"quant_method": "compressed-tensors", "config_groups": {
                "a": {"targets": ["Linear"], "weights": {**FP8, "strategy": "block"}},
            }},
            "fp8_block", ALL,
        ),
        # Indexers, gates and norms of an attention block are not the attention.
        (
            {"quant_method": "fp8", "modules_to_not_convert": [
                "model.layers.0.self_attn.indexer.weights_proj", "model.layers.1.mlp.gate",
                "model.layers.1.self_attn.q_a_layernorm", "model.layers.1.mlp.shared_expert_gate", "lm_head",
            ]},
            "fp8", ALL,
        ),
        (
            {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["self_attn"]},
            "fp8", ("dense", "experts", "shared"),
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head", "*.self_attn*"]},
            "nvfp4", ("dense", "experts", "shared"),
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": [
                "model.layers.*.self_attn", "*.mlp.shared_experts.*", "model.layers.0.mlp*",
            ]},
            "nvfp4", ("experts",),
        ),
        ({"quant_algo": "FP8", "exclude_modules": ["lm_head"]}, "fp8", ALL),
        (
            {"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"type": "int", "num_bits": 4}}}},
            "int4", ("dense", "experts"),
        ),
        # Two groups: the larger one is what the checkpoint is called.
        (
            {"quant_method": "compressed-tensors", "config_groups": {
                "a": {"targets": ["re:.*experts.*"], "weights": FP4},
                "b": {"targets": ["re:.*self_attn.*"], "weights": FP8},
            }},
            "nvfp4", ("experts", "shared"),
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
                f"model.layers.{layer}.mlp.experts": {"quant_algo": "NVFP4"} for layer in range(1, 4)
            }},
            "nvfp4", ("experts",),
        ),
        (
            {"quant_method": "quark", "exclude": ["lm_head", "re:.*self_attn.*"],
             "global_quant_config": {"weight": {"dtype": "fp4"}}},
            "mxfp4", ("dense", "experts", "shared"),
        ),
        ({"quant_method": "gptq", "bits": 8}, "int8", ALL),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", ALL),
    ],
)  # fmt: skip
def test_parts_and_precision(quantisation: dict[str, Any], dtype: str, parts: tuple[str, ...]) -> None:
    model = read(quantisation)
    assert (model.native_weights, model.quantised_parts) == (dtype, parts)


def test_fp8_means_the_fp8_of_the_checkpoint() -> None:
    blocks = read({"quant_method": "fp8", "weight_block_size": [128, 128], "ignore": ["re:.*self_attn.*"]})
    for asked in ("auto", "fp8", "fp8_block"):
        assert blocks.running(asked) == "fp8_block"
        assert (blocks.dtype_of("dense", asked), blocks.dtype_of("attention", asked)) == ("fp8_block", "bf16")
    assert read({"quant_method": "fp8"}).running("fp8") == "fp8"
    assert blocks.running("bf16") == "bf16"


def test_what_is_left_out_weighs_two_bytes() -> None:
    plain, without = read({"quant_method": "fp8"}), read({"quant_method": "fp8", "ignore": ["re:.*self_attn.*"]})
    assert without.weight_bytes() - plain.weight_bytes() == plain.parts()["attention"]


@pytest.mark.parametrize(
    ("quantisation", "kv_cache"),
    [
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": None}, "bf16"),
        ({**GROUPS, "kv_cache_scheme": FP8}, "fp8"),
        ({**GROUPS, "kv_cache_scheme": None}, "bf16"),
        ({"quant_method": "fp8"}, "bf16"),
    ],
)  # fmt: skip
def test_the_kv_cache_that_the_checkpoint_asks_for(quantisation: dict[str, Any], kv_cache: str) -> None:
    assert read(quantisation).native_kv_cache == kv_cache


def test_a_part_in_two_precisions_is_named() -> None:
    model = read({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]})
    assert "attention" in model.quantised_parts
    (note,) = model.notes
    assert "'attention' are 25% bf16, 75% fp8: all are priced as fp8" in note


def test_a_cache_in_a_precision_that_is_not_modelled_is_named() -> None:
    model = read({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"})
    assert model.native_kv_cache == "fp8"
    assert any("nvfp4" in note for note in model.notes)


@pytest.mark.parametrize(
    ("quantisation", "complaint"),
    [
        ({"quant_method": "aqlm"}, "not modelled"),
        ({"quant_method": "awq", "bits": 3}, "not modelled"),
        ({"quant_method": "modelopt", "quant_algo": "TERNARY"}, "not modelled"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "'quantized_layers' is missing"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp3"}}}, "not modelled"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"type": "int", "num_bits": 2}}}},
            "not modelled",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(quantisation: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint) as caught:
        read(quantisation)
    assert caught.value.path is not None
    assert caught.value.path.startswith("quantization_config")


def test_a_broken_pattern_means_itself() -> None:
    assert read({"quant_method": "fp8", "ignore": ["re:*self_attn(", "*[", "re:.*self_attn.*"]}).quantised_parts == (
        "dense", "experts", "shared",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(([a-z_.0-9])+.)+\d+#", "repeats a group"),
        (r"(?:.*)*#", "repeats a group"),
        (r"(a|a)+#", "repeats a group"),
        (r"(.+?){20}#", "repeats a group"),
        (".*.*.*.*.*#", "5 repeated wildcards"),
        (".?" * 40 + "#", "40 repeated wildcards"),
        ("a?" * 40 + "#", "40 repetitions"),
        ("(.|.)" * 40 + "#", "40 groups of alternatives"),
        ("(?x)(.+) +#", "it is verbose"),
        ("a" * 401, "401 characters"),
    ],
)
@pytest.mark.parametrize("place", ["ignore", "targets", "quantized_layers"])
def test_a_pattern_that_could_take_for_ever_is_refused(pattern: str, why: str, place: str) -> None:
    text = f"re:{pattern}"
    quantisation: dict[str, Any] = {
        "ignore": {"quant_method": "fp8", "ignore": [text]},
        "targets": {**GROUPS, "config_groups": {"a": {"weights": FP8, "targets": [text]}}},
        "quantized_layers": {
            "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {text: {"quant_algo": "FP8"}},
        },
    }[place]  # fmt: skip
    with pytest.raises(CatalogError, match="could take too long") as caught:
        read(quantisation)
    assert why in str(caught.value) and str(caught.value.path).endswith(place)


def test_patterns_that_turn_out_slow_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_patterns, "_LONGEST_S", 0.05)
    with pytest.raises(CatalogError, match="took longer to look up") as caught:
        read({"quant_method": "fp8", "ignore": ["re:.*.*.*.*#"]})
    assert str(caught.value.path).endswith("ignore")


@pytest.mark.parametrize(
    "pattern",
    [
        ".*self_attn.*", r"^model\.layers\.(?:0|1|2|3)\.self_attn\..*$", r".*\.self_attn\.[*+?(|]?.*",
        r".*?self_attn(\.\w+)?",
        r"model\.layers\.\d{1,2}\.self_attn\.(q|kv)_(a|b)_proj.*|.*self_attn.*", r".*self_attn[]*)+]*.*",
    ],
)  # fmt: skip
def test_common_patterns_are_read(pattern: str) -> None:
    parts = read({"quant_method": "fp8", "ignore": [f"re:{pattern}"]}).quantised_parts
    if ".*self_attn" in pattern or r"(?:0" in pattern:
        assert parts == ("dense", "experts", "shared")


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-v2-lite", "qwen3-8b", "qwen3-30b-a3b", "opt-13b"])
def test_matrices_count_with_their_weights(name: str) -> None:
    model = CATALOG.model(name)
    first = [layer for group in model.layers for layer in [group] * group.count]
    sizes: dict[str, float] = {}
    for module in modules(first, model.hidden):
        sizes[module.part] = sizes.get(module.part, 0.0) + module.weights * model.hidden
    counted = {part: weights for part, weights in model.parts().items() if part in sizes}
    assert sizes == pytest.approx(counted)


def test_matrices_of_latent_attention() -> None:
    model = CATALOG.model("deepseek-v3")
    found = {module.paths[0].split(".")[1]: module.weights * model.hidden for module in modules(model.layers[:1], 7168)}
    assert found["q_b_proj"] == 1_536 * 128 * 192
    assert found["kv_b_proj"] == 512 * 128 * 256
    assert found["q_a_proj"] == 7_168 * (1_536 + 512 + 64)
    assert found["o_proj"] == 128 * 128 * 7_168
