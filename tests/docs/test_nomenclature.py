"""The nomenclature explains the words that the tables of the terminal print."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from tests.docs.blocks import ROOT
from tests.unit.results.building import drafting_run, split_run

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.policies import KINDS, union
from servetwin.records import LEDGER_BUCKETS
from servetwin.report.tables import print_result
from servetwin.request import OUTCOMES
from servetwin.scenario.load import load_scenario
from servetwin.studies.explain import Step, explain

TEXT = (ROOT / "docs" / "nomenclature.md").read_text(encoding="utf-8")
WORDS = TEXT.lower()

EXPLAINED = {  # a model with each kind of layer, and where it fits
    "llama-3.1-8b": ("h100-sxm", 1), "mixtral-8x7b": ("h100-sxm", 4), "deepseek-v3.2": ("b200-sxm", 8),
    "qwen3-next-80b-a3b": ("h200-sxm", 4), "gpt-oss-120b": ("h100-sxm", 4), "opt-13b": ("h100-sxm", 2),
}  # fmt: skip


@pytest.mark.parametrize("model", sorted(EXPLAINED))
def test_operators_and_phases(model: str) -> None:
    """Those of each kind of layer."""
    gpu, tensor = EXPLAINED[model]
    changes = [f"model={model}", f"cluster.hardware={gpu}", f"cluster.parallel.tensor={tensor}"]
    catalog = Catalog()
    scenario = load_scenario("quickstart", [*changes, "cluster.engine.max_model_len=2048"], catalog)
    document = explain(scenario, Step.of(8, 500, 300), catalog)
    names = {re.sub(r"\.\d+$", ".N", operator["name"]) for operator in document["operators"]}
    assert sorted(name for name in names if f"`{name}`" not in TEXT) == []
    assert {phase["resource"] for phase in document["phases"]} <= {"host", "sm", "hbm", "link"}
    assert all(f"`{resource}`" in TEXT for resource in ("sm", "hbm"))


def test_buckets_and_outcomes() -> None:
    """All of them."""
    assert [bucket for bucket in LEDGER_BUCKETS if f"`{bucket}`" not in TEXT] == []
    assert [outcome for outcome in OUTCOMES if outcome not in WORDS] == []


def test_labels_of_a_run() -> None:
    """The words in the first column, and the metrics."""
    result = servetwin.run("quickstart", run__requests=300)
    printed = io.StringIO()
    print_result(result.summary(), result.ledger(), Console(file=printed, width=100))
    labels = {re.split(r"\s{2,}", line)[0] for line in printed.getvalue().splitlines()}
    for metric in ("TTFT", "TPOT", "ITL", "E2E"):
        assert metric in labels
        assert f"\n| {metric} |" in TEXT
    for label in ("prefix cache hits", "KV cache in use", "goodput"):
        assert label in labels
        assert label.lower().removesuffix(" in use") in WORDS


def test_labels_of_speculation() -> None:
    """Those that only runs with speculation have."""
    printed = io.StringIO()
    result = drafting_run()
    print_result(result.summary(), result.ledger(), Console(file=printed, width=100))
    labels = {re.split(r"\s{2,}", line)[0] for line in printed.getvalue().splitlines()}
    for label in ("acceptance length", "draft acceptance", "wasted verification", "drafting"):
        assert label in labels
        assert label in WORDS


def test_labels_of_hand_overs() -> None:
    """Those that only runs with split requests have."""
    labels = set()
    for first_token in ("decode", "prefill"):
        printed = io.StringIO()
        result = split_run(300, first_token)
        print_result(result.summary(), result.ledger(), Console(file=printed, width=100))
        labels |= {re.split(r"\s{2,}", line.strip())[0] for line in printed.getvalue().splitlines()}
    for label in ("KV transfer", "decode queue", "decode admission", "hand-over gap", "split requests",
                  "KV cache moved", "hidden transfer", "stranded KV cache", "prefill : decode"):  # fmt: skip
        assert label in labels, label
        assert label.lower().removesuffix("s") in WORDS


def test_scheduling_policies_by_their_initials() -> None:
    """What the other policies do, their names say."""
    assert "scheduling" in KINDS
    short = [policy.name() for policy in union("scheduling") if len(policy.name()) <= 4]
    assert short
    assert [name for name in short if name not in WORDS] == []


@pytest.mark.parametrize(
    "word",
    ["ttft", "tpot", "itl", "goodput", "prefill", "decode", "chunked prefill", "prefix cache", "tensor parallelism",
     "data parallelism", "pipeline parallelism", "expert parallelism", "all-reduce", "roofline", "arithmetic intensity",
     "block", "preemption", "slo attainment"],
)  # fmt: skip
def test_words_of_the_field(word: str) -> None:
    """Each has a row of its own, with a meaning."""
    rows = [line.split("|") for line in WORDS.splitlines() if line.startswith("| ") and word in line.split("|")[1]]
    assert rows
    assert all(len(row[3].strip()) > 20 for row in rows if len(row) == 6)
