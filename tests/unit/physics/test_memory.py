"""What fits: KV blocks as real engines report them, and refusals that say what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.errors import CapacityError
from servetwin.physics.memory import KvRoom, check_tensor, engine_bytes, kv_room

CATALOG = Catalog()


def room(model: str, gpu: str = "h100-sxm", **changes: Any) -> KvRoom:
    settings: dict[str, Any] = {
        "tensor": 1, "weights": "auto", "kv_cache": "bf16", "gpu_memory_utilization": 0.9,
        "max_num_batched_tokens": 2_048, "block_size": 16,
    }  # fmt: skip
    return kv_room(
        CATALOG.model(model), CATALOG.gpu(gpu), calibration=CATALOG.calibration("default"), **{**settings, **changes}
    )


# Blocks logged by vLLM 0.15.1 on H100 with 90 % of the memory and 128 seats, public runs.
@pytest.mark.parametrize(
    ("model", "tensor", "blocks"),
    [
        ("llama-2-7b", 1, 7_462), ("llama-2-70b", 4, 31_356), ("mixtral-8x7b", 2, 27_510),
        ("codellama-34b", 2, 26_602), ("yi-34b", 2, 20_793), ("qwen2.5-7b", 1, 65_352),
        ("mistral-nemo-12b", 2, 48_009),
    ],
)  # fmt: skip
def test_blocks_match_what_engines_log(model: str, tensor: int, blocks: int) -> None:
    budget = 1_024 if model == "mistral-nemo-12b" else 2_048
    found = room(model, tensor=tensor, max_num_seqs=128, max_num_batched_tokens=budget)
    assert found.num_blocks == pytest.approx(blocks, rel=0.01)


def test_the_parts_add_up() -> None:
    found = room("llama-3.1-8b")
    usable = 0.9 * (81_559 * 2**20 - 0.52e9)
    assert found.weight_bytes + found.overhead_bytes + found.kv_bytes == pytest.approx(usable)
    assert found.bytes_per_block == 16 * 131_072
    assert found.num_blocks == int(found.kv_bytes // found.bytes_per_block)


def test_the_engine_itself_by_hand() -> None:
    """Llama-2-70B on four GPUs: 0.3 GB + 0.5 GB, a rotary table, the residual stream, and the larger of two peaks."""
    model, calibration = CATALOG.model("llama-2-70b"), CATALOG.calibration("default")
    rotary, residual = 2 * 4_096 * 128, 4 * 2_048 * 8_192
    feed_forward, sampler = 2 * 2_048 * 3 * 28_672 / 4, 28 * 128 * 32_000
    assert sampler > feed_forward
    given = {"max_num_batched_tokens": 2_048, "max_num_seqs": 128, "calibration": calibration}
    assert engine_bytes(model, tensor=4, **given) == 0.3e9 + 0.5e9 + rotary + residual + sampler
    # On one GPU there are no collectives, and the feed-forward block is not shared out.
    assert engine_bytes(model, tensor=1, **given) == 0.3e9 + rotary + residual + 4 * feed_forward


def test_rotary_tables() -> None:
    """Ten million positions of 128 values in bf16, and none where positions have rows of their own."""
    scout, opt = CATALOG.model("llama-4-scout-fp8"), CATALOG.model("opt-13b")
    given = {"tensor": 1, "max_num_batched_tokens": 1, "max_num_seqs": 1, "calibration": CATALOG.calibration("default")}
    short = engine_bytes(replace(scout, max_position=0), **given)
    assert engine_bytes(scout, **given) - short == pytest.approx(2 * 10_485_760 * 128)
    assert engine_bytes(opt, **given) == engine_bytes(replace(opt, max_position=0), **given)


def test_a_vision_tower_takes_room() -> None:
    scout = CATALOG.model("llama-4-scout-fp8")
    assert scout.vision_parameters
    found = room("llama-4-scout-fp8", tensor=2)
    assert found.weight_bytes == scout.weight_bytes("fp8", 2) + scout.vision_parameters


def test_an_eight_bit_cache_holds_twice_as_much() -> None:
    assert room("llama-3.1-8b", kv_cache="fp8").num_blocks == pytest.approx(2 * room("llama-3.1-8b").num_blocks, abs=1)


def test_weights_that_do_not_fit_name_the_degree_that_would() -> None:
    with pytest.raises(CapacityError, match="tensor: 2 is the smallest degree that fits") as caught:
        room("llama-3.1-70b", gpu_memory_utilization=0.95)
    assert "131.4 GiB" in str(caught.value)
    with pytest.raises(CapacityError, match="no tensor degree"):
        room("deepseek-r1", "l40s", gpu_memory_utilization=0.1)


def test_logits_that_do_not_fit_name_the_number_that_would() -> None:
    """28 bytes per request and token of a vocabulary of 128,256: 3.4 MiB each."""
    with pytest.raises(CapacityError, match="logits of 30000 requests do not fit") as caught:
        room("llama-3.1-8b", max_num_seqs=30_000)
    assert caught.value.path == "max_num_seqs"
    assert "3.4 MiB per request" in str(caught.value)
    most = int(str(caught.value.allowed).split(",")[0].removeprefix("at most "))
    assert room("llama-3.1-8b", max_num_seqs=most - 10).num_blocks > 2
    with pytest.raises(CapacityError, match="logits of"):
        room("llama-3.1-8b", max_num_seqs=most + 1)


def test_room_for_no_block_is_refused() -> None:
    full = room("llama-2-13b")
    needed = full.weight_bytes + full.overhead_bytes
    usable = (full.kv_bytes + needed) / 0.9
    just_two, too_little = ((needed + blocks * full.bytes_per_block) / usable for blocks in (2.5, 1.5))
    assert room("llama-2-13b", gpu_memory_utilization=just_two).num_blocks == 2
    with pytest.raises(CapacityError, match="no KV block fits"):
        room("llama-2-13b", gpu_memory_utilization=too_little)


def test_heads_must_be_shared_out_evenly() -> None:
    with pytest.raises(CapacityError) as caught:
        check_tensor(CATALOG.model("qwen2.5-7b"), 8)
    assert "28" in str(caught.value)
    assert caught.value.allowed == ["1", "2", "4"]
    with pytest.raises(CapacityError):
        room("qwen2.5-7b", tensor=8)


def test_states_that_are_set_aside_and_what_vllm_would_use_of_them() -> None:
    """The figures of the documentation: Qwen3.5-397B on eight H200, 1,024 seats, of which 64 are taken."""
    model = CATALOG.model("qwen3.5-397b-a17b-fp8")
    settings: dict[str, Any] = {
        "gpu": "h200-sxm", "tensor": 8, "weights": model.native_weights, "kv_cache": model.native_kv_cache,
        "max_num_batched_tokens": 8_192,
    }  # fmt: skip
    found = room("qwen3.5-397b-a17b-fp8", max_num_seqs=1_024, **settings)
    per_token = found.bytes_per_block / 16
    assert found.state_bytes == 1_024 * model.state_bytes(8)
    assert found.state_bytes / 2**30 == pytest.approx(22.9, abs=0.05)
    pool = found.kv_bytes + found.state_bytes
    set_aside, shared = found.kv_bytes / per_token, (pool - 64 * model.state_bytes(8)) / per_token
    assert (set_aside / 1e6, shared / 1e6) == (pytest.approx(3.40, abs=0.005), pytest.approx(4.90, abs=0.005))
    assert 1 - set_aside / shared == pytest.approx(0.31, abs=0.005)
    lower = room("qwen3.5-397b-a17b-fp8", max_num_seqs=64, **settings)
    assert lower.kv_bytes / per_token / 1e6 == pytest.approx(5.34, abs=0.005)
    # An attention page of vLLM is raised in steps of 16 tokens until it holds the state of a layer.
    states = sum(layer.count for layer in model.layers if layer.attention.state_bytes(8))
    attending = model.num_layers - states
    state_page = model.state_bytes(8) / states
    token_page = per_token / attending
    assert -(-state_page // (16 * token_page)) * 16 == 528
