"""Runs priced from measured operators against what vLLM 0.15.1 did; needs the optional package."""

from __future__ import annotations

from importlib import metadata
from statistics import median

import pytest
from tests.accuracy.test_accuracy import case_file

from servetwin.catalog import Catalog
from servetwin.physics.aiconfigurator import PACKAGE, VERSION
from servetwin.studies.validation import RunOptions, build_document, make_plan, run_plan

SUBSET = [
    "vllm-h100-feb-20260218-150956-codellama-34b-tp2-codegen",
    "vllm-s2r-18-llama-3-1-8b-tp1-codegen-1",
    "vllm-s2r-27-mixtral-8x7b-tp2-general-lite-2-1",
    "vllm-s2r-58-llama-2-70b-tp4-general-lite-4-1",
    "vllm-s2r-59-qwen3-14b-tp1-general-lite-1-1",
]


def test_tables_come_near_the_measured_means() -> None:
    """Nothing was fitted to these runs; over all 34 the median is 2.7 %."""
    try:
        found = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        found = "none"
    if found != VERSION:
        pytest.skip(f"{PACKAGE} {VERSION} is not installed: pip install 'servetwin[tables]'")
    todo = make_plan(case_file().choose(ids=SUBSET), Catalog())
    document = build_document(todo, run_plan(todo, RunOptions(changes=("physics.backend=tables",))))
    errors = [
        abs(row["error_pct"])
        for row in document["cases"]
        if row["stage"] == "summary" and row["metric"] == "tpot_ms.mean"
    ]
    assert len(errors) == len(SUBSET)
    assert median(errors) < 4
    assert max(errors) < 8
