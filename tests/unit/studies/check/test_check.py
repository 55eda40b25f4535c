"""Checks from suite to document: regressions, improvements, what stands beside, and the files of baselines."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.unit.studies.check.small_suite import check, plan, write_suite

from servetwin.errors import InputError
from servetwin.studies.check.baseline import find_baseline, text_of


def names(rows: list[dict[str, Any]]) -> set[str]:
    return {row["metric"] for row in rows}


def test_unchanged(tmp_path: Path) -> None:
    file = write_suite(tmp_path, {"assert": ["completed == requests"]}, {"set": {"cluster.replicas": 1}})
    made = check(file, update=True)
    assert made["passed"]
    assert [row["changed"] for row in made["updated_baselines"]] == [True, True]
    document = check(file)
    assert document["passed"]
    assert len(document["assertions"]) == 1
    assert all(len(entry["compared"]) > 60 and entry["pairs"] == 5 for entry in document["entries"])
    for key in ("regressions", "improvements", "unclear", "changed_metrics", "changed_scenarios", "notes"):
        assert document[key] == []
    assert [row["changed"] for row in check(file, update=True)["updated_baselines"]] == [False, False]


def test_a_slower_engine_fails_with_metric_scenario_and_size(tmp_path: Path) -> None:
    file = write_suite(tmp_path, {"name": "mine"})
    check(file, update=True)
    document = check(file, changes=("cluster.slowdown=1.03",))
    assert not document["passed"] and not document["entries"][0]["passed"]
    row = next(row for row in document["regressions"] if row["metric"] == "tpot_ms.mean")
    assert (row["name"], row["scenario"], row["direction"]) == ("mine", "small.yaml", "lower-is-better")
    assert 0.02 < row["relative"] < 0.05
    assert row["low"] <= row["relative"] <= row["high"]
    assert row["tolerance"] == {"relative": 0.01, "absolute": 0.0}
    assert {"name": "mine", "what": "scenario"}.items() <= document["changed_scenarios"][0].items()


def test_slightly_slower_passes(tmp_path: Path) -> None:
    file = write_suite(tmp_path)
    check(file, update=True)
    document = check(file, changes=("cluster.slowdown=1.001",))
    assert document["passed"] and document["regressions"] == []
    # What was run has changed, which is said and decides nothing.
    assert [row["what"] for row in document["changed_scenarios"]] == ["scenario"]


def test_improved(tmp_path: Path) -> None:
    slow = write_suite(tmp_path, {"set": {"cluster.slowdown": 1.03}})
    check(slow, update=True)
    document = check(write_suite(tmp_path))
    assert document["passed"]
    assert "tpot_ms.mean" in names(document["improvements"])


def test_tolerances_decide(tmp_path: Path) -> None:
    file = write_suite(tmp_path)
    check(file, update=True)
    tolerant = write_suite(tmp_path, {"tolerance": {"default": "20%"}})
    assert check(tolerant, changes=("cluster.slowdown=1.03",))["passed"]
    only = write_suite(tmp_path, {"tolerance": {"*": "ignore", "tpot_ms.p50": "2%"}})
    document = check(only, changes=("cluster.slowdown=1.03",))
    assert document["entries"][0]["compared"] == ["tpot_ms.p50"]
    assert names(document["regressions"]) == {"tpot_ms.p50"}


def test_events_steps_and_gpus_are_compared_only_when_named(tmp_path: Path) -> None:
    every_step = {"set": {"run.stepping": "every-step"}}
    file = write_suite(tmp_path)
    check(file, update=True)
    # Every step is an event now, and nothing else differs.
    document = check(write_suite(tmp_path, every_step))
    assert document["passed"] and document["changed_metrics"] == []
    named = {**every_step, "tolerance": {"events": "1%"}}
    assert names(check(write_suite(tmp_path, named))["regressions"]) == {"events"}


def test_times_of_this_computer_are_kept_only_when_named(tmp_path: Path) -> None:
    file = write_suite(tmp_path)
    check(file, update=True)
    path = tmp_path / "baselines" / "suite" / "entry-0.json"
    assert "wall_s" not in path.read_text()
    named = write_suite(tmp_path, {"tolerance": {"wall_s": "90%"}})
    with pytest.raises(InputError, match="lacks a metric") as found:
        check(named)
    assert "metrics.wall_s" in str(found.value) and "--update-baseline" in str(found.value)
    check(named, update=True)
    assert "wall_s" in path.read_text()
    assert "wall_s" in check(named)["entries"][0]["compared"]


def test_assertions_hold_for_every_seed(tmp_path: Path) -> None:
    file = write_suite(tmp_path, {"assert": ["ttft_ms.mean > 0"], "compare": False}, seeds=[0, 1, 2])
    document = check(file)
    assert document["passed"] and document["entries"][0]["compared"] == []
    outcome = document["assertions"][0]
    assert (outcome["failed_seeds"], outcome["seeds"]) == ([], 3)
    # Between the least and the largest of three: one or two seeds fail, and the largest is the worst.
    means = {seed: _mean(file, seed) for seed in (0, 1, 2)}
    limit = sorted(means.values())[1]
    document = check(
        write_suite(tmp_path, {"assert": [f"ttft_ms.mean <= {limit!r}"], "compare": False}, seeds=[0, 1, 2])
    )
    (outcome,) = document["assertions"]
    worst = max(means, key=lambda seed: means[seed])
    assert not document["passed"] and not outcome["passed"]
    assert (outcome["failed_seeds"], outcome["worst_seed"]) == ([worst], worst)
    assert outcome["values"] == {"ttft_ms.mean": means[worst]}


def _mean(file: Path, seed: int) -> float:
    import servetwin

    value: float = servetwin.run(file.parent / "small.yaml", run__seed=seed).summary()["ttft_ms.mean"]
    return value


def test_classes_and_arithmetic(tmp_path: Path) -> None:
    classes = [{"name": "chat", "share": 3}, {"name": "batch-jobs", "share": 1}]
    asserted = ["classes.chat.requests + classes.batch-jobs.requests == requests"]
    file = write_suite(tmp_path, {"set": {"workload.classes": classes}, "assert": asserted})
    assert check(file, update=True)["passed"]
    document = check(file)
    assert document["passed"] and "classes.batch-jobs.ttft_ms.p99" in document["entries"][0]["compared"]


def test_no_baseline(tmp_path: Path) -> None:
    file = write_suite(tmp_path, {"name": "mine"})
    with pytest.raises(InputError) as found:
        check(file)
    for words in ("no baseline of mine", str(Path("baselines", "suite", "mine.json")), f"{file} --update-baseline"):
        assert words in str(found.value)


def test_other_seeds_and_few_seeds_are_said(tmp_path: Path) -> None:
    file = write_suite(tmp_path, seeds=[0, 1, 2])
    check(file, update=True)
    assert "3 seeds are few" in check(file)["notes"][0]["text"]
    document = check(file, seed=3)
    assert document["passed"]
    assert [row["what"] for row in document["changed_scenarios"]] == ["seeds"]
    assert document["entries"][0]["pairs"] == 0
    assert "only large changes" in document["notes"][0]["text"]
    assert not check(file, seed=3, changes=("cluster.slowdown=3",))["passed"]
    document = check(file, seed=2)
    assert document["entries"][0]["pairs"] == 1
    assert "one of 3 seeds is in the baseline" in document["notes"][0]["text"]


def test_an_older_version(tmp_path: Path) -> None:
    file = write_suite(tmp_path)
    check(file, update=True)
    path = tmp_path / "baselines" / "suite" / "entry-0.json"
    raw = json.loads(path.read_text())
    raw["version"] = "0.0.9"
    del raw["metrics"]["itl_ms.p50"]
    path.write_text(json.dumps(raw))
    document = check(file)
    assert document["passed"]
    assert document["changed_scenarios"][0]["before"] == "0.0.9"
    assert "itl_ms.p50" in document["notes"][0]["text"]


def test_what_was_defined_and_no_longer_is(tmp_path: Path) -> None:
    check(write_suite(tmp_path, {"set": {"slo.goodput.ttft_ms": 500}}), update=True)
    document = check(write_suite(tmp_path))
    assert names(document["regressions"]) == {"goodput_per_s", "slo_attainment"}


def test_metrics_that_a_run_no_longer_has_are_named(tmp_path: Path) -> None:
    file = write_suite(tmp_path)
    check(file, update=True)
    path = tmp_path / "baselines" / "suite" / "entry-0.json"
    path.write_text(path.read_text().replace('"e2e_ms.p50"', '"classes.chat.e2e_ms.p50"'))
    (missing, gone) = (note["text"] for note in check(file)["notes"])
    assert missing == "not compared, for the baseline lacks them: e2e_ms.p50"
    assert gone == "not compared, for a run no longer has them: classes.chat.e2e_ms.p50"


def test_baselines_that_nobody_has(tmp_path: Path) -> None:
    check(write_suite(tmp_path, {"name": "old"}), update=True)
    file = write_suite(tmp_path, {"name": "new"})
    assert "old.json belongs to no scenario" in check(file, update=True)["notes"][0]["text"]


def test_a_baseline_is_small_and_comes_back(tmp_path: Path) -> None:
    file = write_suite(tmp_path)
    check(file, update=True)
    path = tmp_path / "baselines" / "suite" / "entry-0.json"
    assert 2000 < path.stat().st_size < 12_000
    found = find_baseline(tmp_path / "baselines", "suite", "entry-0", "")
    assert text_of(found) == path.read_text()
    assert found.seeds == (0, 1, 2, 3, 4)
    # A line a metric: a change of one shows as one line.
    assert sum(line.startswith("    ") for line in path.read_text().splitlines()) == len(found.metrics)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, ("format", "the number 1")),
        ({"seeds": []}, ("seeds", "each once")),
        ({"seeds": "0"}, ("seeds", "a list")),
        ({"name": "other"}, ("name", "entry-0")),
        ({"metrics": {"ttft_ms.mean": [1]}}, ("metrics.ttft_ms.mean", "5 numbers")),
        ({"metrics": {"ttft_ms.mean": [1, 2, 3, 4, "5"]}}, ("metrics.ttft_ms.mean",)),
        ({"metrics": None}, ("metrics", "a mapping")),
        ({"metrics": {"ttft_ms.mean": [1, 2, 3, 4, 10**400]}}, ("metrics.ttft_ms.mean", "5 numbers")),
        ({"metrics": {"ttft_ms.mean": [1, 2, 3, 4, 1e-300]}}, ("metrics.ttft_ms.mean", "5 numbers")),
        ({"metrics": {"ttft_ms.mean": [1, 2, 3, 4, True]}}, ("metrics.ttft_ms.mean", "5 numbers")),
        ({"metrics": {}}, ("no metric that is compared", "--update-baseline")),
    ],
)
def test_malformed_baselines(tmp_path: Path, change: dict[str, Any], words: tuple[str, ...]) -> None:
    file = write_suite(tmp_path)
    check(file, update=True)
    path = tmp_path / "baselines" / "suite" / "entry-0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError) as found:
        plan(file)
    for word in (str(path), *words):
        assert word in str(found.value)
    path.write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        plan(file)


def test_a_mistake_that_shows_only_in_the_run_names_entry_and_seed(tmp_path: Path, monkeypatch: Any) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise InputError("the simulated time goes beyond all bounds", path="run")

    monkeypatch.setattr("servetwin.studies.check.running.execute", fail)
    file = write_suite(tmp_path, seeds=[6])
    with pytest.raises(InputError, match="entry-0 with seed 6: the simulated time") as found:
        check(file, update=True)
    # As it comes from another process.
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)
    assert not (tmp_path / "baselines").exists()
