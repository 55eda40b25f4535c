"""What a sweep costs beside its runs: CPU time per point, and memory. Prints figures, and asserts nothing.

    python tests/bench/sweep.py                                  200 points of 2,000 requests, two processes
    python tests/bench/sweep.py --points 10000 --requests 1      what 10,000 points keep in memory

The CPU time is that of the whole command, start-up of all processes included, less that of the simulations as each of
them has measured it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

_COMMAND = """
import sys
from servetwin.cli.main import main
try:
    main()
except SystemExit:
    pass
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
"""The program, which says at its end how much memory it had at most [kiB]."""


def measure(points: int, requests: int, jobs: int, scenario: str, folder: Path) -> dict[str, float]:
    """Run a sweep of so many seeds.

    Args:
        points: how many.
        requests: of each run.
        jobs: processes.
        scenario: what is run.
        folder: where to write.

    Returns:
        CPU seconds of the command and of its runs, the difference per point [ms], peak memory of the program and of
        the largest of its processes [MB].
    """
    file = folder / "sweep.yaml"
    file.write_text(
        f"scenario: {scenario}\nset: {{run.requests: {requests}}}\nfields:\n  run.seed: {list(range(points))}\n"
    )
    words = ["sweep", str(file), "--out", str(folder / "out"), "--jobs", str(jobs), "--no-figures", "--quiet"]
    done = subprocess.run([sys.executable, "-c", _COMMAND, *words], capture_output=True, text=True, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = used.ru_utime + used.ru_stime
    runs = [json.loads(path.read_text())["cpu_s"] for path in (folder / "out" / "points").iterdir()]
    assert len(runs) == points, done.stderr
    return {
        "cpu_s": total,
        "runs_cpu_s": sum(runs),
        "beside_ms_per_point": (total - sum(runs)) / points * 1e3,
        "program_mb": int(done.stdout.split()[-1]) * 1024 / 1e6,
        "largest_process_mb": used.ru_maxrss * 1024 / 1e6,
    }


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--points", type=int, default=200)
    options.add_argument("--requests", type=int, default=2000)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--scenario", default="bench-8b")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(given.points, given.requests, given.jobs, given.scenario, Path(folder))
    print(f"{given.points:,} points of {given.requests:,} requests of {given.scenario}, {given.jobs} processes")
    print(f"CPU of the sweep            {figures['cpu_s']:9.2f} s")
    print(f"CPU of its runs             {figures['runs_cpu_s']:9.2f} s")
    print(f"beside the runs, per point  {figures['beside_ms_per_point']:9.2f} ms")
    print(f"memory of the program       {figures['program_mb']:9.0f} MB at most")
    print(f"memory of a process         {figures['largest_process_mb']:9.0f} MB at most")


if __name__ == "__main__":
    main()
