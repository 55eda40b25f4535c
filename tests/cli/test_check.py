"""``servetwin check``, as a user runs it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.cli.conftest import Cli, Program

PLUGIN = """
import pathlib
from servetwin.studies.check import running

whole = running.execute

def execute(scenario, **options):
    result = whole(scenario, **options)
    pathlib.Path("ended").touch()
    return result

running.execute = execute
"""
"""Says by a file that a run has ended."""


@pytest.fixture
def suite(tmp_path: Path, small: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "scenarios:\n"
        f"  - {{name: small, scenario: {small.name}, seeds: [0, 1, 2], assert: [ttft_ms.p99 <= 500]}}\n"
        f"  - {{name: alone, scenario: {small.name}, seeds: [0], set: {{cluster.replicas: 1}}}}\n"
    )
    return file


def test_baseline_pass_and_fail(cli: Cli, suite: Path, tmp_path: Path) -> None:
    cli("check", suite.name).refused("no baseline of small", "servetwin check mine.yaml --update-baseline")
    made = cli("check", suite.name, "--update-baseline")
    assert (made.code, made.err) == (0, "")
    assert "baselines/mine/small.json written" in made.out
    assert sorted(path.name for path in (tmp_path / "baselines" / "mine").iterdir()) == ["alone.json", "small.json"]
    passed = cli("check", suite.name)
    assert (passed.code, passed.err) == (0, "")
    assert "suite mine: passed" in passed.out
    failed = cli(
        "check", suite.name, "--set", "cluster.slowdown=1.1", "--junit", "xml/j.xml", "--summary", "s.md", "--out", "o",
    )  # fmt: skip
    assert (failed.code, failed.err) == (1, "")
    for words in ("suite mine: failed", "tpot_ms.mean", "worse than the baseline", "the scenario has changed"):
        assert words in failed.out
    assert int(ET.parse(tmp_path / "xml" / "j.xml").getroot().attrib["failures"]) > 3
    assert (tmp_path / "s.md").read_text(encoding="utf-8").startswith("### ❌ servetwin check: mine failed")
    kept = {path.relative_to(tmp_path / "o").as_posix() for path in (tmp_path / "o").rglob("*.*")}
    assert {"check.json", "junit.xml", "summary.md", "runs/small-2.json", "runs/alone-0.json"} <= kept
    assert json.loads((tmp_path / "o" / "runs" / "small-2.json").read_text())["seed"] == 2


def test_json_is_one_document_whatever_the_number_of_jobs(cli: Cli, suite: Path) -> None:
    cli("check", suite.name, "--update-baseline", "--quiet")
    slower = ("check", suite.name, "--json", "--set", "cluster.slowdown=1.1")
    texts = [cli(*slower, "--jobs", jobs) for jobs in ("1", "2")]
    assert texts[0].out == texts[1].out and texts[0].code == texts[1].code == 1
    answer = json.loads(texts[0].out)
    assert {"passed", "assertions", "regressions", "changed_scenarios"} <= set(answer)
    assert answer["passed"] is False and answer["regressions"][0]["name"] == "small"


def test_another_folder_of_baselines(cli: Cli, suite: Path, tmp_path: Path) -> None:
    assert cli("check", suite.name, "--baseline", "reviewed", "--update-baseline").code == 0
    assert (tmp_path / "reviewed" / "mine" / "small.json").is_file()
    assert cli("check", suite.name, "--baseline", "reviewed", "--quiet").out == ""
    quiet = cli("check", suite.name, "--baseline", "reviewed", "--quiet", "--set", "cluster.slowdown=2")
    assert (quiet.code, quiet.out, quiet.err) == (1, "", "the suite mine has failed\n")


def test_pipes_and_links_are_not_replaced(cli: Cli, suite: Path, tmp_path: Path) -> None:
    cli("check", suite.name, "--update-baseline", "--quiet")
    assert cli("check", suite.name, "--quiet", "--summary", "/dev/stdout").out.startswith("### ✅")
    (tmp_path / "link").symlink_to(tmp_path / "summary.md")
    cli("check", suite.name, "--quiet", "--summary", "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("### ✅")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.yaml",), ("no such suite file", "absent.yaml")),
        ((".",), ("this is a directory", "mine.yaml")),
        (("mine.yaml", "--seed", "3", "--update-baseline"), ("--update-baseline", "found:   --seed")),
        (("mine.yaml", "--set", "run.requests=3", "--update-baseline"), ("a baseline holds what the suite says",)),
        (("mine.yaml", "--update-baseline", "--baseline", "mine.yaml"), ("cannot be written", "mine.yaml")),
        (("mine.yaml", "--set", "run.requsts=3"), ("--set run.requsts=3", "nearest: requests")),
        (("mine.yaml", "--set", "run.seed=3"), ("--seed N",)),
        (("mine.yaml", "--set", "run={seed: 3, requests: 9}"), ("--seed N",)),
        (("mine.yaml", "--update-baseline", "--junit", "f", "--summary", "f"), ("--junit, --summary", "two files")),
        (("mine.yaml", "--update-baseline", "--junit", "."), ("it is a directory",)),
        (("mine.yaml", "--update-baseline", "--summary", "mine.yaml/f"), ("it is a file",)),
        (("mine.yaml", "--update-baseline", "--out", "mine.yaml"), ("it is a file",)),
        (("mine.yaml", "--jobs", "0"), ("--jobs",)),
        (("mine.yaml", "--seed", "-1"), ("--seed",)),
        (("mine.yaml", "--summary", ""), ("the name of a file",)),
        ((), ("SUITE.yaml",)),
    ],
)
def test_bad_usage(cli: Cli, suite: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    cli("check", *arguments).refused(*words)


@pytest.mark.parametrize(("jobs", "number"), [("1", signal.SIGINT), ("2", signal.SIGTERM)])
def test_interrupted(
    tmp_path: Path, small: Path, started: Callable[..., Program], jobs: str, number: signal.Signals
) -> None:
    """The first scenario is short and the second long: the signal comes in the middle of the second one."""
    (tmp_path / "mine.yaml").write_text(
        "seeds: [0]\n"
        "scenarios:\n"
        f"  - {{name: short, scenario: {small.name}, assert: [completed > 0]}}\n"
        f"  - {{name: long, scenario: {small.name}, set: {{run.requests: 3000000}}}}\n"
    )
    (tmp_path / "plugin.py").write_text(PLUGIN)
    command = [
        "check",
        "mine.yaml",
        "--update-baseline",
        "--out",
        "o",
        "--json",
        "--jobs",
        jobs,
        "--plugin",
        "plugin.py",
    ]
    program = started(*command)
    program.wait_until((tmp_path / "ended").exists)
    # Time for the answer of the short run to reach the parent.
    time.sleep(2)
    done = program.stop(number)
    assert done.code == 128 + number, done.err
    answer = json.loads(done.out)
    assert answer["interrupted"] and not answer["passed"]
    assert (answer["unfinished"], [entry["name"] for entry in answer["entries"]]) == (["long"], ["short"])
    assert "interrupted after 1 of 2 runs: what was finished is in o" in done.err
    assert json.loads((tmp_path / "o" / "check.json").read_text()) == answer
    # Half a baseline is none.
    assert [path.name for path in (tmp_path / "baselines" / "mine").iterdir()] == ["short.json"]
