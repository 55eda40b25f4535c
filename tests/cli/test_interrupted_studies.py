"""Ctrl-C after the runs of a study have ended, while it is imported, and readers that leave: nothing is lost."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Cli

SWEEP = "scenario: small.yaml\nfields: {cluster.replicas: [1, 2, 3]}\n"
SUITE = """
seeds: [0, 1]
scenarios:
  - {name: small, scenario: small.yaml, compare: false, assert: [completed == 50, completed > 50]}
"""
COMMANDS = {
    "sweep": ("sweep", "sweep.yaml", "--out", "o", "--jobs", "1"),
    "compare": ("compare", "small.yaml", "b=small.yaml", "--out", "o", "--jobs", "1"),
    "check": ("check", "suite.yaml", "--out", "o", "--jobs", "1"),
}
TRAP = """
import os, signal
import {module} as target
original = target.{function}
def trapped(*given, **named):
    os.kill(os.getpid(), signal.SIG{name})
    return original(*given, **named)
target.{function} = trapped
"""

Trapped = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trapped(cli: Cli, small: Path, tmp_path: Path) -> Trapped:
    """Run a command that gets a signal when it calls a function."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (tmp_path / "suite.yaml").write_text(SUITE)

    def run(command: str, module: str, function: str, name: str = "INT", *more: str) -> tuple[int, str, str]:
        (tmp_path / "trap.py").write_text(TRAP.format(module=module, function=function, name=name))
        done = cli(*COMMANDS[command], "--plugin", "trap.py", *more)
        assert "Traceback" not in done.err
        return done.code, done.out, done.err

    return run


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143)])
def test_while_a_sweep_writes_its_table(name: str, code: int, trapped: Trapped, tmp_path: Path) -> None:
    ended, _, err = trapped("sweep", "servetwin.studies.sweep.running", "write_table", name)
    assert ended == code
    assert "interrupted after 3 of 3 runs: what was finished is in o" in err
    assert pq.read_table(tmp_path / "o" / "results.parquet").num_rows == 3
    assert not list((tmp_path / "o").glob("*.png"))


@pytest.mark.parametrize("function", ["draw_plots", "metrics_of"])
def test_while_a_sweep_draws_or_prints(function: str, trapped: Trapped, tmp_path: Path) -> None:
    ended, _, err = trapped("sweep", "servetwin.studies.sweep.plots", function)
    assert (ended, err) == (130, "interrupted while results were shown: the table of all runs is o/results.parquet\n")
    assert pq.read_table(tmp_path / "o" / "results.parquet").num_rows == 3


def test_while_a_comparison_is_written(trapped: Trapped, tmp_path: Path) -> None:
    ended, out, err = trapped("compare", "servetwin.studies.compare.writing", "write_json")
    assert (ended, err) == (130, "interrupted after 2 of 2 runs: the comparison of 1 seed is in o, without a picture\n")
    assert "change against small" in out
    assert {file.name for file in (tmp_path / "o").iterdir()} == {"compare.json", "runs"}


def test_while_a_comparison_is_drawn(trapped: Trapped, tmp_path: Path) -> None:
    ended, _, err = trapped("compare", "servetwin.report.waterfall", "draw_waterfall")
    assert (ended, err) == (130, "interrupted while results were shown: the comparison is in o\n")
    assert (tmp_path / "o" / "compare.json").exists()


def test_while_a_check_writes_its_files(trapped: Trapped, tmp_path: Path) -> None:
    ended, out, err = trapped("check", "servetwin.studies.check.writing", "write_folder")
    assert (ended, err) == (130, "interrupted after 2 of 2 runs: what was finished is in o\n")
    assert "completed > 50" in out
    assert {file.name for file in (tmp_path / "o").iterdir()} == {"check.json", "junit.xml", "summary.md", "runs"}


@pytest.mark.parametrize("command", ["check", "sweep"])
def test_a_reader_that_leaves_changes_no_exit_code(command: str, trapped: Trapped, tmp_path: Path) -> None:
    """``servetwin check … --json | head -1`` in CI must not turn a failure into a success."""
    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("fields", "set: {run.seed: 3}\nfields"))
    broken = """
import servetwin.studies.sweep.running as running
running.execute = None
"""
    (tmp_path / "trap.py").write_text(broken)
    words = shlex.join([sys.executable, "-m", "servetwin", *COMMANDS[command], "--json", "--plugin", "trap.py"])
    done = subprocess.run(
        f"{words} 2> err | true; echo ${{PIPESTATUS[0]}}", shell=True, executable="/bin/bash",
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "1", (tmp_path / "err").read_text()


def test_while_the_program_is_imported(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, '.'); from servetwin.__main__ import main; main()"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_in_a_terminal_while_processes_start(tmp_path: Path) -> None:
    """It goes to every process of the terminal, also to the one that imports what the others are forked from."""
    code = """
import multiprocessing.forkserver as server, os, signal
from servetwin.studies import processes

context = processes._context(processes._end_server)
os.kill(server._forkserver._forkserver_pid, signal.SIGINT)
process = context.Process(target=print, args=("alive",), kwargs={"flush": True})
process.start()
process.join()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("alive\n", "")
