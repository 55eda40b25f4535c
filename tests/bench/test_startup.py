"""What a short run loads, and what a long one keeps."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

#: Half a second and more each; a run without pictures needs none of them.
HEAVY = ("pandas", "matplotlib", "scipy", "PIL", "IPython", "torch")
STARTUP_CPU_S = 1.5
BYTES_PER_REQUEST = 500


def run(folder: Path, code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(*arguments: str) -> str:
    """Code that runs the program as its command does."""
    return (
        "import sys\n"
        f"sys.argv = ['servetwin', *{arguments!r}]\n"
        "from servetwin.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
    )


def test_a_run_without_pictures_loads_no_heavy_package(tmp_path: Path) -> None:
    code = command("run", "bench-8b", "--set", "run.requests=1", "--no-figures", "--out", "here", "--quiet")
    code += f"print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    assert run(tmp_path, code).split() == []
    assert (tmp_path / "here" / "requests.parquet").exists()


def test_the_table_in_the_terminal_loads_no_heavy_package(tmp_path: Path) -> None:
    code = command("run", "bench-8b", "--set", "run.requests=1", "--no-figures", "--out", "here")
    code += f"print('loaded:', *sorted(set({HEAVY!r}) & set(sys.modules)))"
    assert run(tmp_path, code).splitlines()[-1] == "loaded:"


@pytest.mark.parametrize("module", ["servetwin", "servetwin.policies", "servetwin.scenario.run", "servetwin.testing"])
def test_importing_loads_neither_tables_nor_pictures(module: str, tmp_path: Path) -> None:
    code = f"import sys, {module}\nprint(*sorted(set({(*HEAVY, 'pyarrow')!r}) & set(sys.modules)))"
    assert run(tmp_path, code).split() == []


def test_start_up(tmp_path: Path) -> None:
    """Twice the promise, for a loaded machine takes longer: it catches a package too many, not a neighbour."""
    code = command("run", "bench-8b", "--set", "run.requests=1", "--no-figures", "--out", "here", "--quiet")
    spent = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(tmp_path, code)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 2 * STARTUP_CPU_S


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read as Linux tells it")
def test_memory_per_request(tmp_path: Path) -> None:
    """Peak memory of whole runs, files included, at two lengths; half as much again for the allocator's moods."""
    few, many = 5_000, 30_000
    peaks = []
    for requests in (few, many):
        code = command("run", "bench-8b", "--set", f"run.requests={requests}", "--no-figures", "--quiet", "--out", "o")
        # Not ru_maxrss, which starts at the size of the process that started this one.
        code += "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
        peaks.append(1024 * int(run(tmp_path, code)))
    assert peaks[0] > 50e6
    assert (peaks[1] - peaks[0]) / (many - few) < 1.5 * BYTES_PER_REQUEST
