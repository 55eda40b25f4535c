"""Suite files: what they mean, and what is said about bad ones before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.unit.studies.check.small_suite import check, plan, write_suite

from servetwin.catalog.yaml_file import parse_yaml
from servetwin.errors import InputError
from servetwin.studies.check.json_schema import suite_schema
from servetwin.studies.check.suite import read_suite
from servetwin.studies.check.tolerance import Rule, rule_for

OURS = Path(__file__).resolve().parents[3] / "suite" / "ours.yaml"


def test_a_whole_suite(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "seeds: [3, 4]\n"
        "tolerance: {default: 2%, '*.max': ignore}\n"
        "scenarios:\n"
        "  - name: one\n"
        "    scenario: quickstart\n"
        "    assert: ['ttft_ms.p99 <= 500']\n"
        "    tolerance: {ttft_ms.p99: {relative: 3%, absolute: 1, direction: lower-is-better}, ttft_ms.*: 5%}\n"
        "  - {name: two, scenario: quickstart, seeds: [9], compare: false, assert: [completed > 0]}\n"
    )
    suite = read_suite(tmp_path / "s.yaml")
    one, two = suite.scenarios
    assert suite.name == "s"
    assert (suite.seeds_of(one), suite.seeds_of(two)) == ((3, 4), (9,))
    tolerances = suite.tolerances_of(one)
    assert rule_for("ttft_ms.p99", tolerances) == Rule(0.03, 1, "lower-is-better")
    assert rule_for("ttft_ms.max", tolerances) == Rule(0.05, 0, "lower-is-better")
    assert rule_for("e2e_ms.max", tolerances) is None
    assert rule_for("goodput_per_s", tolerances) == Rule(0.02, 0, "higher-is-better")


def test_tolerances_by_default_and_by_name(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "scenarios: [{name: a, scenario: q, tolerance: {kv_use_mean: 5%, ttft_ms.p99: {absolute: 2}, e2e_ms.p99: 0}}]"
    )
    tolerances = dict(read_suite(tmp_path / "s.yaml").scenarios[0].tolerance)
    assert rule_for("tpot_ms.p99", tolerances) == Rule(0.01, 0, "lower-is-better")
    assert rule_for("utilisation", tolerances) == Rule(0.01, 0, None)
    # What is named counts, whatever way it goes.
    assert rule_for("kv_use_mean", tolerances) == Rule(0.05, 0, "either")
    assert rule_for("ttft_ms.p99", tolerances) == Rule(0, 2, "lower-is-better")
    assert rule_for("e2e_ms.p99", tolerances) == Rule(0, 0, "lower-is-better")
    assert Rule(0.01, 2, None).limit(100) == 2
    assert Rule(0.01, 2, None).limit(-500) == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scenarios: []", ("scenarios", "too few entries")),
        ("scenarois: [{name: a, scenario: quickstart}]", ("unknown field", "scenarois", "nearest: scenarios")),
        ("scenarios: [{name: a, scenaro: quickstart}]", ("scenarios.0.scenaro", "nearest: scenario")),
        ("scenarios: [{name: a, scenario: quickstart, asert: [x]}]", ("scenarios.0.asert", "nearest: assert")),
        ("scenarios: [{name: a, scenario: quickstrat}]", ("scenarios.0.scenario", "nearest: quickstart")),
        ("scenarios: [{name: a, scenario: ./absent.yaml}]", ("no such scenario file", "absent.yaml")),
        ("scenarios: [{name: a, scenario: small.yaml, seeds: []}]", ("scenarios.0.seeds", "too few")),
        ("scenarios: [{name: a, scenario: small.yaml, seeds: [1, 1]}]", ("scenarios.0.seeds", "1 stands twice")),
        ("scenarios: [{name: a, scenario: small.yaml, seeds: [-1]}]", ("scenarios.0.seeds.0", "at least 0")),
        ("scenarios: [{name: a/b, scenario: small.yaml}]", ("scenarios.0.name", "letters")),
        ("scenarios: [{name: a, scenario: small.yaml}, {name: A, scenario: small.yaml}]",
         ("same name", "scenarios.1.name", "found:   A")),
        ("scenarios: [{name: a, scenario: small.yaml, compare: false}]", ("scenarios.0", "nothing is checked")),
        ("scenarios: [{name: a, scenario: small.yaml, set: {run.requsts: 1}}]",
         ("scenarios.0.set, run.requsts", "nearest: requests")),
        ("scenarios: [{name: a, scenario: small.yaml, set: {cluster..replicas: 1}}]", ("no path", "cluster..replicas")),
        ("scenarios: [{name: a, scenario: small.yaml, set: {run.seed: 1}}]", ("scenarios.0.set.run.seed", "seeds")),
        ("scenarios: [{name: a, scenario: small.yaml, set: {model: llama-3.1-405b}}]",
         ("a: the weights of llama-3.1-405b do not fit", "small.yaml")),
        ("scenarios: [{name: a, scenario: small.yaml, assert: [ttft_ms.p98 < 1]}]",
         ("scenarios.0.assert.0", "no such metric", "nearest: ttft_ms.p9")),
        ("scenarios: [{name: a, scenario: small.yaml, assert: [1 < 2]}]", ("scenarios.0.assert.0", "without a metric")),
        ("scenarios: [{name: a, scenario: small.yaml, assert: classes.a.completed < 2}]", ("assert", "a list")),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {default: 1}}]", ("tolerance.default", "sign: 2%")),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {default: {direction: lower}}}]",
         ("direction", "nearest: lower-is-better")),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {defualt: 1%}}]",
         ("scenarios.0.tolerance.defualt", "nearest: default")),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {ttft.p99: 1%}}]", ("nearest: ttft_ms.p99",)),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {seed: 1%}}]", ("no such metric",)),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {'classes.*': 1%}}]", ("fits this pattern",)),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {'*': ignore}}]", ("ignored", "compare: false")),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {'step*': 5%}}]", ("step*", "fits this pattern")),
        ("{tolerance: {'*_s': 1%, 'wall*': 5%}, scenarios: [{name: a, scenario: small.yaml}]}", ("tolerance.wall*",)),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {default: {ignore: true, absolute: 1}}}]",
         ("tolerance.default", "has an effect beside ignore")),
        ("scenarios: [{name: a, scenario: small.yaml, assert: ['completed > " + "1 +" * 999 + " 1']}]",
         ("assert.0", "too long", "at most 1,000")),
        ("scenarios: [{name: a, scenario: small.yaml, compare: false, assert: [steps > 1]}]",
         ("--update-baseline", "no effect")),
        ("{tolerance: {stepps: 1%}, scenarios: [{name: a, scenario: small.yaml}]}",
         ("tolerance.stepps", "nearest: steps")),
        ("scenarios: [{name: a, scenario: small.yaml, tolerance: {default: 1%}, compare: false, assert: [steps > 1]}]",
         ("scenarios.0", "no effect")),
    ],
)  # fmt: skip
def test_bad_suites_fail_at_once(tmp_path: Path, text: str, words: tuple[str, ...], monkeypatch: Any) -> None:
    file = write_suite(tmp_path)
    file.write_text(text)
    monkeypatch.setattr("servetwin.studies.check.running.execute", _never)
    with pytest.raises(InputError) as found:
        check(file, update=True)
    for word in words:
        assert word in str(found.value), str(found.value)
    assert not (tmp_path / "baselines").exists()


def _never(*_: Any, **__: Any) -> None:
    raise AssertionError("something ran")


def test_a_mistake_in_the_last_scenario_ends_the_check_before_the_first_runs(tmp_path: Path, monkeypatch: Any) -> None:
    file = write_suite(tmp_path, {}, {"assert": ["ttft_ms.p9 < 1"]})
    monkeypatch.setattr("servetwin.studies.check.running.execute", _never)
    with pytest.raises(InputError, match=r"scenarios\.1\.assert\.0"):
        check(file, update=True)


def test_changes_of_the_command_line(tmp_path: Path) -> None:
    file = write_suite(tmp_path, {"set": {"cluster.replicas": 3}}, seeds=[4, 7])
    planned = plan(file, update=True, seed=10, changes=("run.requests=5",)).entries[0]
    assert planned.seeds == (10, 11)
    assert planned.config_hash != plan(file, update=True).entries[0].config_hash
    for change in ("run.seed=5", "run={seed: 5}"):
        with pytest.raises(InputError, match="--seed N"):
            plan(file, update=True, changes=(change,))


def test_the_schema_of_suites() -> None:
    schema = suite_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    validator.validate(parse_yaml(OURS.read_text(encoding="utf-8")))
    entry: dict[str, Any] = {"name": "a", "scenario": "b"}
    for good in ("2%", "ignore", 0, {"relative": "1%", "absolute": 2}):
        validator.validate({"scenarios": [{**entry, "tolerance": {"default": good}}]})
    for bad in (2, "2", {"relative": 2}, {"direction": "up"}):
        assert not validator.is_valid({"scenarios": [{**entry, "tolerance": {"default": bad}}]})
    assert not validator.is_valid({"scenarios": [{**entry, "asserts": []}]})
    assert json.dumps(schema)


def test_our_own_suite_is_well_formed() -> None:
    todo = plan(OURS)
    assert len(todo.entries) >= 5
    assert not todo.notes
    for planned in todo.entries:
        assert planned.baseline is not None and planned.baseline.config_hash == planned.config_hash, "update it"
        assert planned.baseline.seeds == planned.seeds
        assert not planned.notes
