"""The table and the picture of a comparison."""

from __future__ import annotations

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
        "interaction", "prefix-caching x tensor-parallelism", "exposed communication", "more, compared with off,",
        "prefix-caching saves",
    ):  # fmt: skip
        assert words in text
    assert text.count("only 60 completed requests") == 1
    assert "…" not in text.split("\n\n")[1]


def test_a_narrow_terminal_loses_no_line(document: dict[str, Any]) -> None:
    assert max(len(line) for line in shown(document, 60).splitlines()) <= 60


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
