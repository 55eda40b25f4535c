"""The rows of the tables as samples, by class of kernels and data type; what is left out, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from servetwin.studies.calibration.samples import DecodeSample, ExpertsSample, PrefillSample, ProductSample, Sample
from servetwin.studies.calibration.tables import DECODE, GEMM, MOE, PREFILL, Row, rows

_PRODUCTS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
_COPIES = {"bf16": 6, "fp8": 6, "fp8_block": 6, "nvfp4": 1}
"""Sets of weights that the benchmark of aiconfigurator (collector/vllm/collect_gemm.py, ``outside_loop_count``) takes
in turn, so that weights that would fit into the L2 cache are still read from HBM."""

PER_TENSOR = "fp8 per tensor"
"""Experts with one scale per tensor. Reported, but not what the simulator prices: mixtures are published in 8 bits with
a scale per block (DeepSeek, Qwen3) or per channel, and vLLM runs these with other kernels."""

_EXPERTS = {
    "bfloat16": "bf16", "fp8_block": "fp8", "fp8": PER_TENSOR, "w4a16_mxfp4": "mxfp4", "nvfp4": "nvfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8",
}  # fmt: skip
_CACHES = {"bfloat16": "bf16", "fp8": "fp8"}


@dataclass
class Measured:
    """The samples of one class of kernels on one GPU, by data type, and how many rows were left out, by reason."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, dtype: str, sample: Sample | str, l2_bytes: float) -> None:
        """Keep a sample, or count it by the reason to leave it out, which is given in its place."""
        kept = self.samples.setdefault(dtype, [])
        reason = sample if isinstance(sample, str) else "in L2" if sample.operand_bytes() <= l2_bytes else ""
        if isinstance(sample, str) or reason:
            counts = self.left_out.setdefault(dtype, {})
            counts[reason] = counts.get(reason, 0) + 1
        else:
            kept.append(sample)


def measured(folder: Path, kind: str, gpu: str, l2_bytes: float) -> Measured:
    """The samples of one table.

    Args:
        folder: where the tables are.
        kind: gemm, decode_attention, prefill_attention or moe.
        gpu: the GPU, as the file's name has it.
        l2_bytes: size of its L2 cache [B]: rows whose operands fit are left out, for they time the cache.
    """
    found = Measured()
    for dtype, sample in _READERS[kind](rows(folder, kind, gpu)):
        found.add(dtype, sample, l2_bytes)
    return found


def _dtype(row: Row, column: str, known: dict[str, str]) -> str:
    name = row.text(column)
    if name not in known:
        raise row.error("this data type is not known", column, name, known)
    return known[name]


def _products(table: Iterator[Row]) -> Iterator[tuple[str, Sample | str]]:
    for row in table:
        dtype = _dtype(row, "dtype", _PRODUCTS)
        yield dtype, ProductSample(row.count("m"), row.count("n"), row.count("k"), dtype, _COPIES[dtype], row.seconds())


def _experts(table: Iterator[Row]) -> Iterator[tuple[str, Sample | str]]:
    for row in table:
        label = _dtype(row, "dtype", _EXPERTS)
        tokens, top_k, experts = row.count("num_tokens"), row.count("topk"), row.count("num_experts")
        ranks = row.count("moe_ep")
        visited = _visited(row.text("token_distribution"), tokens, top_k, experts, ranks)
        if visited is None:
            yield label, "load of the rank not recorded"
            continue
        yield label, ExpertsSample(
            tokens, row.count("hidden"), row.count("inter"), top_k, experts, row.count("moe_tp"), ranks, visited,
            "fp8" if label == PER_TENSOR else label, row.seconds(),
        )  # fmt: skip


def _visited(distribution: str, tokens: int, top_k: int, experts: int, ranks: int) -> float | None:
    """Distinct experts that a rank is asked for; None where the table does not say enough.

    Balanced tokens go to the experts in turn. A power law draws the tokens of each expert from x^-alpha on
    [1, 0.8 tokens] and scales them to tokens · top_k (collector/helper.py of aiconfigurator); the quantiles stand for
    the draws. With several ranks the benchmark times the busiest one, whose share depends on the draw.
    """
    if distribution == "balanced":
        return max(1.0, min(experts, tokens * top_k) / ranks)
    if not distribution.startswith("power_law_") or ranks > 1:
        return None
    exponent = 1.0 - float(distribution.removeprefix("power_law_"))
    largest = max(0.8 * tokens, 1.0001) ** exponent
    drawn = [((largest - 1.0) * (i + 0.5) / experts + 1.0) ** (1.0 / exponent) for i in range(experts)]
    share = tokens * top_k / sum(drawn)
    found: float = sum(min(1.0, part * share) for part in drawn)
    return max(float(top_k), found)


def _attention(
    table: Iterator[Row], column: str, sample: Callable[[int, int, int, int, int, str, float], Sample]
) -> Iterator[tuple[str, Sample | str]]:
    for row in table:
        dtype = _dtype(row, "kv_cache_dtype", _CACHES)
        yield dtype, sample(
            row.count("num_heads"), row.count("num_kv_heads"), row.count("head_dim"), row.count("batch"),
            row.count(column), dtype, row.seconds(),
        )  # fmt: skip


def _decodes(table: Iterator[Row]) -> Iterator[tuple[str, Sample | str]]:
    return _attention(table, "context", DecodeSample)


def _prefills(table: Iterator[Row]) -> Iterator[tuple[str, Sample | str]]:
    return _attention(table, "isl", PrefillSample)


_READERS = {GEMM: _products, MOE: _experts, DECODE: _decodes, PREFILL: _prefills}
