"""Models cut into stages: layers, weights and room for KV cache."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError
from servetwin.physics.memory import engine_bytes, kv_room
from servetwin.physics.stages import check_pipeline, smallest_pipeline, stage_layers, stage_models, stage_rooms

CATALOG = Catalog()
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "deepseek-r1", "qwen3-30b-a3b", "gemma-3-27b")
KNOWN = [name for name in MODELS if name in CATALOG.names("models")]


def room(**changes: Any) -> dict[str, Any]:
    return {
        "gpu": CATALOG.gpu("h100-sxm"), "weights": "bf16", "kv_cache": "bf16", "gpu_memory_utilization": 0.9,
        "max_num_batched_tokens": 8192, "block_size": 16, "calibration": CATALOG.calibration("default"),
        "max_num_seqs": 256, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [
        (32, 1, (32,)),
        (32, 4, (8, 8, 8, 8)),
        # What remains goes to the stages before the last, from the back.
        (33, 4, (8, 8, 9, 8)),
        (34, 4, (8, 9, 9, 8)),
        (35, 4, (9, 9, 9, 8)),
        (61, 8, (7, 7, 8, 8, 8, 8, 8, 7)),
        (7, 2, (4, 3)),
        (3, 3, (1, 1, 1)),
    ],
)
def test_layers_as_vllm_shares_them_out(layers: int, stages: int, counts: tuple[int, ...]) -> None:
    assert stage_layers(layers, stages) == counts


@given(layers=st.integers(1, 200), stages=st.integers(1, 64))
@settings(derandomize=True, deadline=None)
def test_every_layer_is_on_one_stage(layers: int, stages: int) -> None:
    counts = stage_layers(layers, stages) if stages <= layers else ()
    assert not counts or (sum(counts) == layers and max(counts) - min(counts) <= 1 and counts[-1] == min(counts))


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_the_stages_together_are_the_model(name: str, stages: int) -> None:
    model = CATALOG.model(name)
    parts = stage_models(model, stages)
    assert [part.num_layers for part in parts] == list(stage_layers(model.num_layers, stages))
    twice = model.vocab * model.hidden if model.tied_embeddings and stages > 1 else 0
    # Each stage counts a last norm.
    assert sum(part.parameters() for part in parts) == model.parameters() + twice + (stages - 1) * model.hidden
    assert sum(part.active_parameters() for part in parts) == model.active_parameters()
    assert sum(part.kv_bytes_per_token() for part in parts) == pytest.approx(model.kv_bytes_per_token(), rel=0.35)
    assert sum(part.weight_bytes() for part in parts) == pytest.approx(model.weight_bytes() + 2.0 * twice, rel=1e-12)
    assert sum(part.step_weight_bytes() for part in parts) == pytest.approx(model.step_weight_bytes(), rel=1e-12)
    assert [(part.embeds, part.has_output) for part in parts] == [
        (place == 0, place == stages - 1) for place in range(stages)
    ]


def test_kinds_of_layers_are_spread_evenly() -> None:
    model = CATALOG.model("gpt-oss-120b")
    assert len(model.layers) == 2
    for part in stage_models(model, 4):
        assert sorted(layer.count for layer in part.layers) == [4, 5]


def test_weights_of_llama_70b_by_hand() -> None:
    """80 layers of 8192: 855,654,400 weights each with their norms; embedding and output 128,256 · 8192 each."""
    layer = 8192 * (8192 + 2 * 1024 + 8192) + 3 * 8192 * 28672 + 2 * 8192
    first, second, third, last = stage_models(CATALOG.model("llama-3.1-70b"), 4)
    vocabulary = 128_256 * 8192
    assert second.weight_bytes("bf16") == third.weight_bytes("bf16") == 2.0 * 20 * layer
    assert first.weight_bytes("bf16") == last.weight_bytes("bf16") == 2.0 * (20 * layer + vocabulary)


def test_the_fullest_stage_decides() -> None:
    """A middle stage has more room than the ends; only the last one samples."""
    stages = stage_models(CATALOG.model("llama-3.1-70b"), 4)
    rooms = stage_rooms(stages, 1, **room())
    first, second, third, last = (each.num_blocks for each in rooms)
    assert second == third > first >= last
    by_hand = kv_room(stages[3], tensor=1, **room())
    assert rooms[3] == by_hand
    calibration = CATALOG.calibration("default")
    overheads = [
        engine_bytes(part, tensor=1, max_num_batched_tokens=1, max_num_seqs=1024, calibration=calibration)
        for part in stages
    ]
    assert overheads[0] == overheads[1] < overheads[3]


def test_a_quarter_of_the_layers_takes_a_quarter_of_a_block() -> None:
    model = CATALOG.model("llama-3.1-8b")
    (whole,) = stage_rooms((model,), 1, **room())
    for each in stage_rooms(stage_models(model, 4), 1, **room()):
        assert each.bytes_per_block * 4 == whole.bytes_per_block


def test_errors_name_the_stage() -> None:
    with pytest.raises(CapacityError, match="do not fit") as caught:
        stage_rooms(stage_models(CATALOG.model("llama-3.1-405b"), 2), 1, **room())
    assert str(caught.value.found).startswith("stage 1 of 2: ")
    assert caught.value.path == "parallel.tensor"


def test_more_stages_than_layers() -> None:
    model = CATALOG.model("llama-3.1-8b")
    check_pipeline(model, 32)
    with pytest.raises(CapacityError, match="every stage has a layer at least") as caught:
        check_pipeline(model, 33)
    assert caught.value.allowed == "at most 32"


def test_the_smallest_pipeline() -> None:
    model = CATALOG.model("llama-3.1-70b")
    assert smallest_pipeline(model, 1, **room()) == 2
    assert smallest_pipeline(model, 1, **room(gpu_memory_utilization=0.5)) == 4
    assert smallest_pipeline(model, 2, **room(gpu_memory_utilization=0.5)) == 2
    assert smallest_pipeline(model, 1, **room(gpu=CATALOG.gpu("h100-sxm"), max_num_seqs=1_000_000)) is None
