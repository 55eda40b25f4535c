"""The sheet of a model: the figures of the specification, and what fits where."""

from __future__ import annotations

import json

import pytest

from servetwin.catalog import Catalog
from servetwin.physics.memory import kv_room
from servetwin.report.model_sheet import sheet_text
from servetwin.studies.model_sheet import model_sheet

CATALOG = Catalog()


def test_figures_are_those_of_the_model() -> None:
    model = CATALOG.model("deepseek-v3.2")
    sheet = model_sheet(model, CATALOG)
    assert sheet["parameters"] == sum(sheet["parts"].values()) == model.parameters()
    assert sum(kind["count"] * kind["parameters"] for kind in sheet["layer_kinds"]) == pytest.approx(
        model.parameters() - sheet["parts"]["embeddings"], abs=model.hidden
    )
    assert sheet["flops_per_token"]["0"] == 2 * model.active_parameters()
    assert sheet["kv_bytes_per_token"] == 61 * 1_284
    assert json.loads(json.dumps(sheet)) == sheet


@pytest.mark.parametrize("name", ["llama-3.1-70b", "qwen3.5-397b-a17b-fp8", "yi-34b"])
def test_what_fits_is_what_the_memory_model_says(name: str) -> None:
    model = CATALOG.model(name)
    rows = {(row["gpu"], row["tensor"]): row for row in model_sheet(model, CATALOG)["fits"]}
    assert {gpu for gpu, _ in rows} == set(CATALOG.names("hardware"))
    assert all(model.heads % tensor == 0 for _, tensor in rows)
    assert not rows["l4", 1]["fits"]
    row = rows["h200-sxm", 8]
    room = kv_room(
        model, CATALOG.gpu("h200-sxm"), tensor=8, weights="auto", kv_cache="bf16", gpu_memory_utilization=0.9,
        max_num_batched_tokens=8_192, block_size=16, calibration=CATALOG.calibration("default"),
        max_num_seqs=row["max_num_seqs"],
    )  # fmt: skip
    assert row["fits"]
    assert row["kv_tokens"] == 16 * (room.num_blocks - 1)


def test_fewer_requests_where_their_states_would_not_fit() -> None:
    rows = model_sheet(CATALOG.model("qwen3.5-397b-a17b-fp8"), CATALOG)["fits"]
    lowered = [row for row in rows if row["lowered"]]
    assert lowered
    assert all(row["fits"] and row["max_num_seqs"] < 1_024 for row in lowered)


def test_the_text_says_what_people_look_for() -> None:
    model = CATALOG.model("qwen3.5-397b-a17b")
    text = sheet_text(model_sheet(model, CATALOG))
    for piece in (
        "396.3 B parameters, 16.33 B active", "60 layers, hidden 4,096",
        f"{model.weight_bytes() / 2**30:.4g} GiB in bf16", "30 KiB per token", "183.2 MiB of state per request",
        "10 of 512 experts", "h200-sxm", "state of constant size",
        "multi-token prediction 6.60 B", "source: ",
    ):  # fmt: skip
        assert piece in text, piece


@pytest.mark.parametrize("name", CATALOG.names("models"))
def test_every_model_has_a_sheet(name: str) -> None:
    text = sheet_text(model_sheet(CATALOG.model(name), CATALOG))
    assert text.startswith(f"{name}: ")
    assert "  h100-sxm" in text
