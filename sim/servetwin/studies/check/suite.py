"""The suite file: which scenarios to run, what must hold for them, and how far they may be from their baselines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator

from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import ScenarioError
from servetwin.scenario.messages import as_error, explain
from servetwin.scenario.part import Part
from servetwin.scenario.schema import Name, name_of
from servetwin.studies.check.tolerance import Tolerance

_SEEDS = (0, 1, 2, 3, 4)
_LARGEST_SEED = 2**63 - 1

Tolerances = Mapping[str, Tolerance]


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        raise ValueError(f"the seed {twice[0]} stands twice: the same run again says nothing new")
    return seeds


Seeds = Annotated[
    tuple[Annotated[int, Field(ge=0, le=_LARGEST_SEED)], ...],
    Field(min_length=1, max_length=1000, strict=False),
    AfterValidator(_distinct),
]


class Entry(Part):
    """A scenario of a suite.

    Attributes:
        name: identifies it in the baseline.
        scenario: the name of a bundled scenario, or the path of a file, relative to the suite.
        set: fields of the scenario by their path, and what they are set to.
        seeds: a run for each.
        assertions: what must hold in every run, such as ``ttft_ms.p99 <= 500``.
        tolerance: how far metrics may be from the baseline: by metric, by pattern (``*.max``), or ``default``.
        compare: whether it is compared with a baseline at all.
    """

    name: Name
    scenario: str = Field(min_length=1)
    set: Mapping[str, Any] = Field(default_factory=dict)
    seeds: Seeds | None = None
    assertions: tuple[str, ...] = Field(default=(), alias="assert", strict=False)
    tolerance: Tolerances = Field(default_factory=dict)
    compare: bool = True

    @model_validator(mode="after")
    def _has_a_purpose(self) -> Entry:
        if not self.compare and not self.assertions:
            raise ValueError("nothing is checked here: give it something to assert, or compare it with a baseline")
        if not self.compare and self.tolerance:
            raise ValueError("a tolerance has no effect on what is not compared with a baseline")
        return self


class Suite(Part):
    """What ``servetwin check`` checks.

    Attributes:
        name: names the folder of its baselines; by default that of the file.
        description: what it watches over.
        seeds: a run for each, of every scenario that does not say otherwise.
        tolerance: of every scenario that does not say otherwise.
        scenarios: what is run.
    """

    name: Name
    description: str = ""
    seeds: Seeds = _SEEDS
    tolerance: Tolerances = Field(default_factory=dict)
    scenarios: tuple[Entry, ...] = Field(min_length=1, strict=False)

    def seeds_of(self, entry: Entry) -> tuple[int, ...]:
        """The seeds of an entry."""
        return self.seeds if entry.seeds is None else entry.seeds

    def tolerances_of(self, entry: Entry) -> dict[str, Tolerance]:
        """What an entry tolerates, and where it says nothing, the suite; in the order in which patterns are tried."""
        return {**entry.tolerance, **{key: one for key, one in self.tolerance.items() if key not in entry.tolerance}}


def read_suite(file: Path) -> Suite:
    """Read a suite.

    Raises:
        ScenarioError: the file is missing or malformed; what its scenarios say is read later.
    """
    raw = read_mapping(file, "suite", ScenarioError)
    raw.setdefault("name", name_of(file.stem))
    try:
        suite = Suite.model_validate(raw)
    except ValidationError as error:
        # A field that is missing is often one that is misspelt.
        mistakes = sorted(explain(error, Suite, raw), key=lambda mistake: mistake.message != "unknown field")
        raise as_error(mistakes, str(file)) from None
    names = [entry.name.casefold() for entry in suite.scenarios]
    for place, entry in enumerate(suite.scenarios):
        if names[place] in names[:place]:
            raise ScenarioError(
                "two scenarios of the suite have the same name", file=str(file), path=f"scenarios.{place}.name",
                found=entry.name, allowed="names that differ by more than capital letters: they identify baselines",
            )  # fmt: skip
    return suite
