"""How many drafted tokens stand, as measured: the YAML of ``workloads/acceptance``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from servetwin.catalog.fields import Fields
from servetwin.catalog.yaml_file import read_mapping
from servetwin.specs.drafter import METHOD_NAMES

MOST_ENTRIES = 64
"""Most entries of ``survival``."""

MOST_SPREAD = 10.0
"""Greatest ``spread``."""


class AcceptancePreset(dict[str, dict[str, Any]]):
    """What each method of speculation has, as a scenario would write it.

    Attributes:
        file: where it stands, for messages.
    """

    def __init__(self, methods: dict[str, dict[str, Any]], file: str) -> None:
        super().__init__(methods)
        self.file = file


def read_acceptance(path: Path) -> AcceptancePreset:
    """What each method of speculation has.

    Raises:
        CatalogError: where the preset is malformed; whether its figures fit together is for their user to say.
    """
    fields = Fields(read_mapping(path, "acceptance"), str(path))
    name = fields.text("name")
    if name != path.stem:
        raise fields.error(
            "a preset has the name of its file", "name", found=name, allowed=path.stem, nearest=path.stem
        )
    fields.text("description", "")
    fields.strings("aliases")
    methods = fields.inner("methods")
    for method in methods.names():
        methods.choice_of(method, METHOD_NAMES)
    found = {method: _method(methods.inner(method)) for method in methods.names()}
    if not found:
        raise fields.error("a preset has at least one method", "methods", allowed="methods: {eagle3: {survival: …}}")
    fields.done()
    return AcceptancePreset(found, str(path))


def _method(fields: Fields) -> dict[str, Any]:
    fields.text("source")
    fields.text("date")
    ways = [name for name in ("survival", "rate") if fields.has(name)]
    if len(ways) != 1:
        raise fields.error(
            "a method has either survival or a rate", found=" and ".join(ways) or None,
            allowed="survival: [0.8, 0.6] or rate: 0.8",
        )  # fmt: skip
    figures = _rate(fields) if ways == ["rate"] else _by_position(fields)
    figures |= _optional(fields, "spread", MOST_SPREAD) | _optional(fields, "proposal", 1.0)
    fields.done()
    return figures


def _rate(fields: Fields) -> dict[str, Any]:
    for name in ("persistence", "beyond"):
        if fields.has(name):
            raise fields.error(
                f"{name} has no effect on a rate", name, found=fields.take(name),
                allowed="left out; or survival instead of rate",
            )  # fmt: skip
    return {"rate": fields.number("rate", high=1.0)}


def _by_position(fields: Fields) -> dict[str, Any]:
    found = {"survival": _survival(fields), **_optional(fields, "persistence", 1.0)}
    if fields.take("beyond", None) is not None:
        found["beyond"] = _beyond(fields.inner("beyond"))
    return found


def _optional(fields: Fields, name: str, most: float) -> dict[str, Any]:
    return {} if fields.take(name, None) is None else {name: fields.number(name, high=most)}


def _beyond(fields: Fields) -> dict[str, Any]:
    found = {
        "position": fields.integer("position"), "survival": _survival(fields),
        **_optional(fields, "persistence", 1.0),
    }  # fmt: skip
    fields.done()
    return found


def _survival(fields: Fields) -> list[float]:
    fields.take("survival")
    entries = fields.entries("survival")
    if not 1 <= len(entries) <= MOST_ENTRIES:
        raise fields.error(
            "a list of that length is no survival", "survival", found=f"{len(entries)} entries",
            allowed=f"1 to {MOST_ENTRIES} entries",
        )  # fmt: skip
    each = Fields({str(place): entry for place, entry in enumerate(entries)}, fields.file, f"{fields.path}.survival")
    before = 1.0
    for place in each.names():
        share = each.number(place, high=1.0)
        if share > before:
            raise each.error("survival never rises", place, found=share, allowed=f"at most {before:g}, the one before")
        before = share
    return list(entries)
