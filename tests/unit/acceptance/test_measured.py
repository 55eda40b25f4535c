"""Recordings and presets against the table that was measured from those recordings."""

from __future__ import annotations

import csv
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.acceptance.reading_back import CATALOG, ROOT, fates_of, request, tokens_per_step

from servetwin.acceptance.levels import solve_levels
from servetwin.request import Fate

SHARED = ROOT.parent / "shared"
TABLE = SHARED / "validation" / "table_spec_decode_acceptance_llama31_8b.csv"
METHODS = {"EAGLE-3": ("eagle3", "eagle3_accept_len"), "n-gram": ("ngram", "ngram_accept_len")}
DATA = ("gsm8k", "sharegpt", "instructcoder")
DRAFTS = (1, 2, 3, 4, 5, 7)
SEEDS = 24
"""Of a few hundred requests each: their mean has about a third of a percent of noise."""

GOLDEN = {
    ("speed-bench-deepseek-v4-pro", "mtp"): (1.79, 2.27, 2.49, 2.54, 2.55, 2.55, 2.54, 2.58),
    ("speed-bench-deepseek-v4-pro-no-thinking", "mtp"): (1.92, 2.61, 2.97, 3.00, 3.10, 3.16, 3.00, 3.11),
    ("speed-bench-glm-5.2", "mtp"): (1.84, 2.50, 2.99, 3.33, 3.61, 3.78, 3.91, 4.06),
    ("speed-bench-qwen3.5-397b", "mtp"): (1.93, 2.73, 3.39, 3.97, 4.41, 4.80, 5.04, 5.21),
    ("speed-bench-kimi-k2.5", "eagle3"): (1.83, 2.43, 2.88, 3.24, 3.46, 3.62, 3.71, 3.77),
    ("speed-bench-deepseek-v4", "parallel"): (1.84, 2.51, 3.01, 3.36, 3.61, 3.77, 3.73, 3.47),
}
"""Tokens per step for 1 to 8 drafts, as published."""


def recording(name: str) -> Path:
    return SHARED / "speculation" / f"llama31_8b_h100_{name}_acceptance.jsonl.gz"


@cache
def rows() -> dict[tuple[str, str, int], dict[str, str]]:
    """The table. Only an absent folder is a reason to skip."""
    if not SHARED.exists():
        pytest.skip(f"the recordings are not here: {SHARED}")
    with TABLE.open(encoding="utf-8") as file:
        return {(row["dataset"], METHODS[row["method"]][0], int(row["k"])): row for row in csv.DictReader(file)}


@cache
def lengths(name: str, column: str) -> list[int]:
    """Tokens of the outputs that were recorded."""
    with gzip.open(recording(name), "rt", encoding="utf-8") as file:
        return [len(json.loads(line)[column]) for line in file]


def fates(written: Any, method: str, tokens: list[int], seed: int = 0) -> list[Fate]:
    of = fates_of(written, method, seed).of
    return [of(request(id, one)) for id, one in enumerate(tokens)]


def test_the_table_is_complete() -> None:
    assert set(rows()) == {(name, method, k) for name in DATA for method, _ in METHODS.values() for k in DRAFTS}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(("method", "column"), METHODS.values())
def test_recordings_reproduce_the_table(name: str, method: str, column: str) -> None:
    """Steps begin at position 0, as in the table; outputs are as long as those recorded.

    Percentiles have more room: the table gives two decimals, of a definition that is not known.
    """
    table, found = rows(), {}
    replayed = fates({"recorded": str(recording(name)), "column": column}, method, lengths(name, column))
    for k in DRAFTS:
        row = table[name, method, k]
        pooled, each = tokens_per_step(replayed, k)
        found[k] = pooled / float(row["mean_tokens_per_step"]) - 1
        for percentile, value in zip((10, 50, 90), np.percentile(each, (10, 50, 90)), strict=True):
            assert value == pytest.approx(float(row[f"per_req_p{percentile}"]), rel=0.015)
    assert {k: error for k, error in found.items() if abs(error) > 0.0005} == {}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(("method", "column"), METHODS.values())
def test_presets_reproduce_the_table(name: str, method: str, column: str) -> None:
    """Within 2 % over all steps, and within 5 % at percentiles over requests."""
    table, tokens = rows(), lengths(name, column)
    drawn = [fate for seed in range(SEEDS) for fate in fates(name, method, tokens, seed)]
    for k in DRAFTS:
        row = table[name, method, k]
        pooled, each = tokens_per_step(drawn, k)
        assert pooled == pytest.approx(float(row["mean_tokens_per_step"]), rel=0.02), f"{k} drafts"
        for percentile, value in zip((10, 50, 90), np.percentile(each, (10, 50, 90)), strict=True):
            assert value == pytest.approx(float(row[f"per_req_p{percentile}"]), rel=0.05), f"{k} drafts, p{percentile}"


@pytest.mark.parametrize("name", DATA)
def test_the_figures_quoted_in_presets_are_the_table(name: str) -> None:
    text = Path(CATALOG.describe("acceptance", name)["file"]).read_text(encoding="utf-8")
    for method in ("eagle3", "ngram"):
        quoted = " ".join(f"{float(rows()[name, method, k]['mean_tokens_per_step']):.3f}" for k in DRAFTS)
        assert quoted in text


@pytest.mark.parametrize(("name", "method"), GOLDEN)
def test_presets_have_the_published_lengths(name: str, method: str) -> None:
    """As far as lengths never fall when more is drafted; where they do, noise is in the figures."""
    entry = CATALOG.acceptance(name)[method]
    levels = solve_levels(tuple(entry["survival"]), 0.0, 0.0)
    for k, published in enumerate(GOLDEN[name, method], 1):
        falls = any(published < before for before in GOLDEN[name, method][: k - 1])
        assert 1 + float(levels.survival(k).sum()) == pytest.approx(published, rel=0.09 if falls else 0.04)
    text = Path(CATALOG.describe("acceptance", name)["file"]).read_text(encoding="utf-8")
    assert ", ".join(f"{one:.2f}" for one in GOLDEN[name, method]) in text
