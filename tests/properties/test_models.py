"""Whatever the configuration: it is priced consistently, or refused as the user's mistake; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.catalog import Catalog
from servetwin.errors import InputError
from servetwin.physics.memory import kv_room
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs import DenseMlp, LatentAttention, Layer, ModelSpec, MoeMlp, StateAttention
from servetwin.specs.attention import Attention, GroupedAttention

CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")
H200 = CATALOG.gpu("h200-sxm")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"

BASE: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1_000, "max_position_embeddings": 2_048,
}  # fmt: skip

grouped = st.builds(
    lambda kv, share, dim, window, chunked, gated: GroupedAttention(8 * kv * share, kv, dim, window, chunked, gated),
    st.sampled_from([1, 2, 8]), st.sampled_from([1, 4]), st.sampled_from([64, 128]),
    st.none() | st.integers(1, 5_000), st.booleans(), st.booleans(),
)  # fmt: skip
latent = st.builds(
    lambda q, top_k, indexed: LatentAttention(
        16, q, 512, 128, 64, 128, top_k, 8 if top_k and indexed else 0, 128 if top_k and indexed else 0
    ),
    st.none() | st.just(256), st.none() | st.integers(1, 4_096), st.booleans(),
)  # fmt: skip
state = st.builds(
    StateAttention, st.sampled_from([8, 64]), st.integers(8, 10_000), st.integers(8, 8_192), st.integers(8, 2_000_000),
    st.sampled_from([2, 4]), st.integers(0, 9_000), st.integers(1, 4), st.integers(0, 1_000),
)  # fmt: skip
mlps = st.one_of(
    st.builds(DenseMlp, st.sampled_from([0, 1_024]), st.booleans()),
    st.builds(MoeMlp, st.just(16), st.integers(1, 16), st.just(512), st.sampled_from([0, 512]), st.booleans()),
)
layers = st.lists(st.builds(Layer, st.integers(1, 20), st.one_of(grouped, latent, state), mlps), min_size=1, max_size=4)
models = st.builds(lambda found: ModelSpec("drawn", 1_024, 32_000, tuple(found), False, 100_000), layers)


def attention_bytes(attention: Attention, tensor: int, context: int) -> float:
    """What a request of ``context`` tokens is read from one rank's memory in a step, counted directly."""
    window = attention.window or context
    per_token = attention.kv_bytes(tensor, "bf16")
    return min(context, window) * per_token + context * attention.index_bytes() + 2 * attention.state_bytes(tensor)


@settings(max_examples=150, deadline=None)
@given(
    model=models, tensor=st.sampled_from([1, 2, 8]), contexts=st.lists(st.integers(1, 60_000), min_size=1, max_size=9)
)
def test_a_step_reads_no_less_than_the_caches_and_states(model: ModelSpec, tensor: int, contexts: list[int]) -> None:
    prices = RooflineStepTime(
        model, H200, tensor=tensor, weights="auto", kv_cache="bf16", sampling="greedy", calibration=CALIBRATION
    )
    windows = [None, *prices.windows]
    shape = StepShape(
        len(contexts), len(contexts), False, len(contexts), len(contexts),
        tuple(sum(c if w is None else min(c, w) for c in contexts) for w in windows),
        tuple(sum(w is None or c < w for c in contexts) for w in windows),
    )  # fmt: skip
    price = prices.price(shape)
    moved = sum(
        layer.count * attention_bytes(layer.attention, tensor, context)
        for layer in model.layers
        for context in contexts
    )
    moved += model.step_weight_bytes("auto", tensor)
    assert price.compute_ps + price.memory_ps >= moved / H200.hbm_bytes_per_s * 1e12
    # Affine: every request that still grows adds its slope, and nothing else changes.
    later = StepShape(
        len(contexts), len(contexts), False, len(contexts), len(contexts),
        tuple(c + g for c, g in zip(shape.context, shape.growing, strict=True)), shape.growing,
    )  # fmt: skip
    assert prices.price(later).total_ps == price.total_ps + price.growth_ps
    assert sum(phase.ps for phase in prices.phases(shape)) == price.total_ps


@settings(max_examples=150, deadline=None)
@given(model=models, tensor=st.sampled_from([1, 2, 8]), seqs=st.integers(1, 300))
def test_weights_states_and_blocks_share_the_memory(model: ModelSpec, tensor: int, seqs: int) -> None:
    assert model.parameters() == sum(model.parts().values()) + 2 * model.vocab * model.hidden
    assert model.active_parameters() <= model.parameters()
    assert model.weight_bytes("bf16", tensor) >= 0.999 * model.weight_bytes("bf16") / tensor
    assert model.weight_bytes("fp8") < model.weight_bytes("bf16")
    try:
        room = kv_room(
            model, H200, tensor=tensor, weights="auto", kv_cache="bf16", gpu_memory_utilization=0.9,
            max_num_batched_tokens=2_048, block_size=16, calibration=CALIBRATION, max_num_seqs=seqs,
        )  # fmt: skip
    except InputError:
        return
    blocks = room.num_blocks * room.bytes_per_block
    usable = 0.9 * (H200.memory_bytes - CALIBRATION.unavailable_bytes)
    assert room.weight_bytes + room.overhead_bytes + room.state_bytes + blocks <= usable * (1 + 1e-12)
    assert room.state_bytes == pytest.approx(seqs * model.state_bytes(tensor))


values = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 300), st.floats(allow_nan=True), st.text(max_size=5),
    st.lists(st.integers(0, 3) | st.sampled_from(["full_attention", "linear_attention", "mamba"]), max_size=5),
    st.dictionaries(st.sampled_from(["num_heads", "head_dim", "kda_layers"]), st.integers(0, 9), max_size=3),
)  # fmt: skip
KEYS = sorted({
    *BASE, "head_dim", "sliding_window", "layer_types", "num_experts", "n_routed_experts", "num_experts_per_tok",
    "moe_intermediate_size", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
    "index_topk", "index_n_heads", "index_head_dim", "indexer_types", "linear_num_value_heads", "linear_num_key_heads",
    "linear_key_head_dim", "linear_value_head_dim", "linear_attn_config", "attn_type_list", "mamba_d_state",
    "mamba_n_heads", "mamba_d_head", "hybrid_override_pattern", "moe_layer_freq", "first_k_dense_replace",
    "attention_chunk_size", "no_rope_layers", "tie_word_embeddings", "num_nextn_predict_layers", "vision_config",
    "text_config", "quantization_config", "torch_dtype", "n_layer", "ffn_dim", "unheard_of",
})  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(KEYS), values, max_size=6))
def test_mutated_configurations_are_read_or_refused(changes: dict[str, Any]) -> None:
    try:
        model = CATALOG.model({**BASE, **changes})
    except InputError as error:
        assert str(error)
        return
    assert model.parameters() > 0
    assert model.num_layers >= 1


QUANTISATION = ["quant_method", "quant_algo", "bits", "ignore", "exclude_modules", "config_groups", "kv_cache_scheme"]


@settings(max_examples=300, deadline=None)
@given(
    method=st.sampled_from(["fp8", "awq", "gptq", "compressed-tensors", "modelopt", "quark", "mxfp4", "other"]),
    changes=st.dictionaries(
        st.sampled_from(QUANTISATION), values | st.lists(st.text(max_size=8), max_size=3), max_size=3
    ),
)
def test_mutated_quantisations_are_read_or_refused(method: str, changes: dict[str, Any]) -> None:
    try:
        model = CATALOG.model({**BASE, "quantization_config": {"quant_method": method, **changes}})
    except InputError:
        return
    assert model.weight_bytes() > 0


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_published_configurations_lose_a_key_without_a_traceback(data: st.DataObject) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the published configurations are not here: {SHARED}")
    path = data.draw(st.sampled_from(sorted(SHARED.glob("*.json"))))
    config = json.loads(path.read_text(encoding="utf-8"))
    inner = config.get("text_config", config)
    inner.pop(data.draw(st.sampled_from(sorted(inner))))
    try:
        assert CATALOG.model(config).parameters() > 0
    except InputError as error:
        assert error.file == "the scenario"
