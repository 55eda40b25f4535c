"""``servetwin calibrate`` on good and bad input; that the curves are right is asked in tests/unit/studies."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Cli
from tests.unit.studies.validation.small_cases import inference_perf, sweep, write


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Products of an H100 that take 10 us and their bytes at 80 % of the bandwidth."""
    folder = tmp_path / "tables"
    folder.mkdir()
    with (folder / "kernels_gemm_h100_sxm.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["dtype", "m", "n", "k", "latency_us"])
        for outer in (4096, 8192, 16384, 65536):
            for rows in (1, 2, 4, 8, 16, 32):
                moved = 2 * (outer * 4096 + rows * (outer + 4096))
                writer.writerow(["bfloat16", rows, outer, 4096, 10 + 1e6 * moved / (0.8 * 3.35e12)])
    return folder


def test_kernels_writes_a_calibration_that_runs(cli: Cli, tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    outcome = cli("calibrate", "kernels", str(tables), "--out", str(out), "--date", "2026-12-01", "--source", "me")
    assert outcome.code == 0, outcome.err
    assert "products          h100-sxm       bf16" in outcome.out
    assert "written to" in outcome.out
    content = yaml.safe_load(out.read_text(encoding="utf-8"))
    curve = content["kernels"]["h100-sxm"]["products"]["bf16"]
    assert curve["memory"] == pytest.approx(0.8, abs=0.02)
    assert curve["launch"] == "10 us"
    assert content["name"] == "mine"
    run = cli("explain", "quickstart", "--set", f"physics.calibration={out}", "--json")
    assert run.code == 0, run.err
    assert json.loads(run.out)["inputs"]["calibration"] == "mine"


def test_json_and_the_residuals_as_a_page(cli: Cli, tables: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    outcome = cli("calibrate", "kernels", str(tables), "--gpu", "H100", "--json", "--table", str(page))
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert list(document["kernels"]) == ["h100-sxm"]
    assert document["file"] is None
    (residual,) = document["residuals"]
    assert residual["operator"] == "products" and residual["held_out"]["median"] < 0.02
    assert "| products | `h100-sxm` | bf16 | 3 |" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--gpu", "b200"), "there is no table of this GPU"),
        (("--gpu", "h1000"), "no GPU of that name"),
        (("--base", "defult"), "nearest: default"),
        (("--date", "2026-12-01"), "there is none"),
        (("--out", "x.yaml", "--date", "1st"), "a date is expected"),
        (("--out", "x.txt"), "a calibration is a YAML file"),
        (("--out", "no/such/folder/x.yaml"), "cannot be written"),
    ],
)
def test_mistakes_are_named(cli: Cli, tables: Path, arguments: tuple[str, ...], said: str) -> None:
    outcome = cli("calibrate", "kernels", str(tables), *arguments)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.replace("│", " ").split())
    assert "Traceback" not in outcome.err


def test_a_folder_without_tables(cli: Cli, tmp_path: Path) -> None:
    for folder, said in ((tmp_path, "no table of kernels"), (tmp_path / "nowhere", "no such folder")):
        outcome = cli("calibrate", "kernels", str(folder))
        assert outcome.code == 2 and said in outcome.err


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """Sweeps of two GPUs and two engines, and a staged run."""
    other = {"hardware": "H200-SXM-141GB"}
    sweeps = [
        *(sweep(f"h100-{index}") for index in range(3)), *(sweep(f"h200-{index}", **other) for index in range(3)),
        sweep("sglang", engine="sglang 0.5.9"), sweep("unusable", usable_for_scoring=False),
    ]  # fmt: skip
    return write(tmp_path, [*sweeps, inference_perf()])


def test_serving_writes_a_calibration_that_runs(cli: Cli, cases: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    outcome = cli("calibrate", "serving", cases, "--out", out, "--date", "2026-12-01", "--source", "me", "--jobs", "1")
    assert outcome.code == 0, outcome.err
    assert "vllm: 7 cases, starting from calibration default" in outcome.out
    assert "set" not in outcome.out.split("error in %")[0]
    content = yaml.safe_load(out.read_text(encoding="utf-8"))
    assert content["name"] == "mine"
    (said,) = [entry for entry in content["sources"] if entry["what"].startswith("serving")]
    assert said["source"].startswith("me; errors, TPOT of")
    run = cli("explain", "quickstart", "--set", f"physics.calibration={out}", "--json")
    assert run.code == 0, run.err
    assert json.loads(run.out)["inputs"]["calibration"] == "mine"


def test_serving_leaves_groups_out_with_the_same_result_for_any_number_of_jobs(cli: Cli, cases: Path) -> None:
    answers = [
        cli("calibrate", "serving", cases, "--leave-one-out", "--held", "0.001", "--json", "--jobs", jobs).out
        for jobs in ("1", "2")
    ]
    assert answers[0] == answers[1]
    document = json.loads(answers[0])
    # The model is the same everywhere: nothing is left to fit without it.
    assert [(item["what"], item["name"], item["n"]) for item in document["left_out"]] == [
        ("hardware", "h100-sxm", 4), ("hardware", "h200-sxm", 3),
    ]  # fmt: skip
    assert all(item["ratio"] > 0 for item in document["left_out"])
    before, after = (
        {(row["of"], row["metric"]): row[key]["mean"] for row in document["errors_pct"]} for key in ("before", "after")
    )
    # The recorded run counts twenty times as much as a sweep, and decides.
    assert after["vllm-0.15.1", "tpot_ms.mean"] < before["vllm-0.15.1", "tpot_ms.mean"]


def test_serving_of_another_family(cli: Cli, cases: Path) -> None:
    outcome = cli("calibrate", "serving", cases, "--engine", "sglang", "--jobs", "1")
    assert outcome.code == 0, outcome.err
    assert "sglang: 1 cases, starting from calibration sglang" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--engine", "sglnag"), ("no such family of engines", "nearest: sglang")),
        (("--engine", "trtllm"), ("no case of trtllm", "usable cases")),
        (("--base", "defualt"), ("no calibration of that name", "nearest: default")),
        (("--date", "2026-12-01"), ("--date", "--out")),
    ],
)
def test_serving_refuses(cli: Cli, cases: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    outcome = cli("calibrate", "serving", cases, *arguments)
    assert outcome.code == 2
    for word in words:
        assert word in outcome.err
