"""What the pages about findings say in sentences is what the simulator says now; their tables are generated parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.docs.blocks import ROOT
from tests.docs.test_generated import generate

from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError
from servetwin.scenario.load import load_scenario

capacity: ModuleType = generate.capacity_100b

BF16 = {
    "a100-sxm-80gb": 4, "h100-sxm": 4, "h20": 4, "h200-sxm": 2, "b200-sxm": 2, "gb200-nvl72": 2, "b300-sxm": 1,
    "mi300x": 2, "l40s": 8,
}  # fmt: skip
"""Smallest degree that holds 201 GB of weights, worked by hand from the memory of the data sheets."""

FP8 = {"a100-sxm-80gb": 2, "h100-sxm": 2, "h20": 2, "h200-sxm": 1, "b200-sxm": 1, "l40s": 4}


def _page() -> str:
    return " ".join((ROOT / "docs" / "findings" / "capacity-100b.md").read_text(encoding="utf-8").split())


def _smallest(gpu: str, precision: str) -> int:
    return next(tensor for tensor in (1, 2, 4, 8) if capacity.place(gpu, tensor, precision).explained is not None)


def _servetwin(*arguments: str, cwd: Path) -> Any:
    command = [sys.executable, "-m", "servetwin", *arguments, "--json"]
    return json.loads(subprocess.run(command, cwd=cwd, capture_output=True, check=True).stdout)


def test_the_model_has_100_billion_parameters() -> None:
    """Its shapes, multiplied out here."""
    hidden, vocab, layers = 10_240, 128_256, 88
    attention, mlp = 2 * hidden * hidden + 2 * hidden * 8 * 128, 3 * hidden * 28_672
    wanted = layers * (attention + mlp + 2 * hidden) + 2 * vocab * hidden + hidden
    model = Catalog().model("dense-100b")
    assert model.parameters() == wanted
    assert model.weight_bytes("bf16") == pytest.approx(2 * wanted, rel=1e-6)
    assert round(wanted / 1e9, 1) == 100.4 and "100.4 B parameters, 201 GB (187 GiB)" in _page()
    assert model.kv_bytes_per_token() == 352 * 1024 and "352 KiB of KV cache per token" in _page()
    assert f"in 8 bits are {model.weight_bytes('fp8') / 1e9:.0f} GB" in _page()
    assert f"in 4 bits {model.weight_bytes('int4') / 1e9:.0f} GB" in _page()


@pytest.mark.parametrize("gpu", sorted(BF16))
def test_smallest_degree_in_bf16(gpu: str) -> None:
    """One H100 and one B200 are too small; what is the least that is not?"""
    assert _smallest(gpu, "bf16") == BF16[gpu]


@pytest.mark.parametrize("gpu", sorted(FP8))
def test_smallest_degree_in_fp8(gpu: str) -> None:
    """Half of the GPUs or fewer."""
    assert _smallest(gpu, "fp8") == FP8[gpu]


@pytest.mark.parametrize(
    ("gpu", "tensor", "smallest", "room"),
    [("h100-sxm", 1, 4, 69.3), ("h100-sxm", 2, 4, 69.5), ("b200-sxm", 1, 2, 158.8)],
)
def test_too_few_gpus_are_refused_with_the_number_that_does(
    gpu: str, tensor: int, smallest: int, room: float, tmp_path: Path
) -> None:
    """Exit 2, before anything runs and anything is written."""
    changes = ["--set", f"cluster.hardware={gpu}", "--set", f"cluster.parallel.tensor={tensor}", "--out", "out"]
    command = [sys.executable, "-m", "servetwin", "run", "capacity-100b", *changes]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"the weights of dense-100b do not fit on {tensor} × {gpu}" in done.stderr
    assert f"{187.07 / tensor:.1f} GiB per GPU, room for {room} GiB" in done.stderr
    assert f"cluster.parallel.tensor: {smallest} is the smallest degree that fits" in done.stderr
    assert not list(tmp_path.iterdir())


def test_three_gpus_hold_it_and_cannot_share_it_out() -> None:
    """The page says so of the H100."""
    assert Catalog().model("dense-100b").weight_bytes("bf16") / 3 < capacity.room_bytes("h100-sxm")
    with pytest.raises(CapacityError, match="80 query heads"):
        load_scenario("capacity-100b", ["cluster.parallel.tensor=3"])


def test_a_row_is_what_the_two_commands_say(tmp_path: Path) -> None:
    """Two H200s, as the page has them."""
    places = ["--set", "cluster.hardware=h200-sxm", "--set", "cluster.parallel.tensor=2"]
    step = _servetwin("explain", "capacity-100b", *places, "--batch", "1", "--context", "1000", cwd=tmp_path)
    run = _servetwin("run", "capacity-100b", *places, "--no-figures", cwd=tmp_path)
    row = next(line for line in capacity.degrees_table().splitlines() if line.startswith("| `h200-sxm` | 121.4 | 2 |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[4:8] == [
        f"{step['memory']['kv_capacity_tokens']:,}", f"{step['step']['total_us'] / 1000:.2f}",
        f"{run['itl_ms.p50']:.2f}", f"{run['itl_ms.p99']:.1f}",
    ]  # fmt: skip
    assert cells[10] == f"{run['cost_per_million_output_tokens']:.2f}"


def test_sentences_about_the_table() -> None:
    """The claims under "What it says"."""
    four = capacity.place("h100-sxm", 4)
    assert f"need {four.explained['step']['floor_us'] / 1000:.1f} ms for that" in _page()
    assert f"{four.alone_ms:.1f} ms is what kernels reach" in _page()
    assert f"room for {four.kv_tokens / 1000:.0f},000 tokens of KV cache" in _page()
    assert 1 / 8 < capacity.under_load("h100-sxm", 4)["kv_use_max"] < 1 / 6
    assert 365_000 < capacity.place("b200-sxm", 2).kv_tokens < 380_000
    assert capacity.place("h20", 4).alone_ms < four.alone_ms
    two, eight = capacity.under_load("b200-sxm", 2), capacity.under_load("b200-sxm", 8)
    assert f"falls from {two['itl_ms.p50']:.1f} to {eight['itl_ms.p50']:.1f} ms" in _page()
    dearer = eight["cost_per_million_output_tokens"] / two["cost_per_million_output_tokens"]
    assert 3.7 < dearer < 4.3
    alone = [capacity.place("b200-sxm", degree, precision).alone_ms for degree, precision in ((1, "fp8"), (2, "bf16"))]
    assert alone[0] == pytest.approx(alone[1], rel=0.15)
    assert "| `h20` \\* | 81.1 | 4 | 46.8 | 408,640 |" in capacity.degrees_table()
    assert capacity.degrees_table().count("overloaded") == 2
