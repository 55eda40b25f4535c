"""What a check says in the terminal, in Markdown and in JUnit XML."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from servetwin.report.check import print_check
from servetwin.report.check_markdown import summary
from servetwin.report.check_rows import change, found, tolerance, verdict
from servetwin.report.junit import junit

STARTED = datetime(2026, 11, 30, 12, 1, 2)


def row(metric: str = "ttft_ms.p99", **changed: Any) -> dict[str, Any]:
    return {
        "name": "chat", "scenario": "chat.yaml", "metric": metric, "direction": "lower-is-better", "before": 200.0,
        "after": 208.0, "relative": 0.04, "low": 0.03, "high": 0.05, "pairs": 5,
        "tolerance": {"relative": 0.01, "absolute": 0.0}, **changed,
    }  # fmt: skip


def assertion(**changed: Any) -> dict[str, Any]:
    return {
        "name": "chat", "assertion": "ttft_ms.p99 <= 200 & 'x|y'", "passed": False, "failed_seeds": [1, 2], "seeds": 5,
        "worst_seed": 2, "values": {"ttft_ms.p99": 208.0, "goodput_per_s": None}, **changed,
    }  # fmt: skip


def entry(name: str, *, passed: bool, compared: list[str]) -> dict[str, Any]:
    return {"name": name, "scenario": f"{name}.yaml", "config_hash": "abc", "seeds": [0, 1, 2, 3, 4], "passed": passed,
            "compared": compared, "pairs": 5}  # fmt: skip


def document(**changed: Any) -> dict[str, Any]:
    return {
        "passed": False, "suite": "mine", "description": "Does it hold?", "version": "0.1.0", "interrupted": True,
        "unfinished": ["late"],
        "entries": [
            entry("chat", passed=False, compared=["ttft_ms.p99", "tpot_ms.p99"]),
            entry("code", passed=True, compared=["e2e_ms.p99"]),
        ],
        "assertions": [assertion(), assertion(assertion="completed > 0", passed=True, failed_seeds=[])],
        "regressions": [row()], "improvements": [row("tpot_ms.p99", after=190.0, relative=-0.05)], "unclear": [],
        "changed_metrics": [],
        "changed_scenarios": [
            {"name": "chat", "what": "scenario", "before": "abc", "after": "def"},
            {"name": "code", "what": "seeds", "before": [0, 1], "after": [2]},
        ],
        "updated_baselines": [],
        "notes": [{"name": "code", "text": "few\x1b seeds"}, {"name": None, "text": "an orphan"}],
        **changed,
    }  # fmt: skip


def terminal(answer: dict[str, Any], width: int = 120) -> str:
    out = io.StringIO()
    print_check(answer, Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_the_terminal_names_metric_scenario_and_size() -> None:
    text = terminal(document())
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "suite mine: failed 3 scenarios, 10 runs, 2 assertions, 3 metrics compared"
    assert lines[1] == "Does it hold?"
    assert "chat ttft_ms.p99 200 208 +4.00% [+3.00, +5.00] 1%" in lines
    assert "improved: update the baseline" in lines
    assert "chat failed 5 1 of 2 2 1 1 0" in lines
    assert "late not finished – – – – – –" in lines
    assert "! chat: the scenario has changed since the baseline was made (abc, now def)" in lines
    assert "! code: seeds of the baseline 0, 1, now 2" in lines
    assert "\x1b" not in text
    assert "fails with 2 of 5 seeds" in " ".join(lines)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_figures_are_whole_in_any_terminal(width: int) -> None:
    text = terminal(document(), width)
    assert "+4.00% [+3.00, +5.00]" in text or width == 40
    assert max(len(line) for line in text.splitlines()) <= width


def test_long_tables_are_cut() -> None:
    many = [row(f"x_ms.{number}") for number in range(30)]
    text = terminal(document(regressions=many, unclear=many))
    assert text.count("x_ms.") == 13
    assert "and 20 more" in text and "and 27 more" in text
    # Of doubtful ones those come first that are least likely to be noise.
    clear = row("clear_ms", low=0.039, high=0.041)
    assert "clear_ms" in terminal(document(unclear=[*many, clear]))


def test_words() -> None:
    assert verdict(document(passed=True)) == "passed"
    assert verdict(document(assertions=[], regressions=[])) == "not finished"
    assert found(assertion()) == "ttft_ms.p99 = 208, goodput_per_s = – (seed 2, the worst; fails with 2 of 5 seeds)"
    assert found(assertion(seeds=1, failed_seeds=[2])) == "ttft_ms.p99 = 208, goodput_per_s = – (seed 2)"
    assert change(row(low=None, high=None)) == "+4.00%"
    assert change(row(before=0.0, after=3.5, relative=None, low=2.5, high=4.5)) == "+3.5 [+2.5, +4.5]"
    assert change(row(after=None, relative=None)) == "no longer defined"
    assert change(row(before=None, relative=None)) == "newly defined"
    assert tolerance(row()) == "1%"
    assert tolerance(row(tolerance={"relative": 0.0, "absolute": 2.0})) == "2"
    assert tolerance(row(tolerance={"relative": 0.015, "absolute": 2.0})) == "1.5% or 2"
    assert tolerance(row(tolerance={"relative": 0.0, "absolute": 0.0})) == "0%"


def test_markdown() -> None:
    text = summary(document())
    assert text.startswith("### ❌ servetwin check: mine failed\n")
    assert "| chat | `ttft_ms.p99` | 200 | 208 | +4.00% [+3.00, +5.00] | 1% |" in text
    assert r"`ttft_ms.p99 <= 200 & 'x\|y'`" in text
    assert "- chat: the scenario has changed" in text
    assert "<details>" in summary(document(unclear=[row()]))
    passed = summary(document(passed=True, interrupted=False, unfinished=[], regressions=[], assertions=[]))
    assert passed.startswith("### ✅ servetwin check: mine passed\n")


#: Of the schema of Ant's JUnit task: attributes that an element must have, further ones of Jenkins', and its children.
ELEMENTS = {
    "testsuites": (set(), {"name", "tests", "failures", "errors", "skipped", "time"}, ["testsuite"]),
    "testsuite": (
        {"id", "name", "package", "hostname", "timestamp", "time", "tests", "failures", "errors"}, {"skipped"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "testcase": ({"name", "classname", "time"}, set(), ["skipped", "error", "failure"]),
    "failure": ({"type", "message"}, set(), []),
    "skipped": (set(), {"message"}, []),
    "properties": (set(), set(), ["property"]),
    "system-out": (set(), set(), []),
    "system-err": (set(), set(), []),
}  # fmt: skip


def check_schema(element: ET.Element) -> None:
    required, optional, children = ELEMENTS[element.tag]
    assert required <= set(element.attrib) <= required | optional, element.tag
    order = [children.index(child.tag) for child in element]
    assert order == sorted(order), f"{element.tag}: {[child.tag for child in element]}"
    if element.tag == "testsuite":
        assert [child.tag for child in element if child.tag != "testcase"] == ["properties", "system-out", "system-err"]
    for child in element:
        check_schema(child)


def test_junit_is_valid_and_adds_up() -> None:
    root = ET.fromstring(junit(document(), {"chat": 2.0, "code": 1.0}, STARTED).encode())
    check_schema(root)
    for suite in [*root, root]:
        cases = list(suite.iter("testcase"))
        assert int(suite.attrib["tests"]) == len(cases) > 0
        assert int(suite.attrib["failures"]) == len(list(suite.iter("failure")))
        assert int(suite.attrib["skipped"]) == len(list(suite.iter("skipped")))
        assert float(suite.attrib["time"]) == pytest.approx(
            sum(float(case.attrib["time"]) for case in cases), abs=0.001 * len(cases)
        )
    assert [suite.attrib["failures"] for suite in root] == ["2", "0", "0"]
    assert [suite.attrib["name"] for suite in root] == ["chat", "code", "late"]
    assert root[0].attrib["timestamp"] == "2026-11-30T12:01:02"
    failure = next(case for case in root[0] if case.get("name") == "ttft_ms.p99 is as in the baseline").find("failure")
    assert failure is not None
    for words in ("ttft_ms.p99", "chat", "+4.00%"):
        assert words in failure.attrib["message"]
    # A control character, which no XML may have.
    assert root[1].findtext("system-out") == "code: seeds of the baseline 0, 1, now 2\ncode: few? seeds"
