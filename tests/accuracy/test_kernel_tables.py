"""Single operators against measured kernels: the tables beside the repository, which the constants stand for."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from servetwin.catalog import Catalog
from servetwin.physics.operators import Experts, Gemm
from servetwin.physics.overheads import Machine
from servetwin.specs import MoeMlp

SHARED = Path(__file__).resolve().parents[3] / "shared"
CATALOG = Catalog()
GPUS = {
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "a100_sxm": "a100-sxm-80gb",
    "b200_sxm": "b200-sxm",
    "l40s": "l40s",
}


def machine(gpu: str) -> Machine:
    return Machine.of(CATALOG.gpu(GPUS[gpu]), CATALOG.calibration("default"))


def rows(kind: str, gpu: str) -> Iterator[dict[str, str]]:
    """The rows of a table. Only an absent folder is a reason to skip."""
    if not SHARED.exists():
        pytest.skip(f"the measured kernels are not here: {SHARED}")
    with (SHARED / "kernels" / f"kernels_{kind}_{gpu}.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@pytest.mark.parametrize(("smallest", "largest", "within"), [(1, 128, 0.10), (256, 1_024, 0.16), (2_048, 4_096, 0.18)])
@pytest.mark.parametrize("gpu", GPUS)
def test_matrix_products(gpu: str, smallest: int, largest: int, within: float) -> None:
    on = machine(gpu)
    ratios = []
    for row in rows("gemm", gpu):
        m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
        # Weights that stay in the L2 cache between repetitions are not read from HBM.
        if row["dtype"] == "bfloat16" and smallest <= m <= largest and 2 * n * k > 60e6:
            ratios.append(Gemm("", n, k, "bf16", on).cost(m).seconds * 1e6 / float(row["latency_us"]))
    assert len(ratios) > 10
    assert median(ratios) == pytest.approx(1, abs=within)


@pytest.mark.parametrize("gpu", ["h100_sxm", "h200_sxm", "a100_sxm", "l40s"])
def test_decode_attention(gpu: str) -> None:
    on = machine(gpu)
    kernels = on.kernels
    ratios = []
    for row in rows("decode_attention", gpu):
        batch, context = int(row["batch"]), int(row["context"])
        size = 4.0 * batch * context * int(row["num_kv_heads"]) * int(row["head_dim"])
        if row["kv_cache_dtype"] != "bfloat16" or size < 200e6 or context > 4_096:
            continue
        reading_s = size / (kernels.kv_memory * on.gpu.hbm_bytes_per_s)
        seconds = kernels.layer_s + kernels.attention_per_request_s * batch + reading_s
        ratios.append(seconds * 1e6 / float(row["latency_us"]))
    assert len(ratios) > 10
    assert median(ratios) == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize(("tokens", "within"), [((64, 256), 0.10), ((1_024, 4_096, 16_384), 0.20)])
@pytest.mark.parametrize("gpu", ["h100_sxm", "h200_sxm", "b200_sxm"])
def test_experts(gpu: str, tokens: tuple[int, ...], within: float) -> None:
    """Where the table is balanced every expert is visited from 64 tokens on, as here."""
    on = machine(gpu)
    ratios = []
    for row in rows("moe", gpu):
        count, dtype = int(row["num_tokens"]), row["dtype"]
        if dtype == "bfloat16" and row["moe_ep"] == "1" and row["moe_tp"] in ("1", "2", "4") and count in tokens:
            mlp = MoeMlp(int(row["num_experts"]), int(row["topk"]), int(row["inter"]))
            cost = Experts("", int(row["hidden"]), mlp, "bf16", int(row["moe_tp"]), on).cost(count)
            ratios.append(cost.seconds * 1e6 / float(row["latency_us"]))
    assert len(ratios) >= 10
    assert median(ratios) == pytest.approx(1, abs=within)


@pytest.mark.parametrize("gpu", ["a100_sxm", "l40s"])
def test_attention_over_short_contexts(gpu: str) -> None:
    """The share of peak arithmetic of FlashAttention 2 that ``tile_attention`` stands for."""
    shares = [
        float(row["frac_of_peak_bf16"])
        for row in rows("prefill_attention", gpu)
        if row["isl"] in ("1024", "2048") and int(row["batch"]) >= 4 and row["kv_cache_dtype"] == "bfloat16"
    ]
    share = CATALOG.calibration("default").tile_attention
    assert min(shares) < share < max(shares)
    assert median(shares) == pytest.approx(share, abs=0.06)
