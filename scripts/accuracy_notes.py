"""What people have judged about the accuracy: targets, why cases are off, what is not modelled; read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import InputError, nearest_name

_SIGNS = {"+": 1, "-": -1}
_STATISTICS = {"mean": "mape_mean", "median": "mape_median"}
_SELECTORS = ("id", "set", "kind", "engine", "hardware", "model", "precision", "architecture")


@dataclass(frozen=True)
class Target:
    """An error that shall not be exceeded.

    Attributes:
        what: the cases, in words.
        cases: values of their columns; an id may hold wildcards.
        metric: the metric.
        statistic: ``mean`` or ``median``, over cases.
        at_most: the largest error [%].
    """

    what: str
    cases: Mapping[str, str]
    metric: str
    statistic: str
    at_most: float

    @property
    def key(self) -> str:
        """The statistic, as tables of errors call it."""
        return _STATISTICS[self.statistic]

    def takes(self, score: Mapping[str, Any]) -> bool:
        """Whether a scored case is among its cases."""
        return all(fnmatchcase(str(score[column]), value) for column, value in self.cases.items())


@dataclass(frozen=True)
class Note:
    """Why cases are off.

    Attributes:
        cases: their ids, with wildcards.
        sign: of the error that it explains, +1 or -1.
        why: the mechanism.
    """

    cases: tuple[str, ...]
    sign: int
    why: str


@dataclass(frozen=True)
class Notes:
    """The file.

    Attributes:
        file: where it is.
        targets: errors that shall not be exceeded.
        notes: why cases are off.
        not_modelled: effects that are known and missing, a paragraph each.
    """

    file: Path
    targets: tuple[Target, ...]
    notes: tuple[Note, ...]
    not_modelled: tuple[str, ...]

    def why(self, case: str, error: float) -> str | None:
        """The mechanism behind the error of a case; None: nobody has analysed an error of this sign."""
        return next(
            (note.why for note in self.notes if note.sign * error > 0 and _names(note, case)),
            None,
        )

    def check(self, ids: Sequence[str]) -> None:
        """See that every pattern names a case.

        Args:
            ids: the cases of the run, scored or not.

        Raises:
            InputError: a note is about a case that there is not.
        """
        for number, note in enumerate(self.notes):
            for place, pattern in enumerate(note.cases):
                if not any(fnmatchcase(case, pattern) for case in ids):
                    raise InputError(
                        "there is no such case", file=str(self.file), path=f"notes.{number}.cases.{place}",
                        found=pattern, allowed="an id of the scored cases, * for any characters",
                        nearest=nearest_name(pattern, ids),
                    )  # fmt: skip


def _names(note: Note, case: str) -> bool:
    return any(fnmatchcase(case, pattern) for pattern in note.cases)


def read_notes(file: Path) -> Notes:
    """Read the file.

    Raises:
        InputError: it cannot be read, or a part of it is missing, misspelt or of the wrong kind.
    """
    content = read_mapping(file, "notes", InputError)
    _only(content, ("targets", "notes", "not_modelled"), file, "")
    return Notes(
        file=file,
        targets=tuple(_target(one, file, f"targets.{n}") for n, one in enumerate(_list(content, "targets", file))),
        notes=tuple(_note(one, file, f"notes.{n}") for n, one in enumerate(_list(content, "notes", file))),
        not_modelled=tuple(
            _text(one, file, f"not_modelled.{n}") for n, one in enumerate(_list(content, "not_modelled", file))
        ),
    )


def _target(fields: Any, file: Path, place: str) -> Target:
    _only(fields, ("what", "cases", "metric", "statistic", "at_most"), file, place)
    cases = fields["cases"]
    if not isinstance(cases, dict) or not cases:
        raise InputError("a target names its cases by columns", file=str(file), path=f"{place}.cases", found=cases)
    for column, value in cases.items():
        if column not in _SELECTORS:
            raise InputError(
                "cases have no such column", file=str(file), path=f"{place}.cases", found=column, allowed=_SELECTORS,
                nearest=nearest_name(column, _SELECTORS),
            )  # fmt: skip
        _text(value, file, f"{place}.cases.{column}")
    limit = fields["at_most"]
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or limit <= 0:
        raise InputError("a percentage above 0 is expected", file=str(file), path=f"{place}.at_most", found=limit)
    statistic = _one_of(fields["statistic"], _STATISTICS, file, f"{place}.statistic")
    what, metric = (_text(fields[name], file, f"{place}.{name}") for name in ("what", "metric"))
    return Target(what, cases, metric, statistic, float(limit))


def _note(fields: Any, file: Path, place: str) -> Note:
    _only(fields, ("cases", "sign", "why"), file, place)
    cases = tuple(_text(one, file, f"{place}.cases.{n}") for n, one in enumerate(_list(fields, "cases", file, place)))
    sign = _one_of(fields["sign"], _SIGNS, file, f"{place}.sign")
    return Note(cases, _SIGNS[sign], _text(fields["why"], file, f"{place}.why"))


def _only(fields: Any, names: Sequence[str], file: Path, place: str) -> None:
    """All of these fields and no other."""
    if not isinstance(fields, dict):
        raise InputError("a mapping is expected", file=str(file), path=place, found=fields, allowed=names)
    for name in fields:
        if name not in names:
            raise InputError(
                "unknown field", file=str(file), path=place or None, found=name, allowed=names,
                nearest=nearest_name(str(name), names),
            )  # fmt: skip
    for name in names:
        if name not in fields:
            raise InputError("the field is missing", file=str(file), path=f"{place}.{name}".strip("."))


def _list(fields: Mapping[str, Any], name: str, file: Path, place: str = "") -> list[Any]:
    value = fields[name]
    if not isinstance(value, list) or not value:
        path = f"{place}.{name}".strip(".")
        raise InputError("a list with at least one entry is expected", file=str(file), path=path, found=value)
    return value


def _text(value: Any, file: Path, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError("a text is expected", file=str(file), path=place, found=value)
    return " ".join(value.split())


def _one_of(value: Any, names: Iterable[str], file: Path, place: str) -> str:
    if value not in names:
        raise InputError("unknown value", file=str(file), path=place, found=value, allowed=names)
    return str(value)
