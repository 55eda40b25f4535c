"""The table and the picture of a comparison."""

from __future__ import annotations

from copy import deepcopy
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image
from rich.console import Console
from tests.unit.studies.compare.small import answer, write

from servetwin.report.compare import print_comparison
from servetwin.report.waterfall import draw_waterfall, steps


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    small = write(tmp_path_factory.mktemp("scenarios"))
    return answer(
        small,
        f"more={small}",
        techniques=["prefix-caching", "tensor-parallelism"],
        changes_for=["more:cluster.replicas=3"],
    )


def shown(document: dict[str, Any], width: int = 100) -> str:
    text = StringIO()
    print_comparison(document, Console(file=text, width=width, highlight=False))
    return text.getvalue()


def test_the_table_has_all_that_was_asked(document: dict[str, Any]) -> None:
    text = shown(document)
    for words in (
        "5 variants", "60 requests", "seed 0", "paired by request", "change against off", "effect of each technique",
        "interaction", "x tensor-parallelism", "exposed communication", "more, compared with off,",
        "prefix-caching saves",
    ):  # fmt: skip
        assert words in text
    assert text.count("only 60 completed requests") == 1
    assert "…" not in text.split("\n\n")[1]


def test_names_and_figures_are_whole_in_an_ordinary_terminal(document: dict[str, Any]) -> None:
    """The tables are wider than that: techniques have a line each, and intervals go below their figures."""
    document = deepcopy(document)
    ends = {"estimate": -1234.5, "low": -1300.5, "high": -1168.5}
    for entry in document["factorial"]["interactions"].values():
        entry["ci"] |= dict.fromkeys(("ttft_ms.mean", "tpot_ms.mean", "e2e_ms.mean"), ends)
    lines = shown(document, 80).splitlines()
    table = lines[lines.index("interaction: half of what one adds to the effect of the other") :]
    assert any(line.startswith("prefix-caching  ") for line in table)
    assert any(line.startswith("x tensor-parallelism  ") for line in table)
    assert " ".join(table).count("±66") == 3
    assert any(line.startswith("+tensor-parallelism") for line in lines)
    # An interval has its dots between figures; behind them something was cut off.
    assert not any("… " in f"{line} " for line in lines)


def test_what_speculation_costs_is_named(document: dict[str, Any]) -> None:
    """Drafts and the verification of what is rejected, in the table and in the picture."""
    document = deepcopy(document)
    for entry in document["factorial"]["techniques"].values():
        entry["cost"] |= {"draft": 3.0, "wasted_verify": 5.0}
        entry["ledger_difference"] |= {"draft": 3.0, "wasted_verify": 5.0}
    header = next(line for line in shown(document, 150).splitlines() if line.startswith("GPU-seconds"))
    assert "  draft  wasted verification  " in header
    kinds = {bar.label: bar.kind for bar in steps("without", "with", entry)}
    assert kinds["draft"] == kinds["wasted verification"] == "cost"


def test_a_figure_below_a_microsecond_is_none(document: dict[str, Any]) -> None:
    document = deepcopy(document)
    document["variants"]["more"]["ci"]["tpot_ms.mean"] = {"estimate": -9.5e-7, "low": -3e-6, "high": 1e-6}
    assert "0 ±0" in shown(document)
    assert "e-0" not in shown(document)


def test_what_decides_is_in_the_first_table(document: dict[str, Any]) -> None:
    """Whether the SLO holds, and what a token costs; without limits for single requests there is no share of them."""
    assert "USD/1M" in shown(document)
    assert "met by" not in shown(document)
    limited = deepcopy(document)
    limited["variants"]["more"]["metrics"]["slo_attainment"] = 0.987
    assert "met by" in shown(limited)
    assert "98.7%" in shown(limited)


def test_bars_lead_from_one_to_the_other(document: dict[str, Any]) -> None:
    for name, entry in document["variants"].items():
        bars = steps("off", name, entry)
        assert bars[0].end == pytest.approx(document["variants"]["off"]["metrics"]["gpu_seconds_in_use"])
        assert bars[-1].end == pytest.approx(entry["metrics"]["gpu_seconds_in_use"])
        for before, bar in pairwise(bars[:-1]):
            assert bar.begin == before.end
    kinds = {bar.label: bar.kind for bar in steps("", "", document["variants"]["tensor-parallelism"])}
    assert kinds["exposed communication"] == "cost"
    assert kinds["hbm"] == "work"
    assert "idle" not in kinds


def test_small_changes_are_put_together() -> None:
    entry = {
        "net": {"reference_gpu_seconds": 1000.0},
        "ledger_difference": {"compute": -100.0, "hbm": 0.1, "host": 0.2, "idle": 50.0},
        "cost": {},
    }
    assert [(bar.label, bar.end) for bar in steps("a", "b", entry)] == [
        ("a", 1000), ("compute", 900), ("all others", pytest.approx(900.3)), ("b", pytest.approx(900.3)),
    ]  # fmt: skip


def test_the_picture(document: dict[str, Any], tmp_path: Path) -> None:
    for name in ("one", "two"):
        draw_waterfall(document, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    height, width, _ = image.imread(tmp_path / "one", format="png").shape
    assert width > 1200
    assert height > 600
