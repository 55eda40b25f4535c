"""Running small cases: the document, its files, several processes, interruptions."""

from __future__ import annotations

import csv
import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.studies.validation.small_cases import everything, inference_perf, sweep, table, write, write_gz

from servetwin.catalog import Catalog
from servetwin.errors import InputError, Interrupted
from servetwin.report.validation_markdown import report
from servetwin.studies.validation import RunOptions, build_document, make_plan, read_case_file, run_plan, running
from servetwin.studies.validation.plan import Plan
from servetwin.studies.validation.writing import FILES, errors_csv
from servetwin.studies.validation.writing import write as write_files

CATALOG = Catalog()


def planned(folder: Path, cases: list[dict[str, Any]]) -> Plan:
    return make_plan(read_case_file(write(folder, cases)).cases, CATALOG)


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    todo = planned(tmp_path_factory.mktemp("cases"), everything())
    return build_document(todo, run_plan(todo, RunOptions()))


def test_every_case_has_its_place(answer: dict[str, Any]) -> None:
    scored = {row["id"] for row in answer["cases"]}
    waiting = {row["id"]: row["reason"] for row in answer["not_yet"]}
    excluded = {row["id"] for row in answer["excluded"]}
    assert scored == {
        "perf", "sweep", "table", "profile", "aggregated", "separate-sweep", "drafts", "drafts-cost",
    }  # fmt: skip
    assert excluded == {"spoilt"}
    assert scored | set(waiting) | excluded == {fields["id"] for fields in everything()}
    assert len(scored) + len(waiting) + len(excluded) == len(everything())
    # What the scenario itself refuses is the reason; a later version that has it will run the case.
    assert "attention data parallelism" in waiting["wide"]
    assert "attention data parallelism" in waiting["spread"]
    assert answer["counts"]["scored"] == 8
    assert answer["counts"]["not_yet"] == len(waiting)
    assert not answer["interrupted"]


def test_the_document_is_that_of_the_interface(answer: dict[str, Any]) -> None:
    json.dumps(answer, allow_nan=False)
    assert set(answer["kinds"]) == {fields["kind"] for fields in everything()}
    assert answer["kinds"]["spec_decode"]["speedup"]["n"] == 1
    assert answer["kinds"]["serving"]["tpot_ms.mean"]["n"] == 1
    assert set(answer["kinds"]["throughput_table"]) == {"output_throughput"}
    assert set(answer["sets"]) == {"vllm-0.15.1"}
    assert set(answer["sets"]["vllm-0.15.1"]) == {
        "ttft_ms.mean", "ttft_ms.p99", "tpot_ms.mean", "e2e_ms.mean", "e2e_ms.p99",
    }  # fmt: skip
    for row in answer["cases"]:
        assert row["error_pct"] == pytest.approx(100 * (row["predicted"] / row["measured"] - 1))
    (summary,) = [
        r for r in answer["cases"] if (r["id"], r["stage"], r["metric"]) == ("perf", "summary", "e2e_ms.mean")
    ]
    assert answer["kinds"]["serving"]["e2e_ms.mean"]["mape_mean"] == pytest.approx(abs(summary["error_pct"]))
    assert [row["scored"] for row in answer["cases"] if row["stage"] == "stage_0"] == [False] * 5
    assert answer["peers"]["other-simulator"]["tpot_ms.mean"]["mape_mean"] == pytest.approx(100)


def test_every_row_says_what_was_measured(answer: dict[str, Any]) -> None:
    rows = {row["id"]: row for row in answer["scores"]}
    assert [row["id"] for row in answer["scores"]] == [
        "perf", "sweep", "table", "profile", "aggregated", "separate-sweep", "drafts", "drafts-cost",
    ]  # fmt: skip
    assert answer["counts"]["scored"] == len(rows)
    expected = {
        "hardware": "h100-sxm", "engine": "vllm", "model": "llama-3.1-8b", "precision": "bf16", "architecture": "dense",
    }  # fmt: skip
    for row in answer["scores"] + answer["cases"]:
        assert {trait: row[trait] for trait in expected} == expected
    errors = rows["sweep"]["errors"]["tpot_ms.mean"]
    points = [row["error_pct"] for row in answer["cases"] if row["id"] == "sweep" and row["metric"] == "tpot_ms.mean"]
    assert errors["points"] == len(points) == 2
    assert errors["mape"] == pytest.approx(sum(map(abs, points)) / 2)
    assert errors["signed_mean"] == pytest.approx(sum(points) / 2)


def test_groups_of_all_kinds(tmp_path: Path) -> None:
    mixture = sweep("experts", model="mistralai/Mixtral-8x7B-v0.1", hardware="H200", engine="SGLang 0.5.9", tp=2)
    mixture["parallel"] = {**mixture["parallel"], "tp_size": 2}
    todo = planned(tmp_path, [sweep(), table(engine="TensorRT-LLM 1.0"), mixture])
    found = build_document(todo, run_plan(todo, RunOptions()))
    assert list(found["engines"]) == ["sglang", "trtllm", "vllm"]
    assert list(found["hardware"]) == ["h100-sxm", "h200-sxm"]
    assert list(found["architectures"]) == ["dense", "moe"]
    assert set(found["engines"]["trtllm"]) == {"output_throughput"}
    (row,) = [row for row in found["scores"] if row["id"] == "experts"]
    assert (row["engine"], row["architecture"]) == ("sglang", "moe")
    assert found["architectures"]["moe"]["tpot_ms.mean"]["mape_mean"] == row["errors"]["tpot_ms.mean"]["mape"]
    assert found["hardware"]["h100-sxm"]["tpot_ms.mean"]["n"] == 1


def test_repeated_runs_are_predicted_by_one(answer: dict[str, Any]) -> None:
    runs = [row for row in answer["cases"] if row["id"] == "aggregated" and row["metric"] == "tpot_ms.mean"]
    assert len(runs) == 2
    assert runs[0]["predicted"] == runs[1]["predicted"]


def test_several_processes_give_the_same_bytes(tmp_path: Path) -> None:
    todo = planned(tmp_path, [inference_perf(), sweep()])
    here = build_document(todo, run_plan(todo, RunOptions(seed=3)), seed=3)
    there = build_document(todo, run_plan(todo, RunOptions(seed=3, jobs=2)), seed=3)
    assert json.dumps(here) == json.dumps(there)
    other = build_document(todo, run_plan(todo, RunOptions(seed=4)), seed=4)
    assert here["cases"] != other["cases"]


def test_recorded_requests_are_scored_one_by_one(tmp_path: Path) -> None:
    rows = "".join(f"{0.1 * n:.1f},120,{n},1,{100 + n}\n" for n in range(9))
    write_gz(tmp_path, "r.csv.gz", f"arrival_s,prompt_tokens,prompt_id_guess,ttft_ms,e2e_ms\n{rows}")
    work = {**inference_perf()["workload"], "per_request_trace": "r.csv.gz"}
    todo = planned(tmp_path, [inference_perf(workload=work)])
    found = build_document(todo, run_plan(todo, RunOptions()))
    (row,) = found["per_request"]
    assert row["n"] == 9
    assert 0 < row["median_error_pct"] < 100


def test_overrides_reach_every_run(tmp_path: Path) -> None:
    todo = planned(tmp_path, [sweep()])
    plain = build_document(todo, run_plan(todo, RunOptions()))
    slow = build_document(todo, run_plan(todo, RunOptions(changes=("cluster.slowdown=2",))))
    tpot = [[r["predicted"] for r in found["cases"] if r["metric"] == "tpot_ms.mean"] for found in (plain, slow)]
    assert tpot[1] == pytest.approx([2 * value for value in tpot[0]], rel=0.05)
    with pytest.raises(InputError, match="slowdwon"):
        run_plan(todo, RunOptions(changes=("cluster.slowdwon=2",)))


def test_what_does_not_fit_is_not_yet(tmp_path: Path) -> None:
    todo = planned(tmp_path, [sweep(model="meta-llama/Llama-3.1-70B-Instruct")])
    found = build_document(todo, run_plan(todo, RunOptions()))
    assert "do not fit" in found["not_yet"][0]["reason"]
    assert found["unpredicted"] == [] and found["kinds"] == {"concurrency_sweep": {}}


def test_points_that_cannot_be_run_are_listed(tmp_path: Path) -> None:
    point = {"tpot_ms": {"mean_or_median": 6.0}}
    lengths = {"isl64_osl16_conc1": point, "isl64_osl16_conc2": point, "isl200000_osl16_conc1": point}
    todo = planned(tmp_path, [sweep(measured=lengths)])
    found = build_document(todo, run_plan(todo, RunOptions()))
    assert [row["stage"] for row in found["unpredicted"]] == ["isl200000_osl16_conc1"]
    assert found["kinds"]["concurrency_sweep"]["tpot_ms.mean"]["n"] == 1
    assert len(found["cases"]) == 2


def test_an_interruption_keeps_what_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = planned(tmp_path, [sweep("a"), sweep("b")])
    whole = running.run_trial
    ended = 0

    def run(*arguments: Any) -> Any:
        nonlocal ended
        if ended == 3:
            raise Interrupted("in the middle of a run", signal.SIGTERM)
        ended += 1
        return whole(*arguments)

    monkeypatch.setattr(running, "run_trial", run)
    finished = run_plan(todo, RunOptions())
    assert finished.signal_number == signal.SIGTERM
    found = build_document(todo, finished)
    assert found["interrupted"]
    assert found["counts"]["runs"] == 3
    assert found["counts"]["unfinished"] == ["b"]
    # Half of the points of the second case are there.
    assert found["kinds"]["concurrency_sweep"]["tpot_ms.mean"]["n"] == 2
    assert "Interrupted" in report(found)


def test_a_case_that_was_not_reached_is_neither_scored_nor_impossible(tmp_path: Path) -> None:
    todo = planned(tmp_path, [sweep("a"), sweep("b")])
    finished = run_plan(planned(tmp_path, [sweep("a")]), RunOptions())
    finished.signal_number = signal.SIGINT
    found = build_document(todo, finished)
    assert found["counts"]["scored"] == 1 and found["not_yet"] == []
    assert found["counts"]["unfinished"] == ["b"]


def test_files(tmp_path: Path, answer: dict[str, Any]) -> None:
    write_files(answer, tmp_path / "deep" / "out")
    assert {path.name for path in (tmp_path / "deep" / "out").iterdir()} == set(FILES)
    rows = list(csv.DictReader(io.StringIO(errors_csv(answer))))
    assert len(rows) == len(answer["cases"])
    assert float(rows[0]["error_pct"]) == pytest.approx(answer["cases"][0]["error_pct"])
    assert {row["engine"] for row in rows} == {"vllm"} and {row["architecture"] for row in rows} == {"dense"}
    text = report(answer)
    for words in (
        "| serving | tpot_ms.mean |",
        "| h100-sxm | tpot_ms.mean |",
        "| sweep | h100-sxm | llama-3.1-8b |",
        "other-simulator",
        "| inferred |",
        "`spoilt`",
    ):
        assert words in text
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_files(answer, tmp_path / "file")
