"""Tasks in this process and in several."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from servetwin.errors import ScenarioError
from servetwin.scenario.interruption import Stopped
from servetwin.studies.processes import in_processes, signals_raise


def doubling(prepared: Path) -> Callable[[int], int]:
    with prepared.open("a") as log:
        log.write(f"{os.getpid()}\n")
    return double


def double(task: int) -> int:
    if task < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if task == 13:
        raise ValueError("thirteen")
    return 2 * task


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_task_once_and_each_process_prepares_once(jobs: int, tmp_path: Path) -> None:
    prepare = partial(doubling, tmp_path / "log")
    assert sorted(in_processes(range(7), prepare, jobs)) == [(index, 2 * index) for index in range(7)]
    processes = (tmp_path / "log").read_text().split()
    assert len(processes) == len(set(processes)) <= jobs
    assert (str(os.getpid()) in processes) == (jobs == 1)


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    """Its task gets the answer of the lost, and the others theirs, from processes that take its place."""
    prepare = partial(doubling, tmp_path / "log")
    tasks = [-1, 1, -2, 2, -3, 3]
    lost = in_processes(tasks, prepare, 2, lost=lambda exitcode: -abs(exitcode or 0))
    assert dict(lost) == {0: -9, 1: 2, 2: -9, 3: 4, 4: -9, 5: 6}
    with pytest.raises(ScenarioError, match="ended before its run"):
        list(in_processes(tasks, prepare, 2))


def test_a_bug_comes_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        list(in_processes([13, 1], partial(doubling, tmp_path / "log"), 2))
    assert str(caught.value) == "in another process: ValueError: thirteen"
    assert any("Traceback" in note and "in double" in note for note in caught.value.__notes__)


def test_processes_do_not_outlive_whoever_asked(tmp_path: Path) -> None:
    answers = in_processes(range(1000), partial(doubling, tmp_path / "log"), 2)
    next(answers)
    answers.close()
    deadline = time.monotonic() + 10
    while alive := [pid for pid in (tmp_path / "log").read_text().split() if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def test_plugins_are_loaded_by_fresh_processes(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"import os, pathlib\npathlib.Path({str(tmp_path)!r}, f'loaded-{{os.getpid()}}').touch()\n")
    prepare = partial(doubling, tmp_path / "log")
    assert len(list(in_processes(range(4), prepare, 2, plugins=[plugin]))) == 4
    loaded = {path.name.removeprefix("loaded-") for path in tmp_path.glob("loaded-*")}
    assert set((tmp_path / "log").read_text().split()) <= loaded


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_whose_exception_is_lost_still_ends_the_rest(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops what a signal handler raises inside a destructor."""

    class Dropping:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    done: list[int] = []
    dropped: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    # A job in the background of a shell inherits it as ignored, and so would whatever asks here.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Stopped), signals_raise():
            for index, _ in in_processes(range(1, 40), prepared_double, jobs):
                done.append(index)
                if len(done) == 2:
                    Dropping()
    finally:
        signal.signal(signal.SIGINT, before)
    assert [entry.exc_type for entry in dropped] == [Stopped]
    assert 2 <= len(done) <= 2 + jobs


def prepared_double() -> Callable[[int], int]:
    return double
