"""The pictures of sweeps: which there are, and that they show what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import imread
from tests.unit.studies.sweep.test_sweeps import plan, write

from servetwin.errors import ScenarioError
from servetwin.report import sweep_figures
from servetwin.report.sweep_figures import Axis, Picture, draw_sweep
from servetwin.studies.sweep import Folder, read_sweep, run_sweep
from servetwin.studies.sweep.plots import check_plots, chosen_plots, draw_plots, metrics_of

RATES, REPLICAS = "workload.arrivals.rate_per_s", "cluster.replicas"


def shapes(folder: Path, **content: Any) -> list[tuple[str, str | None, str | None]]:
    """The axes of the pictures of the first metric."""
    todo = plan(folder, **content)
    plots = chosen_plots(read_sweep(folder / "sweep.yaml"), todo)
    return [(plot.x, plot.by, plot.y) for plot in plots if plot.metric == plots[0].metric]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"fields": {RATES: [1, 2]}}, [(RATES, None, None)]),
        ({"fields": {RATES: [1, 2], REPLICAS: [1]}}, [(RATES, None, None)]),
        ({"fields": {RATES: [1, 2], REPLICAS: [1, 2]}}, [(RATES, REPLICAS, None)]),
        ({"fields": {"router": ["random", "round-robin", "least-requests"], RATES: [1, 2]}},
         [(RATES, "router", None)]),
        ({"fields": {REPLICAS: [1, 2, 3], RATES: [1, 2, 3, 4]}}, [(RATES, REPLICAS, None), (RATES, None, REPLICAS)]),
        ({"fields": {REPLICAS: list(range(1, 8)), RATES: list(range(1, 8))}}, [(REPLICAS, None, RATES)]),
        ({"design": "lhs", "points": 9, "fields": {REPLICAS: [1, 2], RATES: {"min": 1, "max": 9}}},
         [(RATES, None, REPLICAS)]),
        ({"fields": {REPLICAS: [1, 2], RATES: [1, 2], "cluster.slowdown": [1, 2]}}, []),
        ({"fields": {RATES: [1, 2]}, "replications": 2}, [(RATES, None, None)]),
        ({"fields": {"run.seed": [1, 2]}}, []),
        ({"fields": {RATES: [1, 2]}, "plots": []}, []),
        ({"fields": {RATES: [1, 2]}, "plots": [{"metric": "events", "x": RATES}]}, [(RATES, None, None)]),
    ],
)  # fmt: skip
def test_chosen_by_the_shape_of_the_sweep(
    content: dict[str, Any], expected: list[tuple[str, str | None, str | None]], tmp_path: Path
) -> None:
    assert shapes(tmp_path, **content) == expected


def test_metrics_with_a_limit_come_first(tmp_path: Path) -> None:
    todo = plan(tmp_path, fields={RATES: [1, 2]}, set={"slo": {"e2e_ms": {"p90": 900}, "goodput": {"ttft_ms": 1}}})
    assert metrics_of(todo) == ["e2e_ms.p90", "output_tokens_per_s_per_gpu"]
    todo = plan(tmp_path, fields={RATES: [1, 2]})
    assert metrics_of(todo) == ["ttft_ms.p99", "tpot_ms.mean", "output_tokens_per_s_per_gpu"]


@pytest.mark.parametrize(
    ("plot", "words"),
    [
        ({"metric": "ttft_ms.p9", "x": RATES}, ("no such metric", "plots.0.metric", "nearest: ttft_ms.p9")),
        ({"metric": "name", "x": RATES}, ("no such metric",)),
        ({"metric": "events", "x": REPLICAS}, ("not swept", "plots.0.x", f"allowed: {RATES}")),
        ({"metric": "events", "x": RATES, "by": "rate"}, ("plots.0.by",)),
        ({"metric": "events", "x": RATES, "y": "rate"}, ("plots.0.y",)),
    ],
)
def test_pictures_of_what_there_is_not(plot: dict[str, str], words: tuple[str, ...], tmp_path: Path) -> None:
    sweep = read_sweep(write(tmp_path, fields={RATES: [1, 2]}, plots=[plot]))
    with pytest.raises(ScenarioError) as caught:
        check_plots(sweep, [RATES], "sweep.yaml")
    for word in ("sweep.yaml", *words):
        assert word in str(caught.value)


def test_drawn_from_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed runs are not in the pictures, and the limit is."""
    limits = {"slo": {"ttft_ms": {"p99": 50}}}
    todo = plan(tmp_path, fields={"model": ["llama-3.1-8b", "llama-3.1-405b"], RATES: [5, 10, 20]}, set=limits)
    folder = Folder(tmp_path / "out")
    run_sweep(todo, folder)
    drawn: list[Picture] = []
    monkeypatch.setattr("servetwin.report.sweep_figures.draw_sweep", lambda picture, _: drawn.append(picture))
    files = draw_plots(chosen_plots(read_sweep(tmp_path / "sweep.yaml"), todo), todo, folder.table, "title")
    assert [file.name for file in files] == ["sweep-1-ttft_ms.p99.png", "sweep-2-output_tokens_per_s_per_gpu.png"]
    first, second = drawn
    assert (first.x.values, first.other) == ([5, 10, 20], Axis("model", ["llama-3.1-8b"] * 3))
    assert (first.limit, second.limit) == (50, None)
    assert len(first.values) == 3


def picture(**changed: Any) -> Picture:
    points = [(x, y) for x in (1, 2, 4, 100) for y in ("a", "b", "c")]
    given: dict[str, Any] = {
        "title": "t", "metric": "ttft_ms.p99", "values": [float(x * (i % 3 + 1)) for i, (x, _) in enumerate(points)],
        "x": Axis("x", [x for x, _ in points]), "other": Axis("y", [y for _, y in points]), "is_map": False,
        "averaged": [], "limit": 5.0,
    }  # fmt: skip
    return Picture(**{**given, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"other": None},
        {"is_map": True},
        {"is_map": True, "other": Axis("y", [i + 0.5 for i in range(12)])},
        {"limit": None, "values": [None] * 12},
        {"is_map": True, "values": [None, *[0.0] * 11]},
        {"x": Axis("x", ["text"] * 12)},
        {"values": [-1.0] * 12},
    ],
)
def test_any_data_can_be_drawn(changed: dict[str, Any], tmp_path: Path) -> None:
    draw_sweep(picture(**changed), tmp_path / "a.png")
    assert imread(tmp_path / "a.png").std() > 0.01


def ticks(axis: Axis) -> list[str]:
    """What stands along the axis of a field, between its least and its largest value."""
    figure = Figure()
    axes = figure.subplots()
    if axis.numeric:
        axes.plot(axis.values, axis.values)
    sweep_figures._scale(axes, "x", axis)
    figure.draw_without_rendering()
    low, high = axes.get_xlim()
    return [label.get_text() for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]


def test_ticks_are_values_that_people_say() -> None:
    """Chosen values stand where they are; between drawn ones stand round numbers, whole where the values are."""
    assert ticks(Axis("x", [10, 20, 40, 80, 160])) == ["10", "20", "40", "80", "160"]
    assert ticks(Axis("x", [5.90478, 16.1283, 143.446])) == ["10", "20", "50", "100"]
    assert ticks(Axis("x", [1, 2, 3, 4])) == ["1", "2", "3", "4"]
    assert all("." not in text for text in ticks(Axis("x", list(range(1, 15)))))
    assert ticks(Axis("x", ["random", "round-robin"])) == ["random", "round-robin"]


def test_one_bad_point_does_not_leave_all_others_pale() -> None:
    shades = sweep_figures._shades([100.0, 200.0, 400.0, 2000.0])
    assert isinstance(shades, LogNorm)
    assert shades(400.0) > 0.4
    assert not isinstance(sweep_figures._shades([0.0, 1.0, 100.0]), LogNorm)
    assert not isinstance(sweep_figures._shades([100.0, 200.0]), LogNorm)
