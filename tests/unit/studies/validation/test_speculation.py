"""Speed-ups by drafts: what a case becomes, what is inferred, and how the errors are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.studies.validation.small_cases import case, drafts, write, write_gz

from servetwin.catalog import Catalog
from servetwin.errors import InputError
from servetwin.report.validation_markdown import report
from servetwin.studies.validation import RunOptions, build_document, make_plan, read_case_file, run_plan, trials_of
from servetwin.studies.validation.kinds.speculation import _rate
from servetwin.studies.validation.speedup import Inference, Prompt, SpeedupTrial
from servetwin.studies.validation.step_cost import StepCostTrial
from servetwin.studies.validation.trial import Trial

CATALOG = Catalog()

EAGLE = {"batch_1": {"speedup_x": 1.7}, "batch_4": {"speedup_x": 1.6}}


def trials(folder: Path, fields: dict[str, Any]) -> list[Trial]:
    return trials_of(read_case_file(write(folder, [fields])).cases[0], CATALOG)


def speedups(folder: Path, fields: dict[str, Any]) -> SpeedupTrial:
    (trial,) = trials(folder, fields)
    assert isinstance(trial, SpeedupTrial)
    return trial


def scored(folder: Path, fields: dict[str, Any], **options: Any) -> dict[str, Any]:
    todo = make_plan(read_case_file(write(folder, [fields])).cases, CATALOG)
    return build_document(todo, run_plan(todo, RunOptions(**options)))


def recorded(folder: Path, *rows: tuple[int, list[int]]) -> dict[str, Any]:
    """A case beside whose file the accepted lengths of its prompts are recorded."""
    lines = (
        json.dumps({"prompt_tokens": prompt, "eagle3_accept_len": row, "ngram_accept_len": row}) for prompt, row in rows
    )
    (folder / "speculation").mkdir()
    write_gz(
        folder / "speculation", "llama31_8b_h100_gsm8k_acceptance.jsonl.gz", "".join(f"{line}\n" for line in lines)
    )
    (folder / "cases").mkdir()
    return drafts(measured={"EAGLE-3": EAGLE, "n-gram k=5": EAGLE})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("EAGLE", {"method": "eagle", "k": 3}),
        ("EAGLE-3", {"method": "eagle3", "k": 3}),
        ("n-gram k=5", {"method": "ngram", "k": 5}),
        ("EAGLE chain k=4", {"method": "eagle", "k": 4}),
        ("EAGLE-3 tree k=6", {"method": "eagle3", "k": 3, "tree": {"nodes": 6, "branching": 2}}),
        ("EAGLE tree k=21", {"method": "eagle", "k": 3, "tree": {"nodes": 21, "branching": 4}}),
    ],
)
def test_a_series_says_how_it_drafts(tmp_path: Path, name: str, expected: dict[str, Any]) -> None:
    trial = speedups(tmp_path, drafts(measured={name: EAGLE}))
    assert trial.speculation == expected
    assert trial.batches == {f"{name} batch_1": 1, f"{name} batch_4": 4}


def test_a_draft_model_is_that_of_the_benchmark(tmp_path: Path) -> None:
    trial = speedups(tmp_path, drafts(model="Qwen/Qwen3-8B", measured={"draft-model": EAGLE}))
    assert trial.speculation == {"method": "draft-model", "k": 3, "model": "qwen3-0.6b"}


def test_recorded_acceptance_is_taken_and_every_point_scored(tmp_path: Path) -> None:
    fields = recorded(tmp_path, (50, [1, 2, 1, 3]), (60, [2] * 8192), (70, [2]), (80, [4, 1]))
    eagle, lookup = trials(tmp_path / "cases", fields)
    assert isinstance(eagle, SpeedupTrial) and isinstance(lookup, SpeedupTrial)
    # Neither the answer that reached the limit nor the one of a single token.
    assert eagle.prompts == (Prompt(50, 4, (1, 2, 1, 3)), Prompt(80, 2, (4, 1)))
    assert (eagle.acceptance, eagle.inference, eagle.proposal, lookup.proposal) == ("measured", None, None, 0.2)
    assert all(point.scored for point in eagle.points)


def test_without_a_recording_the_batch_of_one_says_the_acceptance_and_is_not_scored(tmp_path: Path) -> None:
    trial = speedups(tmp_path, drafts())
    assert (trial.acceptance, trial.inference) == ("inferred", Inference(1.7))
    assert [point.scored for point in trial.points] == [False, True]
    assert "inferred from the speed-up of a batch of one" in trial.flags[-1]


def test_a_series_is_run_as_the_benchmark_runs_it(tmp_path: Path) -> None:
    scenario = speedups(tmp_path, drafts()).scenario
    assert scenario["cluster"]["engine"]["prefix_caching"] is False
    assert scenario["cluster"]["engine"]["max_num_batched_tokens"] == 16_384


def test_what_is_inferred_meets_the_batch_of_one(tmp_path: Path) -> None:
    found = scored(tmp_path, drafts())
    rows = {row["stage"]: row for row in found["cases"]}
    assert rows["EAGLE batch_1"]["predicted"] == pytest.approx(1.7, abs=0.01)
    assert [rows[f"EAGLE batch_{batch}"]["scored"] for batch in (1, 4)] == [False, True]
    inferred = found["speedups"]["inferred"]
    assert (inferred["n"], found["speedups"]["measured"]["n"]) == (1, 0)
    assert inferred["mae"] == pytest.approx(abs(rows["EAGLE batch_4"]["predicted"] - 1.6))
    ((series, rate),) = found["speedups"]["rates"].items()
    assert series == "drafts-EAGLE" and 0.5 < rate < 1


def test_more_is_accepted_where_the_batch_of_one_gains_more(tmp_path: Path) -> None:
    def rate(speedup: float) -> float:
        found = scored(tmp_path, drafts(measured={"EAGLE": {"batch_1": {"speedup_x": speedup}}}))
        return float(found["speedups"]["rates"]["drafts-EAGLE"])

    assert rate(1.2) < rate(1.5) < rate(1.8)


def test_a_recording_is_predicted(tmp_path: Path) -> None:
    fields = recorded(tmp_path, (50, [4] * 100), (60, [1] * 100))
    found = scored(tmp_path / "cases", fields)
    predicted = {row["stage"]: row["predicted"] for row in found["cases"]}
    # Half of the prompts gain all that four tokens of a step can, the others lose what drafting costs.
    assert 1.5 < predicted["EAGLE-3 batch_1"] < 2.5
    # Copies of a prompt fare alike, or else those of the first would wait for others.
    assert 1.5 < predicted["EAGLE-3 batch_4"] < 2.5
    assert found["speedups"]["measured"]["n"] == 4 and found["speedups"]["rates"] == {}


def test_gains_on_the_wrong_side_are_listed(tmp_path: Path) -> None:
    found = scored(tmp_path, drafts(measured={"EAGLE": {"batch_1": {"speedup_x": 1.7}, "batch_2": {"speedup_x": 0.8}}}))
    (row,) = found["speedups"]["inferred"]["wrong_side"]
    assert (row["id"], row["stage"], row["measured"]) == ("drafts", "EAGLE batch_2", 0.8)
    assert row["predicted"] > 1
    assert "`drafts` EAGLE batch_2" in report(found)


def test_seeds_and_processes_change_nothing_of_what_was_recorded(tmp_path: Path) -> None:
    fields = recorded(tmp_path, (50, [2] * 40))
    here = scored(tmp_path / "cases", fields)
    assert scored(tmp_path / "cases", fields, jobs=2)["cases"] == here["cases"]
    assert scored(tmp_path / "cases", fields, seed=5)["cases"] == here["cases"]


def test_overrides_reach_both_sides(tmp_path: Path) -> None:
    """Twice as slow a GPU, with the drafts and without: the same gain."""
    plain, slow = (scored(tmp_path, drafts(), changes=changes)["cases"] for changes in ((), ("cluster.slowdown=2",)))
    assert [row["predicted"] for row in slow] == pytest.approx([row["predicted"] for row in plain], rel=0.05)
    with pytest.raises(InputError, match="slowdwon"):
        scored(tmp_path, drafts(), changes=("cluster.slowdwon=2",))


def test_single_requests(tmp_path: Path) -> None:
    fields = drafts(
        engine="vLLM 0.9.1", workload={"dataset": "MT-Bench", "batch": 1},
        measured={"vanilla": {"tpot_ms": 7.0}, "eagle1_k2": {"tpot_ms": 5.0}},
    )  # fmt: skip
    plain, drafted = trials(tmp_path, fields)
    assert "speculation" not in plain.scenario["cluster"]
    # 1 + a + a**2 = 2.1 tokens of a step.
    assert drafted.scenario["cluster"]["speculation"] == {
        "method": "eagle", "k": 2, "acceptance": pytest.approx(0.6619, abs=1e-4),
    }  # fmt: skip
    assert (plain.acceptance, drafted.acceptance) == ("", "measured")


def test_single_requests_of_two_drafters_in_a_row(tmp_path: Path) -> None:
    row = {"eagle1_accept_len": 2.0, "eagle1_tpot_ms": 5.0, "eagle3_accept_len": 2.5, "eagle3_tpot_ms": 4.0}
    found = trials(tmp_path, drafts(workload={"dataset": "MT-Bench", "batch": 1}, measured={"k3": row}))
    assert [trial.points[0].stage for trial in found] == ["k3 eagle1", "k3 eagle3"]
    assert [trial.scenario["cluster"]["speculation"]["method"] for trial in found] == ["eagle", "eagle3"]


def test_a_single_request_of_unknown_acceptance_is_not_yet(tmp_path: Path) -> None:
    fields = drafts(workload={"dataset": "MT-Bench", "batch": 1}, measured={"eagle3_k9": {"tpot_ms": 5.0}})
    found = scored(tmp_path, fields)
    assert "the acceptance of eagle3_k9 is not known" in found["not_yet"][0]["reason"]


@pytest.mark.parametrize(("length", "drafts_", "rate"), [(1.0, 3, 0.0), (4.0, 3, 1.0), (1.75, 2, 0.5)])
def test_the_rate_of_a_length(length: float, drafts_: int, rate: float) -> None:
    assert _rate(length, drafts_) == pytest.approx(rate, abs=1e-8)


def test_the_cost_of_a_step_and_of_its_context(tmp_path: Path) -> None:
    fields = case(
        "cost", "spec_decode_cost",
        measured={"graphed_step_ms_ctx0": {"R1": 5.9, "R8": 6.0}, "delta_ms_ctx0_to_8192": {"R1": 0.3, "R8": 2.4}},
    )  # fmt: skip
    (trial,) = trials(tmp_path, fields)
    assert isinstance(trial, StepCostTrial)
    rows = {row["stage"]: row["predicted"] for row in scored(tmp_path, fields)["cases"]}
    # The weights of 8 billion parameters need at least 16.06 GB / 3.35 TB/s; the cache of 8,192 tokens, 1.07 GB.
    assert 4.8 < rows["graphed_step_ms_ctx0 R1"] < 7
    assert 0.32 < rows["delta_ms_ctx0_to_8192 R1"] < 0.6
    assert 2.5 < rows["delta_ms_ctx0_to_8192 R8"] < 4
