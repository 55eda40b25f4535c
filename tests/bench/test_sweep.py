"""What a sweep costs beside its runs."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

from tests.unit.studies.sweep.test_sweeps import plan

from servetwin.studies.sweep import Folder, Plan, run_sweep
from servetwin.studies.sweep.running import Outcome, _rows
from servetwin.studies.sweep.table import write_table

BESIDE_MS = 20.0


def test_cpu_time_beside_the_runs(tmp_path: Path) -> None:
    """Twice the promise, for a loaded machine takes longer; what start-up costs is measured by sweep.py."""
    fields: dict[str, Any] = {"fields": {"run.seed": list(range(40))}}
    run_sweep(plan(tmp_path, **fields, set={"run.requests": 1}), Folder(tmp_path / "first"))
    before = time.process_time()
    todo = plan(tmp_path, **fields)
    run_sweep(todo, Folder(tmp_path / "out"))
    total = time.process_time() - before
    runs = [json.loads(path.read_text())["cpu_s"] for path in (tmp_path / "out" / "points").iterdir()]
    assert len(runs) == 40
    assert (total - sum(runs)) / 40 * 1e3 < 2 * BESIDE_MS


def test_a_row_of_the_table_stays_nowhere(tmp_path: Path) -> None:
    """Peak memory of tables of two lengths, whose rows are read from the disk."""
    todo = plan(tmp_path, fields={"run.seed": [0]})
    folder = Folder(tmp_path / "out")
    run_sweep(todo, folder)
    (point,) = todo.points
    assert point.key is not None
    peaks = []
    for number in (1000, 3000):
        long = Plan(todo.source, todo.fields, [point] * number, 0, todo.scenario)
        tracemalloc.start()
        outcome = Outcome()
        write_table(folder.table, long, _rows(long, folder, {point.key}, {}, outcome))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert outcome.runs == number
    assert (peaks[1] - peaks[0]) / 2000 < 500
