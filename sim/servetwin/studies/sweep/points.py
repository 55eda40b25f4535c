"""The points of a sweep as runs: what each of them sets in the scenario, and the hash of what it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from servetwin import __version__
from servetwin.catalog.find import Catalog
from servetwin.errors import CatalogError, FieldError, InputError, ScenarioError
from servetwin.paths import expanded
from servetwin.scenario.load import LoadedScenario, load
from servetwin.scenario.overrides import Override, parse_override
from servetwin.scenario.schema import Scenario
from servetwin.scenario.store import run_hash
from servetwin.studies.sweep.design import Design, Values
from servetwin.studies.sweep.file import SweepFile

SEED = "run.seed"
_LARGEST_SEED = 2**63 - 1
"""The table holds whole numbers of 64 bits."""


class Point(NamedTuple):
    """One run.

    Attributes:
        values: the values of the fields.
        key: the hash of the resolved scenario and of all else that the results depend on; None = it cannot exist.
        error: why it cannot exist.
    """

    values: Values
    key: str | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """How a point becomes a scenario.

    Attributes:
        file: the sweep file, for messages.
        reference: the scenario, by name or path.
        fields: the paths of the fields.
        changes: what every point sets.
        catalog: the user's folders.
        plugins: files that register policies.
        strict: whether every account is counted again at every step.
    """

    file: str
    reference: str
    fields: tuple[str, ...]
    changes: tuple[Override, ...]
    catalog: tuple[Path, ...] = ()
    plugins: tuple[Path, ...] = ()
    strict: bool = False

    def load(self, values: Values, catalog: Catalog) -> LoadedScenario:
        """The resolved scenario of a point.

        Args:
            values: the values of the fields.
            catalog: where models and GPUs are found.

        Raises:
            InputError: it cannot exist; the place of a mistake in a value is that of the field in the sweep file.
        """
        given = [f"fields.{path}" for path in self.fields]
        overrides = [Override(*one) for one in zip(given, self.fields, values, strict=True)]
        try:
            return load(self.reference, [*self.changes, *overrides], catalog)
        except InputError as error:
            if error.file in given:
                inside = error.path if error.path != error.file.removeprefix("fields.") else None
                error.hint = error.hint or (f"in the scenario: {inside}" if inside else None)
                error.file, error.path = self.file, error.file
            raise


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of a sweep.

    Attributes:
        source: how a point becomes a scenario.
        fields: the paths of the fields, ``run.seed`` of the replications included.
        points: the runs, in the order of the table.
        skipped: points that ``skip_if`` left out.
        scenario: that of the first point which can exist.
    """

    source: Source
    fields: tuple[str, ...]
    points: list[Point]
    skipped: int
    scenario: Scenario

    def without_difference(self) -> str | None:
        """What to say where other values of the fields make no other run, as of a field that another one overrules."""
        first: dict[str, Values] = {}
        same = [
            (first[point.key], point.values)
            for point in self.points
            if point.key is not None and first.setdefault(point.key, point.values) != point.values
        ]
        if not same:
            return None
        one, other = (
            ", ".join(f"{path}={value}" for path, value in zip(self.fields, values, strict=True)) for values in same[0]
        )
        return f"{len(same):,} points are the same run as another one, with other values: {other} is {one}"


def make_plan(
    sweep: SweepFile,
    source: Source,
    design: Design,
    catalog: Catalog,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Resolve the scenario of every point.

    Args:
        sweep: the sweep.
        source: how a point becomes a scenario.
        design: the points.
        catalog: where models and GPUs are found.
        progress: told of points resolved and points in all.

    Raises:
        ScenarioError: a field does not exist or does not take its value; or no point can exist.
    """
    seeds = sweep.replications
    data = [__version__, catalog.digest(), *(file.read_text(encoding="utf-8") for file in source.plugins)]
    points: list[Point] = []
    first: Scenario | None = None
    refused: InputError | None = None
    for number, values in enumerate(design.points):
        try:
            loaded = source.load(values, catalog)
        except (FieldError, CatalogError) as error:
            # A mistake, whatever the other fields are; what cannot exist in this combination is a result.
            raise _placed(error, source, sweep) from None
        except InputError as error:
            refused = refused or error
            points += _impossible(values, seeds, in_a_line(error))
            continue
        first = first or loaded.scenario
        points += _replicated(values, seeds, loaded, data, source)
        if progress is not None:
            progress(number + 1, len(design.points))
    if first is None:
        assert refused is not None
        raise _placed(refused, source, sweep)
    fields = (*source.fields, SEED) if seeds > 1 else source.fields
    replicated = Source(source.file, source.reference, fields, source.changes, source.catalog, source.plugins,
                        source.strict)  # fmt: skip
    return Plan(replicated, fields, points, design.skipped * seeds, first)


def _impossible(values: Values, seeds: int, error: str) -> Iterator[Point]:
    """The replications of a point that cannot exist, whose seeds nobody knows."""
    for _ in range(seeds):
        yield Point((*values, None) if seeds > 1 else values, None, error)


def _replicated(
    values: Values, seeds: int, loaded: LoadedScenario, data: Sequence[str], source: Source
) -> Iterator[Point]:
    scenario, run = loaded.scenario, loaded.scenario.run
    if run.seed + seeds - 1 > _LARGEST_SEED:
        raise ScenarioError("the seed is too large for a table", file=source.file, path=SEED, found=run.seed,
                            allowed=f"at most {_LARGEST_SEED - seeds + 1}")  # fmt: skip
    for seed in range(run.seed, run.seed + seeds):
        # Nothing else in a resolved scenario depends on the seed.
        seeded = scenario if seed == run.seed else scenario.model_copy(
            update={"run": run.model_copy(update={"seed": seed})}
        )  # fmt: skip
        key = run_hash(seeded, *data, *loaded.warnings)
        yield Point((*values, seed) if seeds > 1 else values, key)


def _placed(error: InputError, source: Source, sweep: SweepFile) -> InputError:
    """The error with a place in the sweep file, where it comes from there."""
    if sweep.design == "list" and error.file == source.file and error.path is not None:
        error.path = error.path.replace("fields.", "points.*.", 1)
    if sweep.conditions and isinstance(error, FieldError) and error.hint is None:
        error.hint = "a point that is not meant to run is left out with skip_if"
    return error


def in_a_line(error: InputError) -> str:
    """An error in one line, without the name of a file, which may differ from machine to machine."""
    found = "" if error.found is None else f", found {json.dumps(error.found, default=str)}"
    where = f" ({error.path}{found})" if error.path else ""
    return f"{error.message}{where}"


def changes_of(sweep: SweepFile, given: Sequence[str | Override], file: str) -> tuple[Override, ...]:
    """What all points set: ``set`` of the file, and the overrides of the command line, which count more.

    Args:
        sweep: the sweep.
        given: the overrides of the command line.
        file: the sweep file.

    Raises:
        ScenarioError: an override sets what is swept, or what every replication sets.
    """
    own = [parse_override(text) if isinstance(text, str) else text for text in given]
    written = [
        Override(f"{file}: set", path, value) for path, value in sweep.set.items()
        if not any(_covers(override.path, path) for override in own)
    ]  # fmt: skip
    swept = list(sweep.points[0]) if isinstance(sweep.points, list) and sweep.points else list(sweep.fields)
    if sweep.replications > 1 and SEED in swept:
        raise ScenarioError(
            "replications give every point its seeds, and so does a field", file=file, path=f"fields.{SEED}",
            allowed="one of the two",
        )  # fmt: skip
    for override in (*written, *own):
        under = next((path for path in swept if _covers(path, override.path)), None)
        if under is not None:
            raise ScenarioError(
                f"the field is swept, so that what is set here has no effect: {under}", file=override.given,
                path=override.path, found=override.value, allowed="fields that are not swept",
            )  # fmt: skip
    return (*written, *own)


def _covers(path: str, other: str) -> bool:
    """Whether setting ``path`` sets ``other`` too."""
    return other == path or other.startswith(f"{path}.")


def reference_of(sweep: SweepFile, file: Path, catalog: Catalog) -> str:
    """The scenario of a sweep file, whose path is relative to it.

    Raises:
        CatalogError: there is none of that name.
    """
    name = sweep.scenario
    if name in catalog.names("scenarios"):
        return name
    if name.endswith((".yaml", ".yml")) or "/" in name or name.startswith((".", "~")):
        return str(file.parent / expanded(name))
    try:
        return str(catalog.scenario(name))
    except CatalogError as error:
        error.file, error.path = str(file), "scenario"
        raise
