"""Measure the speed of the simulator on the standard speed workload: ``python tests/bench/speed.py``.

Every figure comes from whole processes, files included, without pictures:

* rate = 90,000 requests / (CPU of 100,000 requests − CPU of 10,000 requests), CPU = user + system time, best of 2;
* start-up = CPU of the same command with one request;
* memory = (peak RSS of 100,000 requests − peak RSS of 10,000 requests) / 90,000;
* events per request and steps per event, which are the same on every machine.

Machines differ, and so do their moods: ``loop`` is the CPU time of one turn of a plain Python loop that does what an
event loop does, measured around each scenario, and the last column says how many of its turns a request costs.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from servetwin import compiled

SCENARIOS = (
    "bench-8b",
    "bench-8b-64r",
    "bench-8b-256r",
    "bench-8b-long",
    "bench-70b-pp4",
    "bench-8b-spec",
    "bench-8b-pd",
)
#: Requests per CPU-second that are promised.
PROMISED = {
    "bench-8b": 25_000, "bench-8b-64r": 15_000, "bench-8b-256r": 15_000, "bench-70b-pp4": 4_000,
    "bench-8b-spec": 11_000, "bench-8b-pd": 12_000,
}  # fmt: skip
TURNS = 300_000


@dataclass
class Usage:
    """What one process took."""

    cpu_s: float
    peak_bytes: int
    summary: dict[str, float]


class _Item:
    __slots__ = ("key", "next", "value")

    def __init__(self, key: int) -> None:
        self.key = key
        self.next = key
        self.value = 0


def loop_ns() -> float:
    """CPU time of one turn of the calibration loop [ns], the best of three."""
    best = float("inf")
    for _ in range(3):
        heap = [(key, key - 16, _Item(key)) for key in range(16)]
        start = time.process_time()
        for turn in range(TURNS):
            at, _, item = heapq.heappop(heap)
            item.value += at
            item.next = at + 7 + (turn & 15)
            heapq.heappush(heap, (item.next, turn, item))
        best = min(best, time.process_time() - start)
    return best / TURNS * 1e9


def measure(scenario: str, requests: int, tries: int) -> Usage:
    """The cheapest of some runs."""
    best: Usage | None = None
    for _ in range(tries):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable, "-m", "servetwin", "run", scenario, "--set", f"run.requests={requests}",
                "--no-figures", "--quiet", "--out", folder,
            ]  # fmt: skip
            process = subprocess.Popen(command)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
            summary = json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))
        usage = Usage(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, summary)
        if best is None or usage.cpu_s < best.cpu_s:
            best = usage
    assert best is not None
    return best


def row(scenario: str, few: int, many: int, tries: int) -> dict[str, float | str | None]:
    """The figures of one scenario."""
    before = loop_ns()
    start, short, long = (measure(scenario, requests, tries) for requests in (1, few, many))
    loop = min(before, loop_ns())
    more = many - few
    per_request_s = (long.cpu_s - short.cpu_s) / more
    events = long.summary["events"]
    return {
        "scenario": scenario,
        "requests/CPU-s": 1 / per_request_s,
        "promised": PROMISED.get(scenario),
        "start-up CPU-s": start.cpu_s,
        "B/request": (long.peak_bytes - short.peak_bytes) / more,
        "events/request": events / long.summary["requests"],
        "steps/event": long.summary["steps"] / events,
        "loop ns": loop,
        "loops/request": per_request_s * 1e9 / loop,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS, help="which ones; by default all of them")
    parser.add_argument("--few", type=int, default=10_000, help="requests of the short run")
    parser.add_argument("--many", type=int, default=100_000, help="requests of the long run")
    parser.add_argument("--tries", type=int, default=2, help="the best of how many runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    rows = []
    for scenario in chosen.scenarios or SCENARIOS:
        found = row(scenario, chosen.few, chosen.many, chosen.tries)
        rows.append(found)
        if chosen.json:
            continue
        if len(rows) == 1:
            print(f"hot modules are {'compiled' if compiled.in_use() else 'run from source'}")
            print("  ".join(f"{key:>15}" for key in found))
        print("  ".join(f"{shown(value):>15}" for value in found.values()), flush=True)
    if chosen.json:
        print(json.dumps(rows, indent=2))
        return
    rates = {found["scenario"]: found["requests/CPU-s"] for found in rows}
    if {"bench-8b", "bench-8b-long"} <= rates.keys():
        dearer = float(rates["bench-8b"] or 0) / float(rates["bench-8b-long"] or 1)
        print(f"a request of bench-8b-long costs {dearer:.2f} times one of bench-8b (promised: at most 1.3)")


def shown(value: float | str | None) -> str:
    """A cell of the table."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


if __name__ == "__main__":
    main()
