"""Reading a scenario: files and their ``extends``, overrides, validation, resolution; every mistake in words."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, ScenarioError
from servetwin.scenario.consistency import Idle
from servetwin.scenario.files import anchor, read_chain, use_workload
from servetwin.scenario.merge import deep_merge
from servetwin.scenario.messages import as_error, dotted, explain
from servetwin.scenario.overrides import Override, apply_override, parse_override
from servetwin.scenario.resolve import resolve
from servetwin.scenario.schema import Scenario, name_of
from servetwin.scenario.unbuilt import refuse_unbuilt

Place = tuple[str | int, ...]

_ONLY_POOL = {"name": "engines"}
"""The pool of a cluster that names none."""

_POOL_PATH = re.compile(r"cluster\.pools\.\d+(\.[a-z_]+)+")


class ScenarioWarning(UserWarning):
    """An override makes an option ineffective, or has no effect itself."""


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A scenario that is ready to run.

    Attributes:
        scenario: resolved; nothing is left to decide.
        warnings: what the user should know, a sentence each.
        file: where it was read.
    """

    scenario: Scenario
    warnings: tuple[str, ...]
    file: Path


def load_scenario(reference: str | Path, overrides: Iterable[str] = (), catalog: Catalog | None = None) -> Scenario:
    """Read a scenario and resolve it.

    Args:
        reference: the name of a bundled scenario, or the path of a file.
        overrides: texts of the form ``PATH=VALUE``.
        catalog: where models, GPUs, workloads and scenarios are found; the bundled ones by default.

    Raises:
        InputError: whatever is wrong with the file, with an override, or with what they name.

    >>> load_scenario("quickstart", ["run.requests=50"]).run.requests
    50
    """
    loaded = load(reference, overrides, catalog)
    for text in loaded.warnings:
        warnings.warn(text, ScenarioWarning, stacklevel=2)
    return loaded.scenario


def load(
    reference: str | Path,
    overrides: Iterable[str | Override] = (),
    catalog: Catalog | None = None,
    extra: Mapping[str, Any] | None = None,
) -> LoadedScenario:
    """Read a scenario and resolve it; what the user should know comes back as text.

    Args:
        reference: the name of a bundled scenario, or the path of a file.
        overrides: texts of the form ``PATH=VALUE``, or ``Override`` objects.
        catalog: where models, GPUs, workloads and scenarios are found; the bundled ones by default.
        extra: fields to set before the overrides, as if the file said so; a trace replaces the workload.

    Raises:
        InputError: whatever is wrong.
    """
    catalog = catalog or Catalog()
    file, raw = read_chain(reference, catalog)
    raw.setdefault("name", name_of(file.stem))
    if extra:
        raw = _replaced(raw, extra)
    scenario, notes = _finished(raw, catalog, str(file), overrides)
    return LoadedScenario(scenario, notes, file)


def validate_mapping(
    raw: Mapping[str, Any],
    catalog: Catalog | None = None,
    file: str = "the scenario",
    overrides: Iterable[str | Override] = (),
) -> Scenario:
    """The resolved scenario of a mapping, as a file would hold it.

    Args:
        raw: the mapping.
        catalog: where models, GPUs, workloads and scenarios are found.
        file: what messages call the mapping.
        overrides: as in ``load``.

    Raises:
        InputError: whatever is wrong.
    """
    scenario, notes = _finished(copy.deepcopy(dict(raw)), catalog or Catalog(), file, overrides)
    for text in notes:
        warnings.warn(text, ScenarioWarning, stacklevel=3)
    return scenario


def _finished(
    raw: dict[str, Any], catalog: Catalog, file: str, overrides: Iterable[str | Override]
) -> tuple[Scenario, tuple[str, ...]]:
    """Apply overrides to the fields of a scenario, which are changed, and resolve it; the scenario and warnings."""
    _add_pools(raw)
    as_written = copy.deepcopy(raw)
    changes = _apply(raw, overrides, catalog)
    use_workload(raw, catalog, Path(), file)
    # What overrides name is seen from the working directory.
    anchor(raw, Path())
    scenario, idle = _validate(raw, catalog, file, changes)
    return scenario, (*_replaced_later(changes), *_report_idle(idle, as_written, catalog, file, changes))


def _add_pools(raw: dict[str, Any]) -> None:
    """Give a cluster without pools its one pool, so that ``cluster.pools.0`` always means something."""
    cluster = raw.get("cluster")
    if isinstance(cluster, dict) and cluster.get("pools") is None:
        cluster["pools"] = [dict(_ONLY_POOL)]


def _replaced(raw: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    workload = raw.get("workload")
    if isinstance(workload, dict) and "trace" in (extra.get("workload") or {}):
        workload.pop("trace", None)
    return deep_merge(raw, copy.deepcopy(dict(extra)))


def _apply(raw: dict[str, Any], overrides: Iterable[str | Override], catalog: Catalog) -> list[tuple[Place, str]]:
    """Apply overrides in their order; where each one now stands, and what the user gave."""
    changes = []
    for override in overrides:
        parsed = parse_override(override) if isinstance(override, str) else override
        if parsed.path == "extends":
            raise ScenarioError(
                "extends stands in a file",
                file=parsed.given,
                path="extends",
                found=parsed.value,
                allowed="the other scenario as the argument of the command, and --set for what differs",
            )
        changes.append((apply_override(raw, parsed), parsed.given))
        # The name of a workload stands for its content, which later overrides may change.
        use_workload(raw, catalog, Path(), parsed.given)
    return changes


def _replaced_later(changes: Sequence[tuple[Place, str]]) -> Iterator[str]:
    """Overrides of what a later one replaces."""
    for number, (place, given) in enumerate(changes):
        for later, other in changes[number + 1 :]:
            if place[: len(later)] == later:
                yield f"{given} has no effect: {other} comes later (check overridden-later)"
                break


def _validate(
    raw: dict[str, Any], catalog: Catalog, file: str, changes: Sequence[tuple[Place, str]]
) -> tuple[Scenario, list[Idle]]:
    try:
        refuse_unbuilt(raw, file)
        scenario = Scenario.model_validate(raw)
        return resolve(scenario, catalog, raw)
    except ValidationError as error:
        mistakes = explain(error, Scenario, raw)
        raise as_error(mistakes, _blame(mistakes[0].path, file, changes, mistakes[0].message)) from None
    except InputError as error:
        raise _placed(error, raw, file, changes) from None


def _blame(path: Place, file: str, changes: Sequence[tuple[Place, str]], message: str = "") -> str:
    """The override that put a mistake there, else the file.

    Of several the last one, but first one of a field that the message names, and last one that made the mapping in
    which another field is missing.
    """
    inside = [(place, given) for place, given in changes if place[: len(path)] == path[: len(place)]]
    named = [given for place, given in inside if re.search(rf"\b{re.escape(str(place[-1]))}\b", message)]
    if not inside and message == f"the field '{path[-1]}' is missing":
        named = [given for place, given in changes if place[:-1] == path[:-1]]
    return (named or [given for _, given in inside] or [file])[-1]


def _placed(error: InputError, raw: Any, file: str, changes: Sequence[tuple[Place, str]]) -> InputError:
    """An error of a later stage, with the place in the file where its cause is written."""
    if error.path is None and error.file is None:
        error.path = _path_of_value(raw, error.found)
    if error.hint is not None:
        error.hint = _POOL_PATH.sub(lambda found: _written_path(raw, found[0]), error.hint)
    if error.path is not None and error.file in (None, "the scenario", file):
        error.path = _written_path(raw, error.path)
        place = tuple(int(part) if part.isdecimal() else part for part in error.path.split("."))
        error.file = _blame(place, file, changes)
    elif error.file is None:
        error.file = file
    return error


def _path_of_value(raw: Any, value: object, path: Place = ()) -> str | None:
    """The first place outside the workload where a value stands: a name that the catalog does not know."""
    if isinstance(raw, Mapping):
        inner: Iterable[tuple[str | int, Any]] = ((k, v) for k, v in raw.items() if (*path, k) != ("workload",))
    elif isinstance(raw, list):
        inner = enumerate(raw)
    else:
        return dotted(path) if value is not None and raw == value and path not in (("name",), ()) else None
    for key, entry in inner:
        found = _path_of_value(entry, value, (*path, key))
        if found is not None:
            return found
    return None


def _written_path(raw: Any, path: str) -> str:
    """The place under ``cluster`` of a pool's setting that was given once for all pools."""
    parts = path.split(".")
    if parts[:2] == ["cluster", "pools"] and len(parts) > 3 and not _stands(raw, parts):
        common = ["cluster", *parts[3:]]
        if _stands(raw, common) or raw["cluster"]["pools"] == [_ONLY_POOL]:
            return ".".join(common)
    return path


def _stands(raw: Any, parts: Sequence[str]) -> bool:
    for part in parts:
        if isinstance(raw, Mapping) and part in raw:
            raw = raw[part]
        elif isinstance(raw, list) and part.isdecimal() and int(part) < len(raw):
            raw = raw[int(part)]
        else:
            return False
    return True


def _report_idle(
    idle: Sequence[Idle],
    as_written: dict[str, Any],
    catalog: Catalog,
    file: str,
    changes: Sequence[tuple[Place, str]],
) -> tuple[str, ...]:
    """Refuse options without effect that the file itself writes; warnings for those that overrides lead to."""
    by_overrides: list[Idle] = []
    if idle and changes:
        own = {(entry.check, entry.path) for entry in _idle_of_file(as_written, catalog, file)}
        touched = {place for place, _ in changes}
        by_overrides = [e for e in idle if (e.check, e.path) not in own or e.path in touched]
    by_file = [entry for entry in idle if entry not in by_overrides]
    if by_file:
        first, *others = by_file
        raise ScenarioError(
            f"this option has no effect: {first.reason}",
            file=file,
            path=dotted(first.path),
            found=first.value,
            allowed="leave it out, or change what makes it ineffective",
            hint=f"also without effect: {', '.join(dotted(e.path) for e in others[:3])}" if others else None,
        )
    return tuple(f"{entry} (check {entry.check})" for entry in by_overrides)


def _idle_of_file(as_written: dict[str, Any], catalog: Catalog, file: str) -> list[Idle]:
    """The options without effect of the file alone; none where it needs the overrides to be valid."""
    try:
        use_workload(as_written, catalog, Path(), file)
        return _validate(as_written, catalog, file, [])[1]
    except InputError:
        return []
