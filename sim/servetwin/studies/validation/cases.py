"""Reading a file of measured cases; every mistake in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import ScenarioError, nearest_name

KINDS = (
    "serving", "concurrency_sweep", "throughput_table", "iteration_profile", "pd", "pd_sweep", "kv_cache",
    "spec_decode", "spec_decode_cost",
)  # fmt: skip
"""The kinds of the format, in the order in which they are reported."""

_TEXTS = ("id", "kind", "model", "hardware", "engine")


@dataclass(frozen=True, slots=True)
class Case:
    """One measured case.

    Attributes:
        number: its place in the file.
        fields: what the file says.
        file: the file, as the user named it.
    """

    number: int
    fields: Mapping[str, Any]
    file: Path

    @property
    def id(self) -> str:
        """Its name."""
        return str(self.fields["id"])

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.fields["kind"])

    @property
    def set_name(self) -> str | None:
        """The scored set that it belongs to."""
        name = self.fields.get("scored_set")
        return str(name) if name is not None else None

    @property
    def usable(self) -> bool:
        """Whether it may be scored."""
        return bool(self.fields["usable_for_scoring"])

    @property
    def flags(self) -> tuple[str, ...]:
        """What the collectors of the case warn of."""
        return tuple(str(flag) for flag in self.fields.get("flags") or ())

    @property
    def measured(self) -> Mapping[str, Any]:
        """What was measured, by stage or point."""
        measured: Mapping[str, Any] = self.fields["measured"]
        return measured

    @property
    def peers(self) -> Mapping[str, Any]:
        """What other simulators predicted, by simulator, stage and metric."""
        return self.fields.get("peers") or {}

    def find(self, *path: str) -> Any:
        """The value at a path, None if there is none."""
        value: Any = self.fields
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def need(self, *path: str) -> Any:
        """The value at a path.

        Raises:
            ScenarioError: it is missing.
        """
        value = self.find(*path)
        if value is None:
            raise self.error(f"a case of kind {self.kind} needs this field", *path)
        return value

    def number_at(self, *path: str) -> float:
        """The number at a path.

        Raises:
            ScenarioError: it is missing or no number.
        """
        value = self.need(*path)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error("a number is expected", *path, found=value)
        return value

    def error(self, message: str, *path: str, found: object = None, allowed: str | None = None) -> ScenarioError:
        """A mistake in this case, with its place."""
        place = ".".join((f"cases.{self.number}", *path))
        return ScenarioError(
            f"{message} (case {self.id})", file=str(self.file), path=place, found=found, allowed=allowed
        )

    def beside(self, name: str) -> Path:
        """A file that the case names: relative to the file of cases."""
        return self.file.parent / name


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file of cases.

    Attributes:
        file: where it is.
        cases: its cases, in order.
    """

    file: Path
    cases: tuple[Case, ...]

    def choose(self, kinds: Sequence[str] = (), ids: Sequence[str] = ()) -> tuple[Case, ...]:
        """The cases of these kinds with these ids; all, where none are named.

        Raises:
            ScenarioError: there is no case of such a kind, or with such an id.
        """
        found = sorted({case.kind for case in self.cases})
        for kind in kinds:
            if kind not in found:
                raise ScenarioError(
                    "the file has no case of this kind", file=str(self.file), path="--kind", found=kind, allowed=found,
                    nearest=nearest_name(kind, found),
                )  # fmt: skip
        known = [case.id for case in self.cases]
        for name in ids:
            if name not in known:
                raise ScenarioError(
                    "the file has no case of this id", file=str(self.file), path="--case", found=name,
                    allowed=f"one of its {len(known):,} ids", nearest=nearest_name(name, known),
                )  # fmt: skip
        chosen = tuple(case for case in self.cases if (not kinds or case.kind in kinds) and (not ids or case.id in ids))
        if not chosen:
            raise ScenarioError(
                "no case is of the given kinds and has one of the given ids", file=str(self.file), path="--case",
                found=", ".join(ids), allowed=[case.id for case in self.cases if case.kind in kinds][:20],
            )  # fmt: skip
        return chosen


def read_case_file(file: Path) -> CaseFile:
    """Read a file of cases.

    Raises:
        ScenarioError: it cannot be read, is neither JSON nor YAML, or lacks what every case needs.
    """
    content = read_mapping(file, "case", ScenarioError)
    cases = content.get("cases")
    if not isinstance(cases, list):
        raise ScenarioError(
            "the file has no list of cases", file=str(file), path="cases", found=cases,
            allowed='{"cases": [{"id": …, "kind": …, "measured": …, …}]}',
        )  # fmt: skip
    if not cases:
        raise ScenarioError("the file has no case", file=str(file), path="cases")
    numbered = tuple(_checked(number, case, file) for number, case in enumerate(cases))
    seen: set[str] = set()
    for case in numbered:
        if case.id in seen:
            raise case.error("two cases have the same id", "id", found=case.id)
        seen.add(case.id)
    return CaseFile(file, numbered)


def _checked(number: int, fields: Any, file: Path) -> Case:
    place = f"cases.{number}"
    if not isinstance(fields, dict):
        raise ScenarioError("a case is a mapping", file=str(file), path=place, found=fields)
    for name in (*_TEXTS, "measured", "usable_for_scoring"):
        if name not in fields:
            near = nearest_name(name, [key for key in fields if isinstance(key, str)])
            raise ScenarioError("a case needs this field", file=str(file), path=f"{place}.{name}", nearest=near)
    for name in _TEXTS:
        if not isinstance(fields[name], str) or not fields[name].strip():
            raise ScenarioError("a text is expected", file=str(file), path=f"{place}.{name}", found=fields[name])
    for name in ("measured", "peers", "workload", "engine_config"):
        value = fields.get(name)
        absent = value is None and name != "measured"
        if not absent and not isinstance(value, dict):
            raise ScenarioError("a mapping is expected", file=str(file), path=f"{place}.{name}", found=value)
    if not isinstance(fields["usable_for_scoring"], bool):
        raise ScenarioError(
            "true or false is expected", file=str(file), path=f"{place}.usable_for_scoring",
            found=fields["usable_for_scoring"],
        )  # fmt: skip
    if re.search(r"[\x00-\x1f]", fields["id"]):
        raise ScenarioError("an id has no control characters", file=str(file), path=f"{place}.id", found=fields["id"])
    return Case(number, fields, file)
