"""How many drafted tokens stand, as measured: the YAML of ``workloads/acceptance``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from servetwin.catalog.fields import Fields
from servetwin.catalog.yaml_file import read_mapping

FIGURES = ("survival", "rate", "spread", "persistence", "proposal", "beyond")
"""What may be known of a method; a scenario writes the same under ``speculation.acceptance``."""


def read_acceptance(path: Path) -> dict[str, dict[str, Any]]:
    """What each method of speculation has, as a scenario would write it.

    Raises:
        CatalogError: where the preset is malformed; whether its figures fit together is for their user to say.
    """
    fields = Fields(read_mapping(path, "acceptance"), str(path))
    fields.text("name")
    fields.text("description", "")
    fields.strings("aliases")
    methods = Fields(fields.take("methods"), str(path), "methods")
    found = {name: _method(Fields(methods.take(name), str(path), f"methods.{name}")) for name in methods.names()}
    if not found:
        raise fields.error("a preset has at least one method", "methods", allowed="methods: {eagle3: {survival: …}}")
    fields.done()
    return found


def _method(fields: Fields) -> dict[str, Any]:
    fields.text("source")
    fields.text("date")
    figures = {name: fields.take(name) for name in FIGURES if fields.has(name)}
    if ("survival" in figures) == ("rate" in figures):
        raise fields.error("a method has either survival or a rate", allowed="survival: [0.8, 0.6] or rate: 0.8")
    fields.done()
    return figures
