"""``servetwin validate``, as a user runs it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Program
from tests.unit.studies.validation.small_cases import everything, inference_perf, sweep, write

PLUGIN = """
import pathlib
from servetwin.studies.validation import one_run

whole = one_run.measure

def measure(trial, result):
    found = whole(trial, result)
    pathlib.Path("ended").touch()
    return found

one_run.measure = measure
"""
"""Says by a file that a run has ended."""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return write(tmp_path, everything())


def test_tables_and_files(cli: Cli, cases: Path, tmp_path: Path) -> None:
    done = cli("validate", cases, "--out", "scored", "--jobs", "1")
    assert done.code == 0, done.err
    for words in (
        "14 cases", "8 scored", "1 excluded", "set vllm-0.15.1", "engine vllm", "dense models", "h100-sxm",
        "other-simulator", "furthest off",
    ):  # fmt: skip
        assert words in done.out
    assert {path.name for path in (tmp_path / "scored").iterdir()} == {"report.md", "errors.csv", "validate.json"}


def test_json_is_one_document_whatever_the_number_of_jobs(cli: Cli, cases: Path) -> None:
    texts = [
        cli("validate", cases, "--case", "perf", "--case", "sweep", "--json", "--seed", "5", "--jobs", jobs).out
        for jobs in ("1", "2")
    ]
    # The day may change between the two.
    assert len({text.replace(json.loads(text)["date"], "today") for text in texts}) == 1
    answer = json.loads(texts[0])
    assert answer["seed"] == 5
    assert answer["command"] == [
        "servetwin", "validate", str(cases), "--case", "perf", "--case", "sweep", "--seed", "5",
    ]  # fmt: skip
    assert date.fromisoformat(answer["date"])
    assert set(answer["kinds"]) == {"serving", "concurrency_sweep"}
    assert {row["id"] for row in answer["cases"]} == {"perf", "sweep"}


def test_quiet_prints_nothing(cli: Cli, cases: Path) -> None:
    done = cli("validate", cases, "--kind", "spec_decode", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_overrides(cli: Cli, cases: Path) -> None:
    done = cli("validate", cases, "--case", "sweep", "--json", "--set", "physics.calibration=default")
    assert json.loads(done.out)["overrides"] == ["physics.calibration=default"]
    cli("validate", cases, "--case", "sweep", "--set", "physics.calibratoin=default").refused(
        "calibratoin", "calibration"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.json",), ("no such case file", "absent.json")),
        (("cases.json", "--kind", "serve"), ("no case of this kind", "nearest: serving")),
        (("cases.json", "--case", "tabel"), ("no case of this id", "nearest: table")),
        (("cases.json", "--jobs", "0"), ("--jobs",)),
        (("cases.json", "--out", ""), ("--out",)),
        ((), ("CASES.json",)),
    ],
)
def test_bad_usage(cli: Cli, cases: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    cli("validate", *arguments).refused(*words)


def test_a_malformed_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text('{"cases": [{"id": "a"}]}')
    cli("validate", "cases.json").refused("cases.0.kind")
    write(tmp_path, [inference_perf(workload={"prefix_groups_effective": 10})])
    cli("validate", "cases.json").refused("cases.0.workload.stages", "perf")


@pytest.mark.parametrize(("jobs", "number"), [("1", signal.SIGINT), ("2", signal.SIGINT), ("2", signal.SIGTERM)])
def test_interrupted(tmp_path: Path, started: Callable[..., Program], jobs: str, number: signal.Signals) -> None:
    """The first run is short and the second long: the signal comes in the middle of the second one."""
    point = {"tpot_ms": {"mean_or_median": 6.0}}
    short = sweep("short", measured={"conc_1": point})
    long = sweep("long", measured={"isl64_osl900_conc64": {**point, "n_requests": 800_000}}, workload={})
    write(tmp_path, [short, long])
    (tmp_path / "plugin.py").write_text(PLUGIN)
    command = ["validate", "cases.json", "--out", "kept", "--json", "--jobs", jobs, "--plugin", "plugin.py"]
    program = started(*command)
    program.wait_until((tmp_path / "ended").exists)
    # Time for the answer of the short run to reach the parent.
    time.sleep(2)
    done = program.stop(number)
    assert done.code == 128 + number, done.err
    answer = json.loads(done.out)
    assert answer["interrupted"]
    assert answer["counts"]["unfinished"] == ["long"]
    assert {row["id"] for row in answer["cases"]} == {"short"}
    assert "interrupted after 1 of 2 runs: what was finished is in kept" in done.err
    assert "Traceback" not in done.err
    assert json.loads((tmp_path / "kept" / "validate.json").read_text()) == answer
