"""Running the program as a user does: as a subprocess, in an empty directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def refused(self, *words: str, code: int = 2) -> None:
        """Assert that the command ended with a message of one screen, without a traceback, that has ``words``."""
        assert self.code == code, self.err
        assert self.out == ""
        assert "Traceback" not in self.err
        assert 1 <= len(self.err.splitlines()) <= 25
        for word in words:
            assert word in self.err, f"{word!r} is not in\n{self.err}"


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run ``python -m servetwin`` with arguments, in an empty directory."""

    def run(*arguments: str | Path, env: dict[str, str] | None = None) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "servetwin", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@dataclass
class Program:
    """The program under way."""

    process: subprocess.Popen[str]

    def wait_until(self, moment: Callable[[], bool]) -> None:
        """Wait, with the program still running at the end."""
        until = time.monotonic() + 100
        while not moment() and time.monotonic() < until and self.process.poll() is None:
            time.sleep(0.02)
        assert moment() and self.process.poll() is None, "it did not get as far as that"

    def stop(self, number: signal.Signals = signal.SIGINT) -> Outcome:
        """Send it a signal, alone, and wait for its end."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=90)
        return Outcome(self.process.returncode, out, err)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start ``python -m servetwin`` with arguments, in an empty directory; it does not outlive the test."""
    programs: list[Program] = []

    def start(*arguments: str | Path) -> Program:
        process = subprocess.Popen(
            [sys.executable, "-m", "servetwin", *map(str, arguments)],
            cwd=tmp_path, env=os.environ | {"NO_COLOR": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        programs.append(Program(process))
        return programs[-1]

    yield start
    for program in programs:
        program.process.kill()
        program.process.communicate()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario that takes no time."""
    file = tmp_path / "small.yaml"
    file.write_text(
        "model: llama-3.1-8b\n"
        "cluster: {hardware: h100-sxm, replicas: 2}\n"
        "workload: {arrivals: {rate_per_s: 20}, prompts: 200, outputs: 20}\n"
        "run: {requests: 50}\n"
    )
    return file


def pytest_configure() -> None:
    """Commands under test hear Ctrl-C even where the tests were started in the background, which ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
