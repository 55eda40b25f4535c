"""What fits: KV blocks as real engines report them, and refusals that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.errors import CapacityError
from servetwin.physics.memory import KvRoom, check_tensor, kv_room

CATALOG = Catalog()
CASES = Path(__file__).resolve().parents[4] / "shared" / "validation" / "cases.json"


def room(model: str, gpu: str = "h100-sxm", **changes: Any) -> KvRoom:
    settings: dict[str, Any] = {
        "tensor": 1, "weights": "auto", "kv_cache": "bf16", "gpu_memory_utilization": 0.9,
        "max_num_batched_tokens": 2_048, "block_size": 16,
    }  # fmt: skip
    return kv_room(
        CATALOG.model(model), CATALOG.gpu(gpu), calibration=CATALOG.calibration("default"), **{**settings, **changes}
    )


# Blocks logged by vLLM 0.15.1 on H100 with 90 % of the memory, public runs.
@pytest.mark.parametrize(
    ("model", "tensor", "blocks"),
    [
        ("llama-2-7b", 1, 7_462), ("llama-2-70b", 4, 31_356), ("mixtral-8x7b", 2, 27_510),
        ("codellama-34b", 2, 26_602), ("yi-34b", 2, 20_793), ("qwen2.5-7b", 1, 65_352),
        ("mistral-nemo-12b", 2, 48_009),
    ],
)  # fmt: skip
def test_blocks_match_what_engines_log(model: str, tensor: int, blocks: int) -> None:
    assert room(model, tensor=tensor).num_blocks == pytest.approx(blocks, rel=0.01)


def test_blocks_of_every_public_case() -> None:
    if not CASES.exists():
        pytest.skip(f"the measured cases are not here: {CASES}")
    seen = 0
    for case in json.loads(CASES.read_text(encoding="utf-8"))["cases"]:
        engine = case.get("engine_config") or {}
        blocks = engine.get("gpu_kv_blocks")
        # Llama-4-Scout keeps 7 GB for reasons that are not known; RTX cards have no profile.
        if not blocks or "scout" in case["id"] or "RTX" in case["hardware"]:
            continue
        found = room(
            case["model"], case["hardware"], tensor=case["tp"], weights="bf16",
            gpu_memory_utilization=engine["gpu_memory_utilization"],
            max_num_batched_tokens=engine["max_num_batched_tokens"], block_size=engine["block_size"],
        )  # fmt: skip
        assert found.num_blocks == pytest.approx(blocks, rel=0.05), case["id"]
        seen += 1
    assert seen >= 16


def test_the_parts_add_up() -> None:
    found = room("llama-3.1-8b")
    usable = 0.9 * (81_559 * 2**20 - 0.52e9)
    assert found.weight_bytes + found.overhead_bytes + found.kv_bytes == pytest.approx(usable)
    assert found.bytes_per_block == 16 * 131_072
    assert found.num_blocks == int(found.kv_bytes // found.bytes_per_block)


def test_an_eight_bit_cache_holds_twice_as_much() -> None:
    assert room("llama-3.1-8b", kv_cache="fp8").num_blocks == pytest.approx(2 * room("llama-3.1-8b").num_blocks, abs=1)


def test_weights_that_do_not_fit_name_the_degree_that_would() -> None:
    with pytest.raises(CapacityError, match="tensor: 2 is the smallest degree that fits") as caught:
        room("llama-3.1-70b", gpu_memory_utilization=0.95)
    assert "131.4 GiB" in str(caught.value)
    with pytest.raises(CapacityError, match="no tensor degree"):
        room("deepseek-r1", "l40s", gpu_memory_utilization=0.1)


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
