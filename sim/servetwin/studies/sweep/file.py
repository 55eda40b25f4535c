"""The sweep file: which fields of a scenario take which values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeInt, Tag, ValidationError, model_validator

from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import ScenarioError
from servetwin.scenario.messages import as_error, explain
from servetwin.scenario.part import Part

MOST_POINTS = 1_000_000
"""Beyond this a sweep is a slip of the keyboard."""


class Range(Part):
    """A range from which ``random`` and ``lhs`` draw.

    Attributes:
        min: the least value.
        max: the largest value.
        log: whether values are spread evenly over orders of magnitude.
        integer: whether values are whole numbers.
    """

    min: float
    max: float
    log: bool = False
    integer: bool = False

    @model_validator(mode="after")
    def _is_range(self) -> Range:
        if self.min >= self.max:
            raise ValueError("min must be less than max")
        if self.log and self.min <= 0:
            raise ValueError("with log: true, min must be greater than 0")
        if self.integer and not (self.min.is_integer() and self.max.is_integer()):
            raise ValueError("with integer: true, min and max must be whole numbers")
        return self


def _which(value: Any) -> str:
    return "range" if isinstance(value, (Mapping, Range)) else "list"


Choices = Annotated[Annotated[list[Any], Tag("list")] | Annotated[Range, Tag("range")], Discriminator(_which)]
"""The values of a field; what has fields of its own is meant as a range."""


class Plot(Part):
    """A picture of a metric: lines over one field, or a map of two.

    Attributes:
        metric: a key of ``summary.json``.
        x: the field along the picture.
        by: of lines: a field, one line for each of its values.
        y: of a map: the field up the picture.
    """

    metric: str
    x: str
    by: str | None = None
    y: str | None = None

    @model_validator(mode="after")
    def _is_one_picture(self) -> Plot:
        if self.by is not None and self.y is not None:
            raise ValueError("by belongs to lines and y to a map: a picture has one of them")
        return self


class SweepFile(Part):
    """A scenario, and the points at which it is run.

    Attributes:
        scenario: the name of a bundled scenario, or the path of a file, relative to this one.
        description: the question that the sweep answers.
        set: fields of the scenario that have another value at every point.
        design: ``grid``: every combination of the fields' values; ``zip``: the first values of all fields, the second
            ones, …; ``list``: the points as they stand under ``points``; ``random``: ``points`` points, each field
            drawn independently; ``lhs``: a Latin hypercube of ``points`` points, in which each field takes values from
            all of its range.
        fields: dotted path of a field → its values; with ``random`` and ``lhs`` also a range.
        points: of ``random`` and ``lhs``: how many points; of ``list``: the points, each a mapping path → value.
        seed: of the draws of ``random`` and ``lhs``.
        skip_if: conditions on the swept fields; points for which one is true are left out.
        replications: runs of every point, with ``run.seed``, ``run.seed`` + 1, …
        plots: the pictures; by default chosen by the shape of the sweep.
    """

    scenario: str = Field(min_length=1)
    description: str = ""
    set: dict[str, Any] = Field(default_factory=dict)
    design: Literal["grid", "list", "zip", "random", "lhs"] = "grid"
    fields: dict[str, Choices] = Field(default_factory=dict)
    points: int | list[dict[str, Any]] | None = None
    seed: NonNegativeInt = 0
    skip_if: str | list[str] = Field(default_factory=list)
    replications: int = Field(default=1, ge=1, le=MOST_POINTS)
    plots: list[Plot] | None = None

    @property
    def conditions(self) -> list[str]:
        """The conditions of ``skip_if``, also where only one is given."""
        return [self.skip_if] if isinstance(self.skip_if, str) else self.skip_if


def read_sweep(file: Path) -> SweepFile:
    """The sweep of a file.

    Raises:
        ScenarioError: the file is missing or malformed.
    """
    raw = read_mapping(file, "sweep", ScenarioError)
    try:
        return SweepFile.model_validate(raw)
    except ValidationError as error:
        raise as_error(explain(error, SweepFile, raw), str(file)) from None
