"""Sweeps from the file to the table."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyarrow import parquet

import servetwin
from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, Interrupted, ScenarioError
from servetwin.results.summary import HOST_KEYS
from servetwin.studies.sweep import Design, Folder, Plan, Source, make_plan, read_sweep, run_sweep, running
from servetwin.studies.sweep.columns import METRICS, SUMMARY
from servetwin.studies.sweep.points import changes_of, reference_of
from servetwin.studies.sweep.table import read_rows

SMALL: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cluster": {"hardware": "h100-sxm"},
    "workload": {"arrivals": {"rate_per_s": 20}, "prompts": 200, "outputs": 20},
    "run": {"requests": 30},
}


def write(folder: Path, **content: Any) -> Path:
    (folder / "small.yaml").write_text(yaml.safe_dump(SMALL))
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump({"scenario": "small.yaml", **content}, sort_keys=False))
    return file


def plan(folder: Path, given: tuple[str, ...] = (), **content: Any) -> Plan:
    file = write(folder, **content)
    sweep, catalog = read_sweep(file), Catalog()
    design = Design(sweep, str(file))
    changes = changes_of(sweep, given, str(file))
    source = Source(str(file), reference_of(sweep, file, catalog), design.fields, changes)
    return make_plan(sweep, source, design, catalog)


GRID = {"fields": {"workload.arrivals.rate_per_s": [5, 50], "cluster.replicas": [1, 2]}}


def test_a_row_is_what_a_run_says(tmp_path: Path) -> None:
    todo = plan(tmp_path, **GRID)
    outcome = run_sweep(todo, Folder(tmp_path / "out"))
    assert (outcome.runs, outcome.taken, outcome.failures, outcome.signal_number) == (4, 0, [], None)
    rows = list(read_rows(tmp_path / "out" / "results.parquet"))
    summary = servetwin.run(
        str(tmp_path / "small.yaml"), workload__arrivals__rate_per_s=50, cluster__replicas=2
    ).summary()
    assert rows[3] == {
        "workload.arrivals.rate_per_s": 50, "cluster.replicas": 2, **summary, **dict.fromkeys(HOST_KEYS),
        "status": "ok", "error": None, "point": todo.points[3].key,
    }  # fmt: skip
    assert list(rows[3]) == ["workload.arrivals.rate_per_s", "cluster.replicas", *summary, "status", "error", "point"]
    assert {row["workload.arrivals.rate_per_s"] for row in rows} == {5, 50}
    kept = json.loads((tmp_path / "out" / "points" / f"{todo.points[3].key}.json").read_text())
    assert kept.pop("checksum")
    assert {**kept, **dict.fromkeys(HOST_KEYS)} == {**summary, **dict.fromkeys(HOST_KEYS)}


def test_the_columns_are_the_keys_of_a_summary() -> None:
    """In their order, and each holds what its kind says."""
    summary = servetwin.run("priority-classes", run__requests=100).summary()
    assert list(SUMMARY) == list(summary)
    types = {"text": str, "whole": int, "number": (int, float), "truth": bool, "json": (dict, list)}
    wrong = {key: value for key, value in summary.items()
             if value is not None and not isinstance(value, types[SUMMARY[key]])}  # fmt: skip
    assert wrong == {}
    assert {"ttft_ms.p99", "events", "slo_attainment"} <= set(METRICS)
    assert not {"seed", "wall_s", "cpu_s", "name"} & set(METRICS)


def test_the_table_is_the_same_for_any_number_of_jobs(tmp_path: Path) -> None:
    todo = plan(tmp_path, **GRID, replications=2)
    tables = []
    for jobs in (1, 3):
        run_sweep(todo, Folder(tmp_path / str(jobs)), jobs=jobs)
        tables.append((tmp_path / str(jobs) / "results.parquet").read_bytes())
    assert tables[0] == tables[1]


def test_replications_have_seeds_of_their_own(tmp_path: Path) -> None:
    todo = plan(tmp_path, ("run.seed=7",), fields={"cluster.replicas": [1, 2]}, replications=3)
    assert todo.fields == ("cluster.replicas", "run.seed")
    assert [point.values for point in todo.points] == [(n, seed) for n in (1, 2) for seed in (7, 8, 9)]
    run_sweep(todo, Folder(tmp_path / "out"))
    rows = list(read_rows(tmp_path / "out" / "results.parquet"))
    assert [row["seed"] for row in rows] == [row["run.seed"] for row in rows] == [7, 8, 9] * 2
    assert len({row["ttft_ms.mean"] for row in rows}) == 6
    assert len({row["config_hash"] for row in rows}) == 2


def test_the_hash_is_of_the_content(tmp_path: Path) -> None:
    """Of the scenario with everything resolved, not of how the sweep says it."""
    keys = [point.key for point in plan(tmp_path, **GRID).points]
    assert len(set(keys)) == 4
    turned = plan(tmp_path, design="list", set={"run.requests": 30},
                  points=[{"cluster.replicas": 2, "workload.arrivals.rate_per_s": 5}])  # fmt: skip
    assert turned.points[0].key == keys[1]
    assert plan(tmp_path, ("cluster.slowdown=1.5",), **GRID).points[0].key not in keys


def test_equal_points_are_one_run(tmp_path: Path) -> None:
    todo = plan(tmp_path, fields={"cluster.replicas": [1, 1, 2]})
    outcome = run_sweep(todo, Folder(tmp_path / "out"))
    assert outcome.runs == 3
    assert len(list((tmp_path / "out" / "points").iterdir())) == 2
    rows = list(read_rows(tmp_path / "out" / "results.parquet"))
    assert rows[0] == rows[1] != rows[2]


def test_fields_without_effect_are_said(tmp_path: Path) -> None:
    fields = {"cluster.pools.0.replicas": [1, 2], "cluster.pools.engines.replicas": [3]}
    said = plan(tmp_path, fields=fields).without_difference()
    assert said is not None and said.startswith("1 points are the same run")
    assert "cluster.pools.0.replicas=2, cluster.pools.engines.replicas=3 is cluster.pools.0.replicas=1" in said
    assert plan(tmp_path, fields={"cluster.replicas": [1, 1, 2]}).without_difference() is None


def test_resuming_takes_over_what_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = plan(tmp_path, **GRID)
    out = tmp_path / "out"
    run_sweep(todo, Folder(out))
    whole = (out / "results.parquet").read_bytes()
    (out / "results.parquet").unlink()
    files = [out / "points" / f"{point.key}.json" for point in todo.points]
    files[0].write_text(files[0].read_text()[:100])
    files[1].unlink()
    (out / "points" / ".half.json.part").write_text("{")
    (out / "sweep-1-of-another.png").write_text("")
    ran = []
    run = running._run
    monkeypatch.setattr(running, "_run", lambda values, *more: ran.append(values) or run(values, *more))
    outcome = run_sweep(todo, Folder(out), resume=True)
    assert (outcome.taken, ran) == (2, [(5, 1), (5, 2)])
    assert (out / "results.parquet").read_bytes() == whole
    assert sorted(path.name for path in out.rglob("*.*")) == sorted(["results.parquet", *(f.name for f in files)])
    outcome = run_sweep(todo, Folder(out))
    assert (outcome.taken, len(ran)) == (0, 6), "without resume everything is run again"


def test_a_summary_is_taken_over_only_as_it_was_written(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    for key in ("one", "two"):
        folder.write_point(key, '{"config_hash": "a", "steps": 12}')
    file = tmp_path / "points" / "one.json"
    text = file.read_text()
    assert json.loads(text).items() > {"config_hash": "a", "steps": 12}.items()
    assert folder.read_point("one") == {"config_hash": "a", "steps": 12}
    other = (tmp_path / "points" / "two.json").read_text()
    for damaged in ("", text[:-3], text.replace("12", "13"), text.replace("12", '"x"'), other, "[" * 100_000, "[]"):
        file.write_text(damaged)
        assert folder.read_point("one") is None, damaged[:60]
    file.write_bytes(b"\xff" + text.encode())
    assert folder.read_point("one") is None


def test_points_that_cannot_exist_are_rows(tmp_path: Path) -> None:
    """They do not end the sweep, and neither do runs that fail."""
    todo = plan(tmp_path, fields={"model": ["llama-3.1-8b", "llama-3.1-405b"]}, replications=2)
    assert [point.key is None for point in todo.points] == [False, False, True, True]
    outcome = run_sweep(todo, Folder(tmp_path / "out"))
    assert len(outcome.failures) == 2
    rows = list(read_rows(tmp_path / "out" / "results.parquet"))
    assert [row["status"] for row in rows] == ["ok", "ok", "failed", "failed"]
    assert "does not fit" in rows[2]["error"] or "do not fit" in rows[2]["error"]
    assert rows[2]["ttft_ms.mean"] is None and rows[2]["run.seed"] is None
    # The swept field has its name; what the summary calls so has another.
    assert (rows[0]["model"], rows[0]["summary.model"]) == ("llama-3.1-8b", "llama-3.1-8b")
    assert (rows[2]["model"], rows[2]["summary.model"]) == ("llama-3.1-405b", None)


def test_runs_that_fail_are_rows_and_are_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = plan(tmp_path, **GRID)
    run = running.execute

    def fail(scenario: servetwin.Scenario, **more: Any) -> Any:
        if scenario.cluster.pools[0].replicas == 2:
            raise InputError("no luck", path="a.b", found=3)
        if scenario.workload.arrivals.rate_per_s == 50:  # type: ignore[union-attr]
            raise ZeroDivisionError("oh")
        return run(scenario, **more)

    monkeypatch.setattr(running, "execute", fail)
    outcome = run_sweep(todo, Folder(tmp_path / "out"))
    assert outcome.failures == [
        ((5, 2), "no luck (a.b, found 3)"), ((50, 1), "internal error: ZeroDivisionError: oh"),
        ((50, 2), "no luck (a.b, found 3)"),
    ]  # fmt: skip
    monkeypatch.setattr(running, "execute", run)
    outcome = run_sweep(todo, Folder(tmp_path / "out"), resume=True)
    assert (outcome.runs, outcome.taken, outcome.failures) == (4, 1, [])


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_keeps_what_has_ended(jobs: int, tmp_path: Path) -> None:
    todo = plan(tmp_path, fields={"run.seed": list(range(12))})

    def progress(ended: int, _todo: int) -> None:
        if ended == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    outcome = run_sweep(todo, Folder(tmp_path / "out"), jobs=jobs, progress=progress)
    assert outcome.signal_number == signal.SIGTERM
    rows = list(read_rows(tmp_path / "out" / "results.parquet"))
    assert len(rows) == outcome.runs == 5
    assert {row["status"] for row in rows} == {"ok"}
    outcome = run_sweep(todo, Folder(tmp_path / "out"), jobs=jobs, resume=True)
    assert (outcome.runs, outcome.taken) == (12, 5)


def test_a_signal_in_the_middle_of_a_run_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise Interrupted("in the middle", signal.SIGINT)

    monkeypatch.setattr(running, "execute", stop)
    outcome = run_sweep(plan(tmp_path, **GRID), Folder(tmp_path / "out"))
    assert (outcome.runs, outcome.failures, outcome.signal_number) == (0, [], signal.SIGINT)
    assert parquet.read_metadata(tmp_path / "out" / "results.parquet").num_rows == 0


@pytest.mark.parametrize(
    ("content", "given", "words"),
    [
        ({"fields": {"workload.arrivals.rate_per": [1, 2]}}, (),
         ("unknown field", "sweep.yaml, fields.workload.arrivals.rate_per", "nearest: rate_per_s")),
        ({"fields": {"cluster.pools.7.replicas": [1]}}, (), ("no entry '7'", "sweep.yaml, fields.cluster.pools.7")),
        ({"fields": {"cluster.replicas": [1, 0]}}, (), ("out of range", "fields.cluster.replicas", "found:   0")),
        ({"fields": {"router": [{"policy": "rondom"}]}}, (), ("fields.router", "rondom", "random")),
        ({"fields": {"cluster.hardware": ["h100-sxm", "h10"]}}, (), ("no GPU", "fields.cluster.hardware", "h10")),
        ({"design": "list", "points": [{"cluster.replica": 1}]}, (), ("points.*.cluster.replica", "replicas")),
        ({"fields": {"model": ["llama-3.1-405b"]}}, (), ("fit",)),
        ({**GRID, "set": {"run.reqests": 3}}, (), ("sweep.yaml: set", "nearest: requests")),
        (GRID, ("run.reqests=3",), ("--set run.reqests=3", "nearest: requests")),
        (GRID, ("cluster.replicas=3",), ("the field is swept", "--set cluster.replicas=3")),
        ({**GRID, "set": {"cluster.replicas": 3}}, (), ("the field is swept", "sweep.yaml: set")),
        ({"fields": {"run.seed": [1]}, "replications": 2}, (), ("run.seed", "one of the two")),
        ({**GRID, "scenario": "quickstrat"}, (), ("sweep.yaml, scenario", "nearest: quickstart")),
        ({**GRID, "scenario": "absent.yaml"}, (), ("absent.yaml",)),
        ({"fields": {"run.seed": [2**63]}}, (), ("seed is too large",)),
    ],
)  # fmt: skip
def test_bad_sweeps_fail_at_once(
    content: dict[str, Any], given: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        plan(tmp_path, given, **content)
    for word in words:
        assert word in str(caught.value)


def test_the_command_line_counts_more_than_the_file(tmp_path: Path) -> None:
    todo = plan(tmp_path, ("run.requests=12",), **GRID, set={"run.requests": 10, "cluster.slowdown": 1.2})
    assert todo.scenario.run.requests == 12
    assert todo.scenario.cluster.slowdown == 1.2


def test_a_combination_that_makes_no_sense_points_to_skip_if(tmp_path: Path) -> None:
    fields = {"workload.arrivals.process": ["poisson", "gamma"], "workload.arrivals.cv": [2]}
    with pytest.raises(ScenarioError, match="unknown field") as caught:
        plan(tmp_path, fields=fields, skip_if="workload.arrivals.cv > 3")
    assert "skip_if" in str(caught.value)
    left = plan(tmp_path, fields=fields, skip_if="workload.arrivals.process == 'poisson'")
    assert (len(left.points), left.skipped) == (1, 1)


def test_an_unwritable_folder(tmp_path: Path) -> None:
    todo = plan(tmp_path, **GRID)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        run_sweep(todo, Folder(tmp_path / "file"))
