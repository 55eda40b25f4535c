"""Constant-state layers cost per token and request, sparse ones as a window and an indexer. Worked by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.errors import CapacityError
from servetwin.physics.attention import AttentionPrices
from servetwin.physics.memory import KvRoom, kv_room
from servetwin.physics.operators import StateUpdate, layer_operators
from servetwin.physics.overheads import Machine
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs import DenseMlp, Layer, ModelSpec, StateAttention

CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")
H100 = CATALOG.gpu("h100-sxm")
MACHINE = Machine.of(H100, CALIBRATION)
CURVE = MACHINE.kernels.attending("bf16")
SPARSE, DENSE = CATALOG.model("deepseek-v3.2"), CATALOG.model("deepseek-v3")
HYBRID = CATALOG.model("qwen3-next-80b-a3b")


def prices(model: ModelSpec, tensor: int = 1, kv_cache: str = "bf16") -> AttentionPrices:
    return AttentionPrices(model, tensor, kv_cache, MACHINE)


def room(model: ModelSpec, gpu: str = "h200-sxm", **changes: Any) -> KvRoom:
    settings: dict[str, Any] = {
        "tensor": 4, "weights": "auto", "kv_cache": "bf16", "gpu_memory_utilization": 0.9,
        "max_num_batched_tokens": 2_048, "block_size": 16, "max_num_seqs": 64,
    }  # fmt: skip
    return kv_room(model, CATALOG.gpu(gpu), calibration=CALIBRATION, **{**settings, **changes})


def test_sparse_attention_is_a_window_and_an_indexer() -> None:
    (index_compute, index_memory), (attend_compute, attend_memory) = prices(SPARSE, tensor=8).slopes(1, mixed=False)
    # 61 layers · 2 · 64 heads · 128 FLOP in fp8 against 61 · 132 B, at the measured shares of the peaks.
    assert index_compute == 0
    assert index_memory == pytest.approx(61 * 132 / (CURVE.memory * 3.35e12) * 1e12, abs=1)
    assert index_memory > 61 * 2 * 64 * 128 / (CURVE.compute * 1_979e12) * 1e12
    # The attention itself costs per token what it costs without the choice, up to 2,048 of them.
    ((dense_compute, dense_memory),) = prices(DENSE, tensor=8).slopes(1, mixed=False)
    assert (attend_compute, attend_memory) == (dense_compute, dense_memory)
    assert SPARSE.windows == (2_048,)


def test_the_indexer_is_on_every_rank() -> None:
    assert prices(SPARSE, tensor=8).slopes(1, mixed=False)[0] == prices(SPARSE, tensor=1).slopes(1, mixed=False)[0]


def test_a_long_context_costs_less_than_without_the_choice() -> None:
    context = 64_000
    index, attend = (sum(slope) for slope in prices(SPARSE, tensor=8).slopes(1, mixed=False))
    ((compute, memory),) = prices(DENSE, tensor=8).slopes(1, mixed=False)
    assert index * context + attend * 2_048 < 0.25 * (compute + memory) * context


def test_prefill_of_sparse_attention() -> None:
    new = 4_096
    compute, memory = prices(SPARSE).chunks_ps(((new, 0),))
    assert memory == 0
    ramp = new * CURVE.ramp_tokens
    attended = (
        (sum(min(j, 2_048) for j in range(1, new + 1)) + ramp)
        * 61
        * 2
        * 128
        * (2 * 512 + 64)
        / (CURVE.compute * 989e12)
    )
    scored = (new * (new + 1) // 2 + ramp) * 61 * 2 * 64 * 128 / (CURVE.compute * 1_979e12)
    assert compute == pytest.approx((attended + scored) * 1e12, rel=1e-6)


def test_the_eight_bit_cache_of_sparse_attention_keeps_scales_and_the_rotary_key() -> None:
    attention = SPARSE.layers[0].attention
    assert attention.kv_bytes(8, "fp8") == 512 + 4 * 4 + 2 * 64
    assert DENSE.layers[0].attention.kv_bytes(8, "fp8") == 576


def test_states_cost_per_request_and_not_per_token_of_context() -> None:
    price = prices(HYBRID)
    ((compute, memory),) = price.slopes(1, mixed=False)
    assert compute == 0
    # The 12 full layers alone: 12 · 2 · 2 heads · 256 values · 2 B.
    assert memory == pytest.approx(12 * 2_048 / (CURVE.memory * 3.35e12) * 1e12, abs=1)
    # 36 layers · (32 · 128 · 128 + 3 · 8,192) values · 2 B, read and written once, and 16 or 32 heads of 48 layers.
    state = 36 * 2 * (32 * 128 * 128 + 3 * 8_192)
    assert HYBRID.state_bytes() == state
    heads = sum(layer.count * layer.attention.heads for layer in HYBRID.layers)
    assert price.per_request_ps == pytest.approx(
        2 * state / (CURVE.memory * 3.35e12) * 1e12 + heads * CURVE.per_head_s * 1e12, rel=1e-6
    )
    heads = 0.75 * heads * CURVE.per_head_s * 1e12
    saved = price.per_request_ps - prices(HYBRID, tensor=4).per_request_ps
    assert saved == pytest.approx(0.75 * 2 * state / (CURVE.memory * 3.35e12) * 1e12 + heads, rel=1e-6)


def test_a_prompt_updates_the_state_once_in_64_tokens() -> None:
    layer = next(layer for layer in HYBRID.layers if isinstance(layer.attention, StateAttention))
    operators = layer_operators(
        HYBRID, layer.attention, layer.mlp, weights="bf16", kv_cache="bf16", tensor=2, machine=MACHINE
    )
    (update,) = (operator for operator in operators if isinstance(operator, StateUpdate))
    assert update.work(640).bytes_moved == pytest.approx(2 * 10 * layer.attention.state_bytes(2))
    assert update.work(640).flops == 640 * 6 * 32 * 128 * 128 / 2
    # Memory: 10 · 2 · 0.55 MB at the measured share of 3.35 TB/s; arithmetic: 1.0 GFLOP at that of prefill.
    memory, compute = (
        update.work(640).bytes_moved / (CURVE.memory * 3.35e12),
        update.work(640).flops / (CURVE.compute * 989e12),
    )
    assert update.cost(640).seconds == pytest.approx((memory**3 + compute**3) ** (1 / 3))
    names = [operator.name for operator in operators]
    assert "attention.in" in names
    assert "attention.out" in names
    weights = sum(o.outer * o.inner for o in operators if o.name in ("attention.in", "attention.out"))  # type: ignore[attr-defined]
    assert weights == pytest.approx(layer.attention.local_parameters(HYBRID.hidden, 2))


def test_states_leave_less_room_for_tokens() -> None:
    few, many = room(HYBRID, max_num_seqs=1), room(HYBRID, max_num_seqs=101)
    # Besides, the sampler of 101 requests takes more than the feed-forward block, that of one does not.
    sampler = many.overhead_bytes - few.overhead_bytes
    assert few.kv_bytes - many.kv_bytes == pytest.approx(100 * HYBRID.state_bytes(4) + sampler)
    assert many.state_bytes == pytest.approx(101 * HYBRID.state_bytes(4))
    assert many.num_blocks == int(many.kv_bytes // many.bytes_per_block)
    assert room(DENSE, tensor=8, max_num_seqs=999).state_bytes == 0


def test_more_requests_than_states_fit_are_refused_with_the_number_that_does() -> None:
    with pytest.raises(CapacityError, match="states of 100000 requests") as caught:
        room(HYBRID, max_num_seqs=100_000)
    assert caught.value.path == "max_num_seqs"
    most = int(str(caught.value.allowed).split(",")[0].removeprefix("at most "))
    assert room(HYBRID, max_num_seqs=most - 1).state_bytes == (most - 1) * HYBRID.state_bytes(4)
    with pytest.raises(CapacityError, match="states of"):
        room(HYBRID, max_num_seqs=most + 1)


def test_a_model_without_any_cache_has_room_for_the_longest_of_each_request() -> None:
    state = StateAttention(heads=8, inputs=1_024, inner=512, state=8_192)
    model = ModelSpec("states", 512, 1_000, (Layer(4, state, DenseMlp(1_024)),), False, 1_000)
    found = room(model, tensor=1, max_num_seqs=7)
    assert found.num_blocks == 1 + 7 * 63, "1,000 tokens are 63 blocks of 16"
    assert found.bytes_per_block == 0


def test_no_layer_without_a_feed_forward_block_is_priced_for_one() -> None:
    layer = HYBRID.layers[0]
    none = layer_operators(
        HYBRID, layer.attention, DenseMlp(0), weights="bf16", kv_cache="bf16", tensor=1, machine=MACHINE
    )
    assert not any(operator.name.startswith("mlp") for operator in none)


@pytest.mark.parametrize("name", CATALOG.names("models"))
def test_every_bundled_model_is_priced(name: str) -> None:
    model = CATALOG.model(name)
    tensor = 8 if all(layer.attention.heads % 8 == 0 for layer in model.layers) else 1
    step = RooflineStepTime(
        model, H100, tensor=tensor, weights="auto", kv_cache="auto", sampling="greedy", calibration=CALIBRATION
    )
    assert step.windows == model.windows
    flops, moved = step.work(1, 1, 1_000, 1_000)
    assert flops >= 2 * model.active_layer_parameters()
    assert moved >= model.step_weight_bytes("auto", tensor)


def test_experts_may_have_two_matrices() -> None:
    gated = next(layer.mlp for layer in HYBRID.layers)
    plain = dataclasses.replace(gated, gated=False)
    assert 3 * plain.expert_parameters(64) == 2 * gated.expert_parameters(64)  # type: ignore[union-attr]
    assert 3 * plain.parts(64)["shared"] == 2 * gated.parts(64)["shared"]


@pytest.mark.parametrize("model", [HYBRID, SPARSE], ids=["states", "indexers"])
def test_the_least_work_counts_states_and_indexers(model: ModelSpec) -> None:
    step = RooflineStepTime(
        model, CATALOG.gpu("h200-sxm"), tensor=1, weights="auto", kv_cache="bf16", sampling="greedy",
        calibration=CALIBRATION,
    )  # fmt: skip
    flops, moved = step.work(1, 1, 10_000, 10_000)
    assert flops == pytest.approx(model.flops_per_token(10_000))
    cached = sum(
        layer.count * (
            min(10_000, layer.attention.window or 10_000) * layer.attention.kv_bytes(1, "bf16")
            + 10_000 * layer.attention.index_bytes()
        )
        for layer in model.layers
    )  # fmt: skip
    # The state of the request is read, and written back.
    assert moved == pytest.approx(model.step_weight_bytes("auto", 1) + cached + 2 * model.state_bytes())
