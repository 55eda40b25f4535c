"""Reading files of cases: what is refused, and how it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.studies.validation.small_cases import case, everything, inference_perf, sweep, write, write_gz

from servetwin.catalog import Catalog
from servetwin.errors import ScenarioError, TraceError
from servetwin.studies.validation import make_plan, read_case_file

CATALOG = Catalog()


def refusal(file: Path) -> str:
    with pytest.raises(ScenarioError) as caught:
        read_case_file(file)
    return str(caught.value)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    found = read_case_file(write(tmp_path, everything()))
    assert len(found.cases) == len(everything())
    assert found.cases[0].set_name == "vllm-0.15.1"
    assert not found.cases[-1].usable


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    message = refusal(tmp_path / "absent.json")
    assert "no such case file" in message
    assert "absent.json" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"cases": [', ("not JSON", "line 1")),
        ("[]", ("a case file is a mapping",)),
        ('{"cases": 3}', ("no list of cases", "found:   3")),
        ('{"cases": []}', ("has no case",)),
        ('{"cases": [3]}', ("a case is a mapping", "cases.0")),
    ],
)
def test_what_is_no_file_of_cases(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    file = tmp_path / "cases.json"
    file.write_text(text)
    message = refusal(file)
    for word in words:
        assert word in message


@pytest.mark.parametrize("field", ["id", "kind", "model", "hardware", "engine", "measured", "usable_for_scoring"])
def test_fields_that_every_case_needs(tmp_path: Path, field: str) -> None:
    broken = {name: value for name, value in inference_perf().items() if name != field}
    message = refusal(write(tmp_path, [sweep(), broken]))
    assert f"cases.1.{field}" in message


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"measured": [1]}, "cases.0.measured"),
        ({"measured": None}, "cases.0.measured"),
        ({"usable_for_scoring": "yes"}, "cases.0.usable_for_scoring"),
        ({"model": 7}, "cases.0.model"),
        ({"workload": "heavy"}, "cases.0.workload"),
    ],
)
def test_fields_of_the_wrong_type(tmp_path: Path, fields: dict[str, Any], path: str) -> None:
    assert path in refusal(write(tmp_path, [inference_perf(**fields)]))


def test_two_cases_of_one_id(tmp_path: Path) -> None:
    assert "same id" in refusal(write(tmp_path, [sweep(), sweep()]))


def test_choosing(tmp_path: Path) -> None:
    found = read_case_file(write(tmp_path, everything()))
    assert [item.id for item in found.choose(["concurrency_sweep"])] == ["sweep", "wide"]
    assert [item.id for item in found.choose((), ["table", "perf"])] == ["perf", "table"]
    with pytest.raises(ScenarioError) as caught:
        found.choose(["serve"])
    assert caught.value.nearest == "serving"
    with pytest.raises(ScenarioError) as caught:
        found.choose((), ["tabel"])
    assert caught.value.nearest == "table"
    with pytest.raises(ScenarioError, match="no case is of the given kinds"):
        found.choose(["serving"], ["table"])


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (inference_perf(workload={"prefix_groups_effective": 10}), "cases.0.workload.stages"),
        (
            inference_perf(workload={**inference_perf()["workload"], "stages": [{"rate_rps": -1, "duration_s": 1}]}),
            "cases.0.workload.stages.0.rate_rps",
        ),
        (sweep(parallel=None), "cases.0.parallel"),
        (sweep(parallel={"tp_size": 1.5}), "cases.0.parallel.tp_size"),
        (sweep(measured={"many": {}}), "cases.0.measured.many"),
        (sweep(workload={"isl": 64}), "cases.0.workload.osl"),
        (case("t", "throughput_table", parallel="PP", measured={}), "cases.0.parallel"),
        (case("p", "iteration_profile", measured={"in1": {}}), "cases.0.measured.in1"),
    ],
)
def test_a_malformed_case_is_refused_with_its_place(tmp_path: Path, broken: dict[str, Any], path: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        make_plan(read_case_file(write(tmp_path, [broken])).cases, CATALOG)
    assert path in str(caught.value)
    assert "cases.json" in str(caught.value)


def test_a_case_that_is_excluded_may_be_malformed(tmp_path: Path) -> None:
    broken = inference_perf(workload={}, usable_for_scoring=False)
    assert make_plan(read_case_file(write(tmp_path, [broken])).cases, CATALOG).excluded == [0]


def test_a_recording_without_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("arrival_s,prompt_tokens\n0,5\n")
    work = {**inference_perf()["workload"], "per_request_trace": "short.csv"}
    with pytest.raises(TraceError) as caught:
        make_plan(read_case_file(write(tmp_path, [inference_perf(workload=work)])).cases, CATALOG)
    assert caught.value.found == "prompt_id_guess"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,many,3,9", ("a number is expected", "line 3, column prompt_tokens", "many")),
        ("1,5.5,3,9", ("a whole number is expected", "line 3, column prompt_tokens", "5.5")),
        ("nan,5,3,9", ("a finite number is expected", "line 3, column arrival_s")),
        ("1,5,3", ("a number is expected", "line 3, column e2e_ms")),
    ],
)
def test_a_row_of_a_recording_is_refused_with_its_place(tmp_path: Path, row: str, words: tuple[str, ...]) -> None:
    (tmp_path / "bad.csv").write_text(f"arrival_s,prompt_tokens,prompt_id_guess,e2e_ms\n0,5,3,9\n{row}\n")
    work = {**inference_perf()["workload"], "per_request_trace": "bad.csv"}
    with pytest.raises(TraceError) as caught:
        make_plan(read_case_file(write(tmp_path, [inference_perf(workload=work)])).cases, CATALOG)
    for word in ("bad.csv", *words):
        assert word in str(caught.value)


def test_a_recording_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    write_gz(tmp_path, "cut.csv.gz", "arrival_s,prompt_tokens,prompt_id_guess,e2e_ms\n0,5,3,9\n")
    file = tmp_path / "cut.csv.gz"
    file.write_bytes(file.read_bytes()[:-9])
    work = {**inference_perf()["workload"], "per_request_trace": "cut.csv.gz"}
    with pytest.raises(TraceError, match="cut off"):
        make_plan(read_case_file(write(tmp_path, [inference_perf(workload=work)])).cases, CATALOG)
