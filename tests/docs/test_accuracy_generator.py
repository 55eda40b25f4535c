"""``scripts/accuracy``: the page about accuracy, from invented results."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.docs.blocks import ROOT
from tests.docs.test_generated import generate

from servetwin.errors import InputError

assert generate, "puts scripts/ on the path"
generator: ModuleType = importlib.import_module("accuracy_page")
notes_file: ModuleType = importlib.import_module("accuracy_notes")

NOTES = """
targets:
  - {what: sweeps of dense models, cases: {kind: concurrency_sweep, architecture: dense}, metric: tpot_ms.mean,
     statistic: median, at_most: 9}
  - {what: my benches, cases: {id: bench-*}, metric: e2e_ms.mean, statistic: mean, at_most: 5}
  - {what: drafts, cases: {kind: spec_decode}, metric: speedup, statistic: mean, at_most: 5}
notes:
  - {cases: [sweep-*], sign: "-", why: The host is slow.}
not_modelled: [Warm-up.]
"""

TEMPLATE = "\n\n".join(f"## {name}\n\n{{{{ {name} }}}}" for name in (*generator.PARTS, "other runs"))


def error(signed: float, points: int = 1) -> dict[str, Any]:
    return {"mape": abs(signed), "signed_mean": signed, "points": points}


def score(name: str, kind: str, *, of_set: str | None = None, moe: bool = False, **errors: Any) -> dict[str, Any]:
    model, architecture = ("gpt-oss-120b", "moe") if moe else ("llama-3.1-8b", "dense")
    return {
        "id": name, "kind": kind, "set": of_set, "hardware": "h200-sxm", "engine": "sglang" if moe else "vllm",
        "model": model, "precision": "mxfp4" if moe else "bf16", "architecture": architecture,
        "errors": {metric.replace("__", "."): found for metric, found in errors.items()},
    }  # fmt: skip


def group(mean: float, n: int) -> dict[str, Any]:
    return {"mape_mean": mean, "mape_median": mean, "signed_mean": -mean, "n": n}


def result(**changed: Any) -> dict[str, Any]:
    """What ``validate`` would write of five cases."""
    tpot = {"tpot_ms.mean": group(8.0, 2)}
    return {
        "kinds": {"serving": {"e2e_ms.mean": group(6.0, 1)}, "concurrency_sweep": tpot, "spec_decode": {}},
        "sets": {"other": {"e2e_ms.mean": group(6.0, 1)}},
        "engines": {"sglang": tpot, "vllm": tpot}, "hardware": {"h200-sxm": tpot}, "architectures": {"dense": tpot},
        "scores": [
            score("bench-a", "serving", of_set="other", e2e_ms__mean=error(6.0), ttft_ms__mean=error(1.0)),
            score("sweep-a", "concurrency_sweep", tpot_ms__mean=error(-4.0, 3)),
            score("sweep-b", "concurrency_sweep", moe=True, tpot_ms__mean=error(12.0)),
        ],
        "not_yet": [{"id": "drafts", "kind": "spec_decode", "reason": "needs drafts"}],
        "excluded": [{"id": "spoilt", "kind": "serving", "reason": "not usable for scoring: client_timed_out"}],
        "worst": [
            {"id": "sweep-b", "kind": "concurrency_sweep", "metric": "tpot_ms.mean", **error(12.0)},
            {"id": "bench-a", "kind": "serving", "metric": "e2e_ms.mean", **error(6.0)},
            {"id": "sweep-a", "kind": "concurrency_sweep", "metric": "tpot_ms.mean", **error(-4.0, 3)},
        ],
        "speedups": {
            "measured": {"mae": 0.0512, "bias": -0.01, "n": 2, "wrong_side": [
                {"id": "drafts", "stage": "EAGLE batch_64", "predicted": 1.04, "measured": 0.91},
            ]},
            "inferred": {"mae": None, "bias": None, "n": 0, "wrong_side": []},
            "rates": {"drafts-EAGLE": 0.72049},
        },
        "orders": [
            {"ids": ["apart", "whole"], "stage": "all", "metric": "tpot_ms.mean", "deployments": ["1P1D", "2_regular"],
             "measured": [7.0, 10.0], "predicted": [6.0, 9.0], "noise_pct": 16.0, "verdict": "right"},
        ],
        "peers": {"theirs": {"tpot_ms.mean": {**group(40.0, 1), "servetwin_mape_mean": 4.0}}},
        "published_peers": [
            {"case_set": "theirs", "simulator": "one", "metric": "e2e_mean", "n_experiments": 3.0,
             "mape_mean_pct": 21.0, "mape_median_pct": 20.0, "mape_p90_pct": 30.0, "mean_signed_error_pct": 1.0},
        ],
        "per_request": [
            {"id": "bench-a", "stage": stage, "metric": "e2e_ms", "median_error_pct": off, "n": 600}
            for stage, off in (("one", 1.5), ("two", 2.5))
        ],
        "unpredicted": [{"id": "sweep-b", "stage": "conc_9", "reason": "too long"}],
        "assumptions": [{"text": "a version stands for another", "cases": 2}],
        "warnings": [{"text": "constants are lent", "cases": 1}],
        "counts": {"cases": 5, "scored": 3, "not_yet": 1, "excluded": 1, "runs": 1234},
        "primary_metrics": {"serving": "e2e_ms.mean", "concurrency_sweep": "tpot_ms.mean", "spec_decode": "speedup"},
        "seed": 7, "overrides": [], "version": "9.8", "interrupted": False, "date": "2026-11-03",
        "command": ["servetwin", "validate", "../shared/cases.json", "--seed", "7"],
        **changed,
    }  # fmt: skip


@pytest.fixture
def notes(tmp_path: Path) -> Any:
    (tmp_path / "notes.yaml").write_text(NOTES)
    return notes_file.read_notes(tmp_path / "notes.yaml")


def page(notes: Any, *results: dict[str, Any]) -> str:
    text: str = generator.page(results or (result(),), notes, TEMPLATE)
    return text


def test_the_same_result_gives_the_same_bytes(notes: Any) -> None:
    again = json.loads(json.dumps(result()))
    assert page(notes) == page(notes, again)


def test_the_run_and_its_counts(notes: Any) -> None:
    text = page(notes)
    assert (
        "servetwin 9.8, 3 November 2026, seed 7: **5 cases = 3 scored + 1 waiting + 1 excluded**, 1,234 runs." in text
    )
    assert "servetwin validate ../shared/cases.json --seed 7" in text


def test_targets_are_met_or_missed(notes: Any) -> None:
    text = page(notes)
    assert "| sweeps of dense models | TPOT | median | 4.0 | 9 | 1 | met |" in text
    assert "| my benches | E2E | mean | 6.0 | 5 | 1 | **missed** |" in text
    assert "| drafts | speedup | mean | – | 5 | 0 | not scored |" in text


def test_every_scored_case_has_a_row(notes: Any) -> None:
    text = page(notes)
    for row in (
        "| bench-a | h200-sxm | llama-3.1-8b | bf16 | vllm | +1.0 | +6.0 | 6.0 | 1 |",
        "| sweep-a | h200-sxm | llama-3.1-8b | bf16 | vllm | -4.0 | 4.0 | 3 |",
        "| sweep-b | h200-sxm | gpt-oss-120b | mxfp4 | sglang | +12.0 | 12.0 | 1 |",
    ):
        assert text.count(row) == 1
    assert "### Serving, set other" in text and "### Concurrency sweeps" in text


def test_a_worst_case_has_its_analysis_or_says_that_it_has_none(notes: Any) -> None:
    """The analysis is of errors below zero: one above has not been analysed."""
    lines = [line for line in page(notes).splitlines() if line[:3] in ("1. ", "2. ", "3. ")]
    assert [line[:13] for line in lines] == ["1. `sweep-b` ", "2. `bench-a` ", "3. `sweep-a` "]
    assert lines[0].endswith("TPOT +12.0 %. **Not analysed.**")
    assert lines[1].endswith("E2E +6.0 %. **Not analysed.**")
    assert lines[2].endswith("TPOT -4.0 % over 3 points (absolute 4.0 %). The host is slow.")


def test_an_analysis_is_written_once(notes: Any) -> None:
    again = score("sweep-c", "concurrency_sweep", tpot_ms__mean=error(-3.0))
    worst = result()["worst"][2:]
    twice = [*worst, {**worst[0], "id": "sweep-c", **error(-3.0)}]
    text = page(notes, result(scores=[*result()["scores"], again], worst=twice))
    assert text.count("The host is slow.") == 1
    assert "TPOT -3.0 %. As number 1." in text


def test_groups_count_all_their_cases(notes: Any) -> None:
    """Of the two cases of vLLM only one has a TPOT."""
    assert "| `vllm` | 8.0 / 8.0 / -8.0 | 2 |" in page(notes)


def test_what_has_no_score(notes: Any) -> None:
    text = page(notes)
    assert "| needs drafts | `spec_decode` | 1 |" in text
    assert "| client timed out | `serving` | 1 |" in text
    assert "| too long | sweep-b | 1 |" in text
    assert "| constants are lent | 1 |" in text
    assert "every point" in page(notes, result(unpredicted=[])).lower()


def test_others(notes: Any) -> None:
    text = page(notes)
    assert "| theirs | 40.0 / 4.0 | 1 |" in text
    assert "| theirs | one | – | – | – | 21.0 | 3 |" in text
    assert "| `bench-a` | 1.5 – 2.5 | 2 | 1,200 |" in text


def test_a_second_run_is_a_section(notes: Any) -> None:
    other = result(overrides=["physics.backend=tables"], scores=result()["scores"][1:2], worst=[])
    text = page(notes, result(), other)
    assert "## With `physics.backend=tables`" in text
    assert text.count("| my benches | E2E | mean | 6.0 |") == 1
    assert text.count("| my benches | E2E | mean | – |") == 1
    with pytest.raises(InputError, match="different versions"):
        page(notes, result(), result(version="9.9"))


def test_an_analysis_of_nothing_is_an_error(notes: Any, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(NOTES.replace("cases: [sweep-*]", "cases: [sweep-a, swep-b]"))
    with pytest.raises(InputError, match="no such case") as found:
        page(notes_file.read_notes(tmp_path / "more.yaml"))
    assert (found.value.path, found.value.found, found.value.nearest) == ("notes.0.cases.1", "swep-b", "sweep-b")
    # A case that waits is a case.
    (tmp_path / "more.yaml").write_text(NOTES.replace("sweep-*", "drafts"))
    assert "Not analysed" in page(notes_file.read_notes(tmp_path / "more.yaml"))


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ("sign: \"-\"", "sign: below", "notes.0.sign", "+, -"),
        ("cases: [sweep-*]", "cases: []", "notes.0.cases", "at least one"),
        ("why: The host is slow.", "why: ''", "notes.0.why", "text"),
        ("why: The", "wyh: The", "notes.0", "why"),
        ("architecture: dense", "architectur: dense", "targets.0.cases", "nearest: architecture"),
        ("statistic: median", "statistic: p50", "targets.0.statistic", "mean, median"),
        ("at_most: 9", "at_most: -9", "targets.0.at_most", "above 0"),
        ("not_modelled: [Warm-up.]", "", "not_modelled", "missing"),
        ("not_modelled: [Warm-up.]", "not_modelled: [1]", "not_modelled.0", "text"),
        ("targets:", "goals:", "notes.yaml", "unknown field"),
    ],
)  # fmt: skip
def test_malformed_notes(tmp_path: Path, old: str, new: str, path: str, words: str) -> None:
    assert old in NOTES
    (tmp_path / "notes.yaml").write_text(NOTES.replace(old, new))
    with pytest.raises(InputError) as found:
        notes_file.read_notes(tmp_path / "notes.yaml")
    assert path in str(found.value) and words in str(found.value)


def test_only_whole_runs_make_a_page(notes: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all cases"):
        page(notes, result(command=["servetwin", "validate", "cases.json", "--kind", "serving"]))
    for changed, path in (({"interrupted": True}, "interrupted"), ({"scores": None}, "scores")):
        (tmp_path / "validate.json").write_text(json.dumps(result(**changed)))
        with pytest.raises(InputError) as found:
            generator.read_run(tmp_path)
        assert found.value.path == path


def test_a_template_names_only_parts(notes: Any) -> None:
    with pytest.raises(InputError) as found:
        generator.page([result()], notes, "{{ tagrets }}")
    assert found.value.nearest == "targets"


def test_the_template_has_every_part() -> None:
    template = generator.TEMPLATE.read_text(encoding="utf-8")
    assert [name for name in (*generator.PARTS, "other runs") if f"{{{{ {name} }}}}" not in template] == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.yaml").write_text(NOTES)
    (tmp_path / "validate.json").write_text(json.dumps(result()))
    monkeypatch.setattr(generator, "NOTES", tmp_path / "notes.yaml")
    assert generator.main([str(tmp_path), "--page", str(tmp_path / "page.md")]) == 0
    assert "5 cases = 3 scored" in (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "written: " in capsys.readouterr().out
    assert generator.main([str(tmp_path / "absent"), "--page", str(tmp_path / "page.md")]) == 2
    assert "no such result file" in capsys.readouterr().err


def test_the_notes_of_the_repository_are_well_formed() -> None:
    notes = notes_file.read_notes(ROOT / "scripts" / "accuracy_notes.yaml")
    assert {target.metric for target in notes.targets} <= set(importlib.import_module("accuracy_parts").LABELS)
    assert notes.notes and notes.not_modelled


def test_orders_of_deployments(notes: Any) -> None:
    assert "| 1P1D | 2_regular | all | tpot_ms.mean | right | 7 : 10 | 6 : 9 | 16.0 |" in page(notes)
    assert "None was measured." in page(notes, result(orders=[]))


def test_speed_ups_by_drafts(notes: Any) -> None:
    text = page(notes)
    assert "| measured | 0.051 | -0.010 | 2 | 1 |" in text
    assert "| inferred |" not in text
    assert "- `drafts` EAGLE batch_64: 1.040, measured 0.910" in text
    assert "| drafts-EAGLE | 0.720 |" in text
    assert "None was measured." in page(notes, result(speedups={}))
