"""``servetwin calibrate`` on good and bad input; that the curves are right is asked in tests/unit/studies."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Cli


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
