"""``servetwin sweep``, as a user runs it: also killed at any moment, with real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Cli

SWEEP = """
scenario: small.yaml
set: {run.requests: 20}
fields:
  workload.arrivals.rate_per_s: [5, 10, 20]
  cluster.replicas: [1, 2]
skip_if: "cluster.replicas == 2 and workload.arrivals.rate_per_s == 5"
"""
SIXTY = """
scenario: small.yaml
set: {run.requests: 20}
design: lhs
points: 20
replications: 3
fields:
  workload.arrivals.rate_per_s: {min: 2, max: 200, log: true}
  cluster.replicas: {min: 1, max: 4, integer: true}
"""

KILLER = """
import os, signal
from servetwin.studies.sweep import folder, running

moment, number = os.environ.get("KILL", "never:0").split(":")
write_point, write_text, write_table = folder.Folder.write_point, folder.write_text, running.write_table
count = 0

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def point(self, key, summary):
    global count
    count += 1
    if count == int(number) and moment == "before":
        kill()
    if count == int(number) and moment == "half":
        def half(path, text):
            path.with_name(f".{path.name}.part").write_text(text[:len(text) // 2])
            kill()
        folder.write_text = half
    write_point(self, key, summary)
    if count == int(number) and moment == "after":
        kill()

def table(path, plan, rows):
    if moment == "table":
        path.with_name(f".{path.name}.part").write_bytes(b"PAR1")
        kill()
    write_table(path, plan, rows)
    if moment == "end":
        kill()

folder.Folder.write_point, running.write_table = point, table
"""
"""Kills the process that it is loaded into at the moment that KILL names."""


@pytest.fixture
def file(small: Path) -> Path:
    path = small.parent / "sweep.yaml"
    path.write_text(SWEEP)
    return path


def points(folder: Path) -> int:
    return len(list((folder / "points").glob("*.json")))


def test_table_pictures_and_files(cli: Cli, file: Path, tmp_path: Path) -> None:
    done = cli("sweep", file, "--out", "swept", "--jobs", "1")
    assert done.code == 0, done.err
    for words in ("rate_per_s", "replicas", "ttft_ms.p99", "5 runs, 0 of them taken over, 0 failed; 1 skipped",
                  "written to swept"):  # fmt: skip
        assert words in done.out
    names = {path.name for path in (tmp_path / "swept").iterdir()}
    assert names == {"results.parquet", "points", "sweep-1-ttft_ms.p99.png", "sweep-2-tpot_ms.mean.png",
                     "sweep-3-output_tokens_per_s_per_gpu.png"}  # fmt: skip
    assert points(tmp_path / "swept") == 5


def test_what_to_know_before_trusting_a_figure(cli: Cli, file: Path, tmp_path: Path) -> None:
    """Whether a run meets the SLO, how many warn of what, from which file a row comes, why there is no picture."""
    file.write_text(
        "scenario: small.yaml\nset: {run.requests: 60, slo: {ttft_ms: {p99: 60}}}\n"
        "fields: {workload.arrivals.rate_per_s: [5, 2000], cluster.replicas: [1, 2], cluster.slowdown: [1, 2]}\n"
    )
    done = cli("sweep", file, "--out", "swept", "--jobs", "1")
    assert done.code == 0, done.err
    rows = pq.read_table(tmp_path / "swept" / "results.parquet").to_pylist()
    lines = done.out.splitlines()[2:10]
    assert [line.rpartition("SLO ")[2].strip() for line in lines] == [
        "met" if row["ttft_ms.p99"] <= 60 else "missed" for row in rows
    ]
    assert {"met", "missed"} == {line.rpartition("SLO ")[2].strip() for line in lines}
    assert "8 of 8 runs: only 60 completed requests count for the latencies" in done.out
    assert "no pictures of 3 fields that vary" in done.out
    for row in rows:
        summary = json.loads((tmp_path / "swept" / "points" / f"{row['point']}.json").read_text())
        assert summary["ttft_ms.p99"] == row["ttft_ms.p99"]
    assert "no pictures" not in cli("sweep", file, "--out", "swept", "--resume", "--no-figures").out


def test_json_is_one_document(cli: Cli, file: Path) -> None:
    answer = json.loads(cli("sweep", file, "--json", "--no-figures", "--set", "run.requests=10").out)
    assert answer["fields"] == ["workload.arrivals.rate_per_s", "cluster.replicas"]
    assert {key: answer[key] for key in ("points", "skipped", "taken_over", "ok", "failed")} == {
        "points": 5, "skipped": 1, "taken_over": 0, "ok": 5, "failed": 0,
    }  # fmt: skip
    assert [row["requests"] for row in answer["rows"]] == [10] * 5
    assert answer["pictures"] == []
    assert answer["out"].startswith("runs/sweep-")


def test_dry_run_writes_nothing(cli: Cli, file: Path, tmp_path: Path) -> None:
    done = cli("sweep", file, "--dry-run", "--out", "swept")
    assert done.code == 0, done.err
    assert "5 points, 5 to run; 1 skipped by skip_if, 0 finished before" in done.out
    assert not (tmp_path / "swept").exists() and not (tmp_path / "runs").exists()
    cli("sweep", file, "--out", "swept", "--no-figures")
    next((tmp_path / "swept" / "points").iterdir()).unlink()
    answer = json.loads(cli("sweep", file, "--dry-run", "--resume", "--out", "swept", "--json").out)
    assert (answer["points"], answer["to_run"], answer["finished"], answer["skipped"]) == (5, 1, 4, 1)


def test_failures_are_said(cli: Cli, file: Path) -> None:
    """All right as long as one run ends; and a sweep in which none can exist is bad input."""
    file.write_text("scenario: small.yaml\nfields: {model: [llama-3.1-8b, llama-3.1-405b]}\n")
    done = cli("sweep", file, "--no-figures")
    assert done.code == 0
    assert "1 of 2 runs failed, the first at model=llama-3.1-405b" in done.err
    file.write_text("scenario: small.yaml\nfields: {model: [llama-3.1-405b]}\n")
    cli("sweep", file).refused("fit")


def test_all_failed(cli: Cli, file: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text("from servetwin.studies.sweep import running\nrunning.execute = None\n")
    done = cli("sweep", file, "--plugin", plugin, "--no-figures", "--jobs", "1")
    assert done.code == 1
    assert "5 of 5 runs failed" in done.err and "internal error: TypeError" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.yaml",), ("no such sweep file", "absent.yaml")),
        (("sweep.yaml", "--engine", "ray"), ("does not have", "yet", "--engine", "allowed: local")),
        (("sweep.yaml", "--engine", "locale"), ("unknown value", "nearest: local")),
        (("sweep.yaml", "--resume"), ("--resume --out DIR",)),
        (("sweep.yaml", "--jobs", "0"), ("--jobs",)),
        (("sweep.yaml", "--set", "run.reqests=3"), ("--set run.reqests=3", "nearest: requests")),
        (("sweep.yaml", "--seed", "-1"), ("--seed -1",)),
        ((), ("SWEEP.yaml",)),
    ],
)
def test_bad_usage(cli: Cli, file: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    cli("sweep", *arguments).refused(*words)


def test_killed_at_any_moment(cli: Cli, file: Path, tmp_path: Path) -> None:
    """Killed before, in the middle of and after the writing of a result or of the table, also while it is resumed."""
    file.write_text(SIXTY)
    (tmp_path / "killer.py").write_text(KILLER)
    command = ("sweep", file, "--plugin", "killer.py", "--no-figures", "--quiet", "--jobs", "1", "--out")
    assert cli(*command, "whole").code == 0
    assert points(tmp_path / "whole") == 60
    moments = {"before:1": 0, "half:8": 7, "after:20": 27, "half:30": 56, "table:0": 60, "end:0": 60}
    for moment, ended in moments.items():
        killed = cli(*command, "killed", "--resume", env={"KILL": moment})
        assert killed.code == -signal.SIGKILL, killed.err
        assert points(tmp_path / "killed") == ended
        assert (tmp_path / "killed" / "results.parquet").exists() == (moment == "end:0")
    assert cli(*command, "killed", "--resume").code == 0
    whole, resumed = (tmp_path / name / "results.parquet" for name in ("whole", "killed"))
    assert resumed.read_bytes() == whole.read_bytes()
    assert not [path for path in (tmp_path / "killed").rglob("*") if path.name.endswith(".part")]


def test_killed_from_outside_with_processes(cli: Cli, file: Path, tmp_path: Path) -> None:
    """The processes of a killed sweep end by themselves, and the rest runs with another number of them."""
    file.write_text(SIXTY)
    command = ["sweep", "sweep.yaml", "--no-figures", "--quiet", "--out", "killed", "--resume"]
    for least in (3, 25):
        program = subprocess.Popen(
            [sys.executable, "-m", "servetwin", *command, "--jobs", "2"], cwd=tmp_path, start_new_session=True
        )
        until = time.monotonic() + 100
        while points(tmp_path / "killed") < least and time.monotonic() < until and program.poll() is None:
            time.sleep(0.005)
        program.kill()
        program.wait()
        assert least <= points(tmp_path / "killed") < 60
        while _members(program.pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert _members(program.pid) == []
    assert cli(*command, "--jobs", "3").code == 0
    assert cli("sweep", file, "--no-figures", "--quiet", "--out", "whole", "--jobs", "1").code == 0
    whole, resumed = (tmp_path / name / "results.parquet" for name in ("whole", "killed"))
    assert resumed.read_bytes() == whole.read_bytes()


def _members(session: int) -> list[int]:
    """The processes of a session that are still there."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session and (folder / "stat").read_text().split()[2] != "Z":
                found.append(int(folder.name))
        except (ProcessLookupError, FileNotFoundError):
            continue
    return found


def test_interrupted(file: Path, cli: Cli, tmp_path: Path) -> None:
    """Ctrl-C goes to all processes of a terminal: what had ended is in the table, nothing counts as failed."""
    file.write_text(SIXTY.replace("requests: 20", "requests: 3000"))
    command = ["sweep", "sweep.yaml", "--no-figures", "--quiet", "--out", "cut", "--jobs", "2"]
    program = subprocess.Popen(
        [sys.executable, "-m", "servetwin", *command], cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    until = time.monotonic() + 100
    while points(tmp_path / "cut") < 3 and time.monotonic() < until and program.poll() is None:
        time.sleep(0.01)
    os.killpg(program.pid, signal.SIGINT)
    _, err = program.communicate(timeout=60)
    assert program.returncode == 130, err
    assert "of 60 runs: what was finished is in cut" in err and "failed" not in err and "Traceback" not in err
    rows = json.loads(cli("sweep", file, "--out", "cut", "--resume", "--dry-run", "--json").out)
    assert rows["finished"] == points(tmp_path / "cut") >= 3
    table = pq.read_table(tmp_path / "cut" / "results.parquet")
    assert table.num_rows == rows["finished"]
    assert set(table["status"].to_pylist()) == {"ok"}
