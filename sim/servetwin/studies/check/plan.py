"""What a check will do: every scenario resolved, every assertion and baseline read, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import CatalogError, InputError, ScenarioError, nearest_name
from servetwin.scenario.files import seen_from
from servetwin.scenario.load import load
from servetwin.scenario.overrides import Override, parse_override
from servetwin.scenario.store import config_hash
from servetwin.studies.check.assertions import Assertion, read_assertion
from servetwin.studies.check.baseline import Baseline, find_baseline, path_of
from servetwin.studies.check.metrics import compared, known_metrics, stored
from servetwin.studies.check.suite import Entry, Suite, read_suite
from servetwin.studies.check.tolerance import DEFAULT, Rule, Tolerance, rule_for
from servetwin.studies.run_options import RunOptions

UPDATE = "--update-baseline"
_SEED = "run.seed"


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    Attributes:
        suite: the suite file.
        baselines: the folder of baselines; by default ``baselines`` beside the suite file.
        update: whether the baselines are to be written instead of compared with.
        runs: what holds for every run. Its seed is the first of the seeds, instead of those of the suite; its changes
            come after those of the suite.
    """

    suite: Path
    baselines: Path | None
    update: bool
    runs: RunOptions

    @property
    def folder(self) -> Path:
        """The folder of baselines."""
        return self.suite.parent / "baselines" if self.baselines is None else self.baselines


@dataclass(frozen=True, slots=True)
class Planned:
    """An entry of a suite that is ready to run.

    Attributes:
        entry: the entry.
        reference: its scenario, as seen from the working directory.
        overrides: what is changed in it, but for the seed.
        seeds: a run for each.
        config_hash: the hash of the resolved scenario.
        assertions: what must hold.
        keys: the metrics that a baseline of it holds.
        rules: what holds for each metric that is compared.
        baseline: what it is compared with; None = with nothing.
        notes: what the user should know, in sentences.
    """

    entry: Entry
    reference: str | Path
    overrides: tuple[Override, ...]
    seeds: tuple[int, ...]
    config_hash: str
    assertions: tuple[Assertion, ...]
    keys: tuple[str, ...]
    rules: dict[str, Rule]
    baseline: Baseline | None
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the entry."""
        return self.entry.name


@dataclass(frozen=True, slots=True)
class Plan:
    """A suite that is ready to run.

    Attributes:
        request: what the user asked for.
        suite: the suite.
        entries: its entries.
        notes: what the user should know about the suite as a whole.
    """

    request: Request
    suite: Suite
    entries: tuple[Planned, ...]
    notes: tuple[str, ...]


def make_plan(request: Request, catalog: Catalog) -> Plan:
    """Read a suite and all that it names.

    Args:
        request: what the user asked for.
        catalog: where models, GPUs and scenarios are found.

    Raises:
        InputError: whatever is wrong with the suite, one of its scenarios, an assertion, a tolerance, a baseline.
    """
    suite = read_suite(request.suite)
    changes = [parse_override(text) for text in request.runs.changes]
    for change in changes:
        if _sets_seed(change.path, change.value):
            raise ScenarioError(
                "a check decides by itself which seeds it runs", file=change.given, path=_SEED, allowed="--seed N"
            )
    if not any(entry.compare for entry in suite.scenarios):
        _refuse_baselines(request)
    entries: list[Planned] = []
    unused = set(suite.tolerance) - {DEFAULT}
    for place, entry in enumerate(suite.scenarios):
        planned, known = _planned(request, suite, entry, f"scenarios.{place}", changes, catalog)
        unused -= {key for key in unused if _fits(key, known)}
        entries.append(planned)
    if unused:
        key = next(key for key in suite.tolerance if key in unused)
        raise _unknown_metric(key, [key for planned in entries for key in planned.keys], request.suite, "tolerance")
    return Plan(request, suite, tuple(entries), tuple(_orphans(request.folder, suite)))


def _refuse_baselines(request: Request) -> None:
    """Of a suite that has none, neither a folder nor writing them has an effect."""
    given = UPDATE if request.update else f"--baseline {request.baselines}"
    if request.update or request.baselines is not None:
        raise ScenarioError(
            "no scenario of the suite is compared with a baseline, so that the option has no effect",
            file=str(request.suite), path=given, allowed="scenarios without compare: false",
        )  # fmt: skip


def _planned(
    request: Request, suite: Suite, entry: Entry, path: str, changes: Sequence[Override], catalog: Catalog
) -> tuple[Planned, list[str]]:
    """An entry that is ready to run, and the metrics that it will have."""
    file = str(request.suite)
    reference = seen_from(request.suite.parent, entry.scenario, catalog)
    overrides = (*_overrides_of(entry, file, path), *changes)
    try:
        loaded = load(reference, overrides, catalog)
        known = known_metrics(loaded.scenario, catalog)
    except InputError as error:
        if isinstance(error, CatalogError) and error.file is None and error.found == entry.scenario:
            error.file, error.path = file, f"{path}.scenario"
        elif not (error.file or "").startswith(file):
            # Of which scenario of the suite, the scenario file does not say.
            error.message = f"{entry.name}: {error.message}"
        raise
    for key in entry.tolerance:
        if key != DEFAULT and not _fits(key, known):
            raise _unknown_metric(key, known, request.suite, f"{path}.tolerance")
    tolerances = suite.tolerances_of(entry)
    assertions = [
        read_assertion(text, known, file, f"{path}.assert.{number}") for number, text in enumerate(entry.assertions)
    ]
    baseline, notes = None, list(loaded.warnings)
    rules = _rules(known, tolerances) if entry.compare else {}
    if entry.compare and not rules:
        raise ScenarioError(
            "every metric is ignored",
            file=file,
            path=path,
            allowed="compare: false, for a scenario with assertions only",
        )
    if entry.compare and not request.update:
        baseline = find_baseline(request.folder, suite.name, entry.name, f"servetwin check {request.suite} {UPDATE}")
        rules, more = _both_have(rules, baseline, known, tolerances, request, suite)
        notes += more
    seeds = suite.seeds_of(entry)
    if request.runs.seed is not None:
        seeds = tuple(range(request.runs.seed, request.runs.seed + len(seeds)))
    planned = Planned(
        entry, reference, overrides, seeds, config_hash(loaded.scenario), tuple(assertions),
        tuple(stored(known, list(tolerances))), rules, baseline, tuple(notes),
    )  # fmt: skip
    return planned, known


def _overrides_of(entry: Entry, file: str, path: str) -> Iterator[Override]:
    for field, value in entry.set.items():
        place = f"{path}.set"
        if not field or not all(field.split(".")):
            raise ScenarioError(
                "this is no path of a field", file=file, path=place, found=field,
                allowed="names with dots between them: cluster.replicas",
            )  # fmt: skip
        if _sets_seed(field, value):
            raise ScenarioError(
                "the seeds of a suite stand in seeds, a run for each", file=file, path=f"{place}.{field}", found=value
            )
        yield Override(f"{file}, {place}", field, value)


def _sets_seed(path: str, value: Any) -> bool:
    return path == _SEED or (path == "run" and isinstance(value, Mapping) and "seed" in value)


def _rules(known: Sequence[str], tolerances: Mapping[str, Tolerance]) -> dict[str, Rule]:
    rules = {key: rule_for(key, tolerances) for key in compared(known, list(tolerances))}
    return {key: rule for key, rule in rules.items() if rule is not None}


def _both_have(
    rules: dict[str, Rule], baseline: Baseline, known: Sequence[str], named: Mapping[str, Tolerance],
    request: Request, suite: Suite,
) -> tuple[dict[str, Rule], list[str]]:  # fmt: skip
    """The rules of those metrics that the baseline has, and notes about those that one of the two lacks."""
    missing = [key for key in rules if key not in baseline.metrics]
    file, hint = str(path_of(request.folder, suite.name, baseline.name)), f"write it again with {UPDATE}"
    for key in missing:
        if key in named:
            raise ScenarioError(
                "the baseline lacks a metric that the suite names", file=file, path=f"metrics.{key}", hint=hint
            )
    if len(missing) == len(rules):
        raise ScenarioError("the baseline has no metric that is compared", file=file, path="metrics", hint=hint)
    gone = [key for key in baseline.metrics if key not in known and rule_for(key, named) is not None]
    notes = [f"not compared, for the baseline lacks them: {', '.join(missing)}"] if missing else []
    notes += [f"not compared, for a run no longer has them: {', '.join(gone)}"] if gone else []
    return {key: rule for key, rule in rules.items() if key not in missing}, notes


def _fits(key: str, known: Sequence[str]) -> bool:
    """Whether it names a metric, or some that are compared without being named."""
    return key in known or ("*" in key and any(fnmatchcase(one, key) for one in compared(known, ())))


def _unknown_metric(key: str, known: Sequence[str], file: Path, path: str) -> ScenarioError:
    return ScenarioError(
        "a run has no such metric" if "*" not in key else "no metric that is compared fits this pattern",
        file=str(file), path=f"{path}.{key}", found=key,
        allowed=[DEFAULT, *dict.fromkeys(known)], nearest=nearest_name(key, [DEFAULT, *known]),
    )  # fmt: skip


def _orphans(folder: Path, suite: Suite) -> Iterator[str]:
    """Baselines of the suite that no entry has, after one was renamed or removed."""
    names = {entry.name for entry in suite.scenarios if entry.compare}
    for file in sorted((folder / suite.name).glob("*.json")):
        if file.stem not in names:
            yield f"{file} belongs to no scenario of the suite that is compared: delete it, or rename the scenario back"
