"""Constant-state and sparse layers of configurations: which layers they are, and what a request holds."""

from __future__ import annotations

from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.specs import GroupedAttention, LatentAttention, ModelSpec, MoeMlp, StateAttention

CATALOG = Catalog()


def read(**changes: Any) -> ModelSpec:
    base = {
        "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 32,
        "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1_000, "max_position_embeddings": 2_048,
    }  # fmt: skip
    return CATALOG.model({key: value for key, value in {**base, **changes}.items() if value is not ...})


def states(model: ModelSpec) -> list[tuple[int, StateAttention]]:
    return [(layer.count, layer.attention) for layer in model.layers if isinstance(layer.attention, StateAttention)]


DELTA = {
    "model_type": "qwen3_next", "linear_num_value_heads": 8, "linear_num_key_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "full_attention_interval": 2,
}  # fmt: skip


def test_gated_delta_net() -> None:
    model = read(**DELTA)
    ((count, state),) = states(model)
    assert count == 2
    # 2 · 4 · 16 queries and keys, 8 · 32 values, as much again for the gate, and two numbers per value head.
    assert (state.heads, state.inputs, state.inner) == (8, 128 + 256 + 256 + 16, 256)
    assert (state.state, state.value_bytes, state.convolved) == (8 * 16 * 32, 2, 128 + 256)
    assert state.state_bytes(1) == 2 * 4_096 + 2 * 384 * 3
    assert state.state_bytes(4) == state.state_bytes(1) / 4
    attention = next(layer.attention for layer in model.layers if isinstance(layer.attention, GroupedAttention))
    assert attention.gated, "the full layers of this family have a gate without saying so"
    assert states(read(**DELTA, mamba_ssm_dtype="float32"))[0][1].value_bytes == 4


def test_layer_types_win_over_the_interval() -> None:
    model = read(**DELTA, layer_types=["linear_attention"] * 3 + ["full_attention"])
    assert [count for count, _ in states(model)] == [3]


def test_kimi_delta_attention() -> None:
    model = read(
        model_type="kimi_linear", kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        linear_attn_config={
            "kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 4, "head_dim": 16,
            "short_conv_kernel_size": 4,
        },
    )  # fmt: skip
    ((count, state),) = states(model)
    assert (count, state.state, state.value_bytes) == (3, 4 * 16 * 16, 4)
    assert isinstance(model.layers[1].attention, LatentAttention)


def test_kimi_linear_as_published() -> None:
    """Kimi-Linear-48B-A3B: 48 billion weights, 3 billion active (arXiv 2510.26692); shapes from memory."""
    model = CATALOG.model({
        "model_type": "kimi_linear", "hidden_size": 2_304, "num_hidden_layers": 27, "num_attention_heads": 32,
        "num_key_value_heads": 32, "head_dim": 72, "vocab_size": 163_840, "max_position_embeddings": 1_048_576,
        "intermediate_size": 9_216, "moe_intermediate_size": 1_024, "num_experts": 256, "num_experts_per_token": 8,
        "num_shared_experts": 1, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": None,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "tie_word_embeddings": False,
        "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "num_heads": 32, "head_dim": 128,
            "kda_layers": [i for i in range(1, 27) if i % 4], "short_conv_kernel_size": 4,
        },
    })  # fmt: skip
    assert model.parameters() / 1e9 == pytest.approx(48, rel=0.03)
    assert (model.active_parameters() + model.vocab * model.hidden) / 1e9 == pytest.approx(3.3, rel=0.1)
    assert sum(count for count, _ in states(model)) == 20


def test_lightning_attention() -> None:
    model = read(model_type="minimax_text_01", attn_type_list=[0, 0, 0, 1])
    ((count, state),) = states(model)
    assert (count, state.state, state.inputs, state.convolved) == (3, 8 * 32 * 32, 4 * 256, 0)
    named = read(model_type="minimax", layer_types=["linear_attention", "full_attention"] * 2)
    assert [count for count, _ in states(named)] == [2]


MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 64, "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_d_conv": 4}


def test_mamba_2_beside_attention() -> None:
    model = read(model_type="bamba", attn_layer_indices=[2], **MAMBA2)
    ((count, state),) = states(model)
    assert (count, state.inner, state.state) == (3, 512, 512 * 16)
    assert state.inputs == 512 + (512 + 2 * 16) + 8
    named = read(model_type="granitemoehybrid", num_local_experts=0, layer_types=["mamba", "attention"] * 2, **MAMBA2)
    assert [count for count, _ in states(named)] == [2]


def test_mamba_1_beside_attention_and_experts() -> None:
    model = read(
        model_type="jamba", mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=16, attn_layer_period=4,
        attn_layer_offset=2, expert_layer_period=2, expert_layer_offset=1, num_experts=4, num_experts_per_tok=2,
    )  # fmt: skip
    kinds = sorted(
        (isinstance(layer.attention, StateAttention), isinstance(layer.mlp, MoeMlp), layer.count)
        for layer in model.layers
    )
    assert kinds == [(False, False, 1), (True, False, 1), (True, True, 2)]
    assert states(model)[0][1].state == 512 * 16


def test_layers_of_letters() -> None:
    model = read(
        model_type="nemotron_h", hybrid_override_pattern="M-M*-ME", mamba_num_heads=8, mamba_head_dim=64,
        ssm_state_size=16, n_groups=1, conv_kernel=4, n_routed_experts=8, num_experts_per_tok=2,
        moe_intermediate_size=64, moe_shared_expert_intermediate_size=128,
    )  # fmt: skip
    blocks = [
        (type(layer.attention).__name__, type(layer.mlp).__name__, getattr(layer.mlp, "intermediate", 0))
        for layer in model.layers
    ]
    assert blocks == [
        ("StateAttention", "DenseMlp", 512), ("StateAttention", "DenseMlp", 0), ("GroupedAttention", "DenseMlp", 512),
        ("StateAttention", "MoeMlp", 64),
    ]  # fmt: skip
    assert all(not layer.mlp.gated for layer in model.layers), "this family squares a ReLU instead of gating"


def test_states_without_attention() -> None:
    """Falcon-Mamba-7B: 64 layers of Mamba 1 and nothing else, 7.27 billion weights (arXiv 2410.05355)."""
    model = CATALOG.model({
        "model_type": "falcon_mamba", "hidden_size": 4_096, "num_hidden_layers": 64, "vocab_size": 65_024,
        "state_size": 16, "conv_kernel": 4, "expand": 2, "time_step_rank": 256, "intermediate_size": 8_192,
        "tie_word_embeddings": False,
    })  # fmt: skip
    assert model.parameters() / 1e9 == pytest.approx(7.27, rel=0.01)
    assert model.kv_bytes_per_token() == 0
    assert model.state_bytes() > 0


def test_sparse_latent_attention_and_shared_indexers() -> None:
    sparse = {
        "model_type": "glm_moe_dsa", "kv_lora_rank": 32, "q_lora_rank": 64, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 16, "index_topk": 128, "index_n_heads": 4, "index_head_dim": 128,
        "n_routed_experts": 0,
    }  # fmt: skip
    (layer,) = read(**sparse).layers
    attention = layer.attention
    assert isinstance(attention, LatentAttention)
    assert (attention.window, attention.keeps_cache, attention.expansion_flops()) == (128, True, 0)
    assert attention.index_parameters(256) == 64 * 4 * 128 + 256 * (128 + 4)
    assert attention.index_bytes() == 132
    shared = read(**sparse, index_topk_freq=3, index_skip_topk_offset=1)
    assert sorted(layer.attention.index_bytes() for layer in shared.layers for _ in range(layer.count)) == [
        0,
        0,
        132,
        132,
    ]
    listed = read(**sparse, indexer_types=["full", "shared", "shared", "shared"])
    assert sum(layer.count for layer in listed.layers if layer.attention.index_bytes()) == 1


def test_names_of_keys_that_nobody_knows_are_in_a_note() -> None:
    (note,) = read(frobnication_rank=3, unused=None, switched_off=False, empty=[]).notes
    assert note.endswith("were not read: frobnication_rank")
    (note,) = read(model_type="new_thing").notes
    assert "'new_thing' is not known" in note
    (note,) = read(model_type=..., architectures=["X"]).notes
    assert "without model_type" in note


def test_older_names_of_the_shapes() -> None:
    """GPT-2: 124 million weights."""
    model = CATALOG.model({
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1_024, "vocab_size": 50_257,
    })  # fmt: skip
    assert model.parameters() / 1e6 == pytest.approx(124.4, rel=0.01)
    assert model.position_rows == 1_024
    falcon = CATALOG.model({
        "model_type": "falcon", "hidden_size": 4_544, "num_hidden_layers": 32, "num_attention_heads": 71,
        "multi_query": True, "vocab_size": 65_024, "new_decoder_architecture": False,
    })  # fmt: skip
    assert falcon.parameters() / 1e9 == pytest.approx(6.92, rel=0.01)  # Falcon-7B, arXiv 2311.16867
    assert falcon.layers[0].attention.kv_values(1) == 128
