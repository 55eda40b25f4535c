"""The committed page about accuracy agrees with itself, with the package, and with what other pages quote from it."""

from __future__ import annotations

import importlib
import json
import re
from types import ModuleType

import pytest
from tests.docs.blocks import ROOT, pages
from tests.docs.test_generated import generate

import servetwin

assert generate, "puts scripts/ on the path"
quoted: ModuleType = importlib.import_module("docs_accuracy")

CASES = ROOT.parent / "shared" / "validation" / "cases.json"
_AGAIN = "run servetwin validate and scripts/accuracy, then scripts/docs update"


def test_it_is_of_this_version() -> None:
    assert quoted.run()[0] == servetwin.__version__, _AGAIN


def test_its_counts_add_up() -> None:
    """The sentence, the rows of the whole table, and the tables of what has no score."""
    every, scored, waiting, excluded = quoted.counts()
    assert every == scored + waiting + excluded
    rows = [row for table in quoted.tables("## Every case") for row in table]
    assert len({row["case"] for row in rows}) == len(rows) == scored
    for heading, count in (("### What waits", waiting), ("### What is excluded", excluded)):
        *reasons, total = quoted.tables(heading)[0]
        assert sum(int(row["cases"]) for row in reasons) == int(total["cases"]) == count


def test_it_is_about_all_cases() -> None:
    """Of the public file, where it is at hand."""
    if not CASES.exists():
        pytest.skip(f"the measured cases are not here: {CASES}")
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    every, _, _, excluded = quoted.counts()
    assert every == len(cases)
    assert excluded == sum(not case["usable_for_scoring"] for case in cases)
    assert {row["case"] for table in quoted.tables("## Every case") for row in table} <= {case["id"] for case in cases}


def test_its_rows_give_its_means() -> None:
    """The mean over the rows of the set that has targets, within rounding."""
    (rows,) = quoted.tables("### Serving, set vllm-0.15.1")
    for metric, row in quoted.errors("set `vllm-0.15.1`").items():
        errors = [abs(float(one[metric])) for one in rows if one[metric] != "–"]
        assert len(errors) == int(row["n"])
        assert sum(errors) / len(errors) == pytest.approx(float(row["mean"]), abs=0.1)


def test_the_targets_are_judged_rightly() -> None:
    targets = quoted.tables("## In short")[0]
    assert len(targets) == len(importlib.import_module("accuracy_notes").read_notes(
        ROOT / "scripts" / "accuracy_notes.yaml"
    ).targets)  # fmt: skip
    for row in targets:
        if row["n"] == "0":
            assert row[""] == "not scored"
        elif abs(float(row["error [%]"]) - float(row["target [%]"])) > 0.05:
            met = float(row["error [%]"]) < float(row["target [%]"])
            assert row[""] == ("met" if met else "**missed**")


def test_ten_worst_cases() -> None:
    """The largest errors of the whole table, each with words about it."""
    chapter = quoted.text().partition("\n## The ten worst cases\n")[2].partition("\n## ")[0]
    worst = re.findall(r"^\d+\. `(.+?)` .*?%\)?\. (\S.*)$", chapter, re.MULTILINE)
    assert len(worst) == 10
    rows = [row for table in quoted.tables("## Every case") for row in table if row["absolute"] != "–"]
    errors = {row["case"]: float(row["absolute"].replace(",", "")) for row in rows}
    assert min(errors[case] for case, _ in worst) >= sorted(errors.values())[-10]


def test_errors_are_quoted_from_the_page_only() -> None:
    """Sentences with figures about the scored set stand in generated parts, which another test keeps current."""
    generated = re.compile(r"<!-- generated: .+?<!-- end of generated part -->", re.DOTALL)
    claim = re.compile(r"(mean|TPOT|TTFT|E2E)[^.|]{0,40}\boff by [\d.]+|\b34 (public )?(vLLM )?runs")
    for page in pages():
        if page != quoted.PAGE:
            text = " ".join(generated.sub("", page.read_text(encoding="utf-8")).split())
            assert claim.search(text) is None, f"{page.name}: {claim.search(text)}"
