"""Which points a sweep has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from servetwin.errors import ScenarioError
from servetwin.studies.sweep.design import Design
from servetwin.studies.sweep.file import SweepFile, read_sweep


def design(**fields: Any) -> Design:
    return Design(SweepFile.model_validate({"scenario": "quickstart", **fields}), "sweep.yaml")


def test_grid_last_field_first() -> None:
    found = design(fields={"a": [1, 2], "b": ["x", "y", "z"]})
    assert found.fields == ("a", "b")
    assert found.points == [(1, "x"), (1, "y"), (1, "z"), (2, "x"), (2, "y"), (2, "z")]
    assert found.skipped == 0


def test_zip() -> None:
    assert design(design="zip", fields={"a": [1, 2], "b": ["x", "y"]}).points == [(1, "x"), (2, "y")]


def test_list() -> None:
    found = design(design="list", points=[{"a": 1, "b.c": 2}, {"b.c": 3, "a": 4}])
    assert (found.fields, found.points) == (("a", "b.c"), [(1, 2), (4, 3)])


def test_skipped_points_are_counted() -> None:
    found = design(fields={"a": [1, 2, 3], "b": [1, 2]}, skip_if=["a == 3", "a + b == 2"])
    assert found.points == [(1, 2), (2, 1), (2, 2)]
    assert found.skipped == 3


@pytest.mark.parametrize("kind", ["random", "lhs"])
def test_drawn_values_lie_in_their_ranges(kind: str) -> None:
    ranges = {
        "linear": {"min": 2, "max": 6.5},
        "orders": {"min": 0.01, "max": 100, "log": True},
        "whole": {"min": 1, "max": 4, "integer": True},
        "whole-orders": {"min": 1, "max": 1000, "log": True, "integer": True},
        "names": ["a", "b", "c"],
    }
    found = design(design=kind, points=400, fields=ranges)
    columns = dict(zip(found.fields, zip(*found.points, strict=True), strict=True))
    assert len(found.points) == 400
    assert all(2 <= value <= 6.5 for value in columns["linear"])
    assert all(0.01 <= value <= 100 for value in columns["orders"])
    assert set(columns["whole"]) == {1, 2, 3, 4}
    assert all(type(value) is int and 1 <= value <= 1000 for value in columns["whole-orders"])
    assert set(columns["names"]) == {"a", "b", "c"}
    # Half of a range of orders of magnitude lies below its geometric middle: ± 4 standard deviations.
    assert abs(sum(value < 1 for value in columns["orders"]) - 200) <= 40


def test_a_latin_hypercube_takes_one_value_from_every_part_of_every_range() -> None:
    found = design(
        design="lhs", points=50, fields={"a": {"min": 0, "max": 50}, "b": {"min": 1, "max": 2**50, "log": True}}
    )
    a, b = (np.array(column) for column in zip(*found.points, strict=True))
    # Rounding to six digits may carry a value over the edge of its part, by no more than that.
    assert np.allclose(np.sort(a) - np.arange(50), 0.5, atol=0.5 + 1e-4)
    assert np.allclose(np.sort(np.log2(b)) - np.arange(50), 0.5, atol=0.5 + 1e-4)
    assert abs(np.corrcoef(a, np.log2(b))[0, 1]) < 0.6


def test_draws_depend_on_the_seed_and_on_no_other_field() -> None:
    one = {"a": {"min": 0, "max": 1}}
    first = design(design="random", points=5, fields=one).points
    assert first == design(design="random", points=5, fields=one).points
    assert first != design(design="random", points=5, seed=1, fields=one).points
    both = design(design="random", points=5, fields={"b": [1, 2], **one}).points
    assert [point[1:] for point in both] == first


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ("no fields", "fields")),
        ({"fields": {"a": []}}, ("no values", "fields.a")),
        ({"fields": {"a": {"min": 1, "max": 2}}}, ("takes values, not ranges", "fields.a")),
        ({"fields": {"a..b": [1]}}, ("no path of a field", "a..b")),
        ({"fields": {"a.b": [1], "a": [{}]}}, ("replaces a.b", "fields.a")),
        ({"fields": {"a": [1]}, "points": 3}, ("points has no effect", "points")),
        ({"fields": {"a": [1]}, "seed": 3}, ("seed has no effect", "seed")),
        ({"fields": {"a": list(range(2000)), "b": list(range(2000))}}, ("too many points", "4000000")),
        ({"fields": {"a": [1]}, "skip_if": "a == 1"}, ("no point is left", "skip_if")),
        ({"design": "zip", "fields": {"a": [1, 2], "b": [1]}}, ("same length", "fields.b", "1 values, and 2 of a")),
        ({"design": "random", "fields": {"a": [1]}}, ("draws a number of points", "points")),
        ({"design": "lhs", "points": 0, "fields": {"a": [1]}}, ("draws a number of points", "found:   0")),
        ({"design": "list"}, ("no points", "points")),
        ({"design": "list", "points": [{}]}, ("no points",)),
        ({"design": "list", "points": [{"a": 1}], "fields": {"a": [1]}}, ("has its fields in its points",)),
        ({"design": "list", "points": [{"a": 1}, {"b": 1}]}, ("same fields", "points.1.a")),
    ],
)  # fmt: skip
def test_designs_that_make_no_sense(fields: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as caught:
        design(**fields)
    for word in ("sweep.yaml", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"design": "gird"}, ("design", "gird", "grid, list, zip, random, lhs", "nearest: grid")),
        ({"field": {"a": [1]}}, ("unknown field", "nearest: fields")),
        ({"fields": {"a": 3}}, ("fields.a", "found:   3")),
        ({"fields": {"a": {"min": 1}}}, ("fields.a.max", "missing")),
        ({"fields": {"a": {"min": 3, "max": 1}}}, ("fields.a", "min must be less than max")),
        ({"fields": {"a": {"min": 0, "max": 1, "log": True}}}, ("greater than 0",)),
        ({"fields": {"a": {"min": 0.5, "max": 1, "integer": True}}}, ("whole numbers",)),
        ({"replications": 0}, ("replications", "at least 1")),
        ({"scenario": None}, ("scenario",)),
        ({"plots": [{"metric": "m", "x": "a", "by": "b", "y": "c"}]}, ("plots.0", "one of them")),
        ({"plots": [{"x": "a"}]}, ("plots.0.metric", "missing")),
    ],
)
def test_files_that_are_malformed(content: dict[str, Any], words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump({"scenario": "quickstart", **content}))
    with pytest.raises(ScenarioError) as caught:
        read_sweep(file)
    for word in (str(file), *words):
        assert word in str(caught.value)
