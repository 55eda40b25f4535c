"""Ctrl-C as a real signal to the running program: before, in the middle, at the end, while it writes, and twice.

A plug-in sets the moment: it sends the signal to its own process, or says by a file that the moment has come.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

SCENARIO = """
model: llama-3.1-8b
cluster: {hardware: h100-sxm, replicas: 2, engine: {max_model_len: 2000}}
workload: {arrivals: {rate_per_s: 50}, prompts: {distribution: uniform, min: 10, max: 600}, outputs: 40}
router: {policy: trap}
run: {requests: 400}
"""

TRAP = """
import os, pathlib, signal
from typing import ClassVar, Literal
from servetwin.policies import Kind, Policy, PolicyContext, register

def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)

class Router:
    def __init__(self):
        self.routed = self.ended = 0
        {on_build}
    def choose(self, request, fleet):
        self.routed += 1
        {on_routed}
        return self.routed % 2
    def on_routed(self, request, replica): ...
    def on_finished(self, request, replica):
        self.ended += 1
        {on_finished}

@register
class Trap(Policy):
    '''Sends Ctrl-C to its own process.

    Source: a test.
    '''
    kind: ClassVar[Kind] = "routing"
    policy: Literal["trap"] = "trap"
    def build(self, context: PolicyContext):
        return Router()

{on_load}
"""


@dataclass(frozen=True)
class Ended:
    """What an interrupted command left behind."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return found

    @property
    def files(self) -> set[str]:
        return {file.name for file in self.folder.iterdir()} if self.folder.is_dir() else set()


Run = Callable[..., Ended]
TABLES = {"ledger.json", "requests.parquet", "scenario.yaml", "summary.json", "timeseries.parquet"}


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    def make(*arguments: str, **moments: str) -> list[str]:
        places = dict.fromkeys(("on_build", "on_routed", "on_finished"), "pass") | {"on_load": ""} | moments
        (tmp_path / "trap.py").write_text(TRAP.format(**places))
        (tmp_path / "trapped.yaml").write_text(SCENARIO)
        return [
            sys.executable, "-m", "servetwin", "run", "trapped.yaml", "--plugin", "trap.py", "--out", "cut",
            "--no-figures", *arguments,
        ]  # fmt: skip

    return make


@pytest.fixture
def run(command: Callable[..., list[str]], tmp_path: Path) -> Run:
    def start(*arguments: str, **moments: str) -> Ended:
        done = subprocess.run(
            command(*arguments, **moments), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        return Ended(done.returncode, done.stdout, done.stderr, tmp_path / "cut")

    return start


def interrupted(ended: Ended) -> int:
    """Assert that the command said so, and kept what was finished; returns how many requests had ended."""
    assert ended.code == 130, ended.err
    assert "Traceback" not in ended.err
    (message,) = [line for line in ended.err.splitlines() if line.startswith("interrupted")]
    said = re.fullmatch(r"interrupted after ([\d,]+) of 400 requests: what was finished is in cut", message)
    assert said is not None, message
    count = int(said[1].replace(",", ""))
    assert ended.files == TABLES
    summary = ended.summary
    assert summary["interrupted"] is True
    assert summary["completed"] == count
    assert summary["requests"] == summary["completed"] + summary["unfinished"]
    requests = pq.read_table(ended.folder / "requests.parquet")
    assert requests.num_rows == summary["requests"]
    assert requests["outcome"].to_pylist().count("completed") == count
    ledger = json.loads((ended.folder / "ledger.json").read_text())
    assert sum(ledger["total"]["seconds"].values()) == pytest.approx(2 * summary["simulated_s"])
    pq.read_table(ended.folder / "timeseries.parquet")
    return count


def test_a_signal_from_outside_in_mid_run(command: Callable[..., list[str]], tmp_path: Path) -> None:
    """The program waits for nothing: it is in its event loop when the signal comes."""
    moment = "if self.routed == 300: pathlib.Path('now').touch()"
    arguments = command("--set", "run.requests=3000000", on_routed=moment)
    with subprocess.Popen(
        arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "now").exists() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    ended = Ended(process.returncode, out, err.replace("3,000,000", "400"), tmp_path / "cut")
    assert 200 < interrupted(ended) < 3_000_000
    assert "TTFT" in out


@pytest.mark.parametrize("after", [1, 150, 400])
def test_a_signal_at_an_arrival(after: int, run: Run) -> None:
    """Also before the first request has been served, and when the last one comes in."""
    ended = run(on_routed=f"if self.routed == {after}: ctrl_c()")
    count = interrupted(ended)
    assert ended.summary["requests"] == after
    assert count <= after - 1
    if after == 1:
        assert count == 0
        assert ended.summary["ttft_ms.mean"] is None


@pytest.mark.parametrize("after", [1, 399])
def test_a_signal_at_the_end_of_a_request(after: int, run: Run) -> None:
    """Whoever ends at the same boundary ends too."""
    assert after <= interrupted(run(on_finished=f"if self.ended == {after}: ctrl_c()")) < after + 20


def test_what_was_finished_is_what_would_have_been(run: Run) -> None:
    """The interrupted run is the beginning of the whole one."""
    part = run(on_routed="if self.routed == 150: ctrl_c()")
    interrupted(part)
    rows = pq.read_table(part.folder / "requests.parquet").to_pylist()
    whole = run()
    assert whole.code == 0, whole.err
    assert whole.summary["interrupted"] is False
    every = {row["request_id"]: row for row in pq.read_table(whole.folder / "requests.parquet").to_pylist()}
    for row in rows:
        if row["outcome"] == "completed":
            assert row == every[row["request_id"]]
        else:
            assert (row["arrival_s"], row["replica"]) == (every[row["request_id"]]["arrival_s"],
                                                          every[row["request_id"]]["replica"])  # fmt: skip


def test_json_is_one_document_all_the_same(run: Run) -> None:
    ended = run("--json", on_routed="if self.routed == 150: ctrl_c()")
    interrupted(ended)
    assert json.loads(ended.out) == ended.summary


def test_step_by_step_too(run: Run) -> None:
    ended = run("--set", "run.stepping=every-step", on_routed="if self.routed == 60: ctrl_c()")
    interrupted(ended)
    assert ended.summary["requests"] == 60


def no_results(ended: Ended) -> None:
    assert ended.code == 130, ended.err
    assert "Traceback" not in ended.err
    assert "interrupted" in ended.err and "no results" in ended.err
    assert ended.out == ""
    assert ended.files == set()


def test_a_signal_while_plugins_are_loaded(run: Run) -> None:
    no_results(run(on_load="ctrl_c()"))


def test_a_signal_while_the_cluster_is_built(run: Run) -> None:
    no_results(run(on_build="ctrl_c()"))


def test_further_signals_lose_nothing(run: Run) -> None:
    """While the first one is still being obeyed."""
    interrupted(run(on_routed="if self.routed >= 150: ctrl_c(); ctrl_c(); ctrl_c()"))


def test_whoever_waits_too_long_for_an_event_may_give_it_up(run: Run) -> None:
    """Nothing hangs for good; what the event has left half done is no bug of the program."""
    hurry = "import servetwin.scenario.interruption as target; target._PATIENCE_S = 0.0"
    no_results(run(on_load=hurry, on_routed="if self.routed == 150: ctrl_c(); ctrl_c()"))


WRITING = """
import servetwin.results.result as target
original = target.{function}
def write(path, *rest):
    original(path, *rest)
    if path.name == {name!r}:
        ctrl_c()
target.{function} = write
"""


@pytest.mark.parametrize(("function", "name"), [("write_json", "summary.json"), ("write_parquet", "requests.parquet")])
def test_a_signal_between_two_files(function: str, name: str, run: Run) -> None:
    """The run is over, its files are being written: no traceback, and what is there can be read."""
    ended = run(on_load=WRITING.format(function=function, name=name))
    assert ended.code == 130, ended.err
    assert "Traceback" not in ended.err
    assert "interrupted" in ended.err
    for file in ended.files:
        if file.endswith(".parquet"):
            pq.read_table(ended.folder / file)
        elif file.endswith(".json"):
            json.loads((ended.folder / file).read_text())


def test_a_signal_while_files_are_written_is_told_as_what_it_is(run: Run) -> None:
    ended = run(on_load=WRITING.format(function="write_json", name="ledger.json"))
    assert ended.code == 130, ended.err
    assert "before the simulation had finished" not in ended.err
    assert "cut" in ended.err


HALF_A_FILE = """
import servetwin.results.frames as target
original = target.request_batches
def half(*rest):
    batches = original(*rest)
    yield next(batches)
    ctrl_c()
    yield from batches
target.request_batches = half
"""


def test_a_signal_in_the_middle_of_a_file_leaves_no_part_of_it(run: Run) -> None:
    """A table that lacks rows and does not say so is worse than none."""
    ended = run("--set", "run.requests=9000", on_load=HALF_A_FILE)
    assert ended.code == 130, ended.err
    assert "Traceback" not in ended.err
    assert "its results are in cut" in ended.err
    assert pq.read_table(ended.folder / "requests.parquet").num_rows == 9_000


PICTURE = """
import servetwin.report.{module} as target
from pathlib import Path
original = target.{function}
def draw(*given):
    {before}
    original(*given)
    {after}
target.{function} = draw
"""


def without_pictures(arguments: list[str]) -> list[str]:
    return [argument for argument in arguments if argument != "--no-figures"]


@pytest.mark.parametrize(
    ("module", "function", "kept", "lost"),
    [
        ("figures", "draw_timeline", {"latency.png"}, "without timeline.png, roofline.png, trace.json"),
        ("perfetto", "write_trace", {"latency.png", "timeline.png", "roofline.png"}, "without trace.json"),
    ],
)
def test_a_signal_while_pictures_are_drawn(
    module: str, function: str, kept: set[str], lost: str, command: Callable[..., list[str]], tmp_path: Path
) -> None:
    """The tables stay, the file under way leaves no part, and the message names what is missing."""
    trap = PICTURE.format(module=module, function=function, before="ctrl_c()", after="")
    arguments = without_pictures(command("--timeline", on_load=trap))
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    ended = Ended(done.returncode, done.stdout, done.stderr, tmp_path / "cut")
    assert ended.code == 130, ended.err
    assert f"interrupted after the simulation had finished: its results are in cut, {lost}" in ended.err
    assert ended.files == TABLES | kept
    assert ended.summary["interrupted"] is False
    assert "TTFT" in ended.out


def test_a_run_with_a_network_misses_the_picture_of_its_links_too(
    command: Callable[..., list[str]], tmp_path: Path
) -> None:
    trap = PICTURE.format(module="figures", function="draw_links", before="ctrl_c()", after="")
    given = ("--set", "cluster.parallel.tensor=2", "--set", "cluster.topology={node: hgx-h100}")
    arguments = without_pictures(command(*given, on_load=trap))
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    ended = Ended(done.returncode, done.stdout, done.stderr, tmp_path / "cut")
    assert ended.code == 130, ended.err
    assert "its results are in cut, without links.png" in ended.err
    assert ended.files == TABLES | {"links.parquet", "latency.png", "timeline.png", "roofline.png"}


def test_a_signal_in_the_middle_of_the_timeline_leaves_no_part_of_it(
    command: Callable[..., list[str]], tmp_path: Path
) -> None:
    trap = """
import servetwin.report.perfetto as target
original = target._requests
def cut(result):
    yield next(original(result))
    ctrl_c()
target._requests = cut
"""
    done = subprocess.run(
        command("--timeline", on_load=trap), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 130, done.stderr
    assert {file.name for file in (tmp_path / "cut").iterdir()} == TABLES


def test_the_request_to_terminate_keeps_what_was_finished(run: Run) -> None:
    ended = run(on_routed="if self.routed == 150: os.kill(os.getpid(), signal.SIGTERM)")
    assert ended.code == 143, ended.err
    assert "what was finished is in cut" in ended.err
    assert ended.files == TABLES
    assert ended.summary["interrupted"] is True


def test_a_signal_while_results_are_printed(run: Run) -> None:
    trap = """
import servetwin.report.tables as target
original = target.print_result
def show(*given):
    ctrl_c()
target.print_result = show
"""
    ended = run(on_load=trap)
    assert ended.code == 130, ended.err
    assert "they are in cut" in ended.err
    assert ended.files == TABLES


@pytest.mark.parametrize("place", ["on_build", "on_routed", "on_finished", "on_load"])
@pytest.mark.parametrize("how", ["raise SystemExit(0)", "raise KeyboardInterrupt"])
def test_a_plugin_that_ends_the_program_is_named(place: str, how: str, run: Run) -> None:
    """Nobody pressed anything."""
    ended = run(**{place: how})
    assert ended.code == 2, ended.err
    assert "plug-in" in ended.err and "trap.py" in ended.err
    assert how.split()[1].removesuffix("(0)") in ended.err
    assert ended.out == ""
