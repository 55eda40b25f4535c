"""Designs: which values the swept fields take at each point."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NoReturn

import numpy as np

from servetwin.errors import ScenarioError
from servetwin.streams import Streams
from servetwin.studies.sweep.expressions import Condition
from servetwin.studies.sweep.file import MOST_POINTS, Range, SweepFile

Values = tuple[Any, ...]
"""The values of the swept fields at a point, in the order of the fields."""

_DRAWN = ("random", "lhs")
_DIGITS = 6
"""Drawn values have so many significant digits, enough for any question and few enough to read."""


class Design:
    """The points of a sweep, those that ``skip_if`` leaves out taken away.

    Args:
        sweep: the sweep.
        file: its file, for messages.

    Attributes:
        fields: the paths of the swept fields.
        points: the points, in the order of the design.
        skipped: how many ``skip_if`` left out.

    Raises:
        ScenarioError: the design is empty or contradicts itself.
    """

    def __init__(self, sweep: SweepFile, file: str) -> None:
        self._sweep, self._file = sweep, file
        self.fields: tuple[str, ...] = self._paths()
        conditions = [
            Condition(text, self.fields, file, f"skip_if.{index}") for index, text in enumerate(sweep.conditions)
        ]
        self.points: list[Values] = []
        self.skipped = 0
        for values in self._all():
            named = dict(zip(self.fields, values, strict=True))
            # All of them are asked, so that a mistake in one is found.
            answers = [condition.holds(named) for condition in conditions]
            if any(answers):
                self.skipped += 1
            else:
                self.points.append(values)
        if not self.points:
            self._refuse("no point is left", "skip_if", found=sweep.skip_if,
                         hint=f"the conditions are true of all {self.skipped:,} points")  # fmt: skip

    def _paths(self) -> tuple[str, ...]:
        """The swept fields."""
        sweep = self._sweep
        if sweep.design == "list":
            if sweep.fields:
                self._refuse("the design list has its fields in its points", "fields", found=list(sweep.fields),
                             allowed="points: [{PATH: VALUE, …}, …], or design: grid or zip")  # fmt: skip
            points = sweep.points
            if not isinstance(points, list) or not points or not points[0]:
                self._refuse("the design has no points", "points", found=points, allowed="a list of points: "
                             "[{cluster.replicas: 1, run.seed: 0}, …]")  # fmt: skip
            return self._checked(points[0], "points.0")
        if not sweep.fields:
            self._refuse("the design has no fields", "fields", allowed="at least one: {PATH: [VALUE, …]}")
        if sweep.design not in _DRAWN and sweep.points is not None:
            self._refuse(f"points has no effect: the fields of the design {sweep.design} give their number",
                         "points", found=sweep.points, allowed="nothing, or design: random, lhs, list")  # fmt: skip
        if sweep.design not in _DRAWN and sweep.seed:
            self._refuse(f"seed has no effect: the design {sweep.design} draws nothing", "seed", found=sweep.seed,
                         allowed="leave it out; replications and the field run.seed give runs other seeds")  # fmt: skip
        if sweep.design in _DRAWN and not (isinstance(sweep.points, int) and 0 < sweep.points <= MOST_POINTS):
            self._refuse(f"the design {sweep.design} draws a number of points", "points", found=sweep.points,
                         allowed=f"a whole number from 1 to {MOST_POINTS:,}")  # fmt: skip
        for path, values in sweep.fields.items():
            self._check_values(path, values)
        return self._checked(sweep.fields, "fields")

    def _check_values(self, path: str, values: list[Any] | Range) -> None:
        place = f"fields.{path}"
        if isinstance(values, Range):
            if self._sweep.design not in _DRAWN:
                self._refuse(f"the design {self._sweep.design} takes values, not ranges", place,
                             found=values.model_dump(exclude_defaults=True),
                             allowed="a list of values, or design: random or lhs")  # fmt: skip
        elif not values:
            self._refuse("the field has no values, so the design has no points", place, found=values,
                         allowed="a list of at least one value")  # fmt: skip

    def _checked(self, paths: Mapping[str, Any], place: str) -> tuple[str, ...]:
        """Paths, none of which replaces what another one has set."""
        before: list[str] = []
        for path in paths:
            if not all(path.split(".")):
                self._refuse("this is no path of a field", f"{place}.{path}", found=path,
                             allowed="names with dots between them, for example cluster.replicas")  # fmt: skip
            under = next((one for one in before if one.startswith(f"{path}.")), None)
            if under is not None:
                self._refuse(f"the field replaces {under}, which stands before it", f"{place}.{path}", found=path,
                             allowed=f"{path} first")  # fmt: skip
            before.append(path)
        return tuple(before)

    def _all(self) -> Iterator[Values]:
        sweep = self._sweep
        if sweep.design == "list":
            assert isinstance(sweep.points, list)
            yield from self._listed(sweep.points)
        elif sweep.design in _DRAWN:
            assert isinstance(sweep.points, int)
            yield from self._drawn(sweep.points)
        else:
            lists = [values for values in sweep.fields.values() if isinstance(values, list)]
            yield from self._zipped(lists) if sweep.design == "zip" else self._combined(lists)

    def _combined(self, lists: Sequence[Sequence[Any]]) -> Iterator[Values]:
        number = math.prod(map(len, lists)) * self._sweep.replications
        if number > MOST_POINTS:
            self._refuse("the design has too many points", "fields", found=number,
                         allowed=f"at most {MOST_POINTS:,}; design: lhs covers ranges with fewer")  # fmt: skip
        return product(*lists)

    def _zipped(self, lists: Sequence[Sequence[Any]]) -> Iterator[Values]:
        lengths = {path: len(values) for path, values in zip(self.fields, lists, strict=True)}
        if len(set(lengths.values())) > 1:
            first, other = next((one, two) for one in lengths for two in lengths if lengths[one] != lengths[two])
            self._refuse("the design zip pairs the values of its fields, so the lists have the same length",
                         f"fields.{other}", found=f"{lengths[other]} values, and {lengths[first]} of {first}",
                         allowed="lists of the same length, or design: grid for all combinations")  # fmt: skip
        return zip(*lists, strict=True)

    def _listed(self, points: Sequence[Mapping[str, Any]]) -> Iterator[Values]:
        for index, point in enumerate(points):
            if set(point) != set(self.fields):
                odd = sorted(set(point) ^ set(self.fields))[0]
                self._refuse("every point has the same fields", f"points.{index}.{odd}", found=list(point),
                             allowed=self.fields)  # fmt: skip
            yield tuple(point[path] for path in self.fields)

    def _drawn(self, number: int) -> Iterator[Values]:
        columns = []
        for path, values in self._sweep.fields.items():
            # A stream of its own for each field: another field leaves the draws of this one alone.
            generator = Streams(self._sweep.seed).generator("sweep", self._sweep.design, path)
            shares = generator.random(number)
            if self._sweep.design == "lhs":
                shares = (generator.permutation(number) + shares) / number
            columns.append([_at(values, share) for share in np.minimum(shares, math.nextafter(1.0, 0.0)).tolist()])
        return zip(*columns, strict=True)

    def _refuse(self, message: str, place: str, **more: Any) -> NoReturn:
        raise ScenarioError(message, file=self._file, path=place, **more)


def _at(values: list[Any] | Range, share: float) -> Any:
    """The value at a share, from 0 to below 1, of a list or a range.

    >>> _at(Range(min=1, max=3, integer=True), 0.99), _at(Range(min=1.0, max=100.0, log=True), 0.5)
    (3, 10.0)
    >>> _at(["a", "b"], 0.5)
    'b'
    """
    if not isinstance(values, Range):
        return values[int(share * len(values))]
    low, high = values.min, values.max + (1 if values.integer else 0)
    value = low * (high / low) ** share if values.log else low + share * (high - low)
    if values.integer:
        return int(min(max(math.floor(value), values.min), values.max))
    rounded = float(f"{value:.{_DIGITS}g}")
    return min(max(rounded, values.min), values.max)
