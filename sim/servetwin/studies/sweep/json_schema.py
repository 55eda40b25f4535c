"""The JSON Schema of sweep files, for editors."""

from __future__ import annotations

from typing import Any

from servetwin.scenario.json_schema import document
from servetwin.studies.sweep.columns import METRICS
from servetwin.studies.sweep.file import SweepFile


def sweep_schema() -> dict[str, Any]:
    """Of sweep files: their fields with what they mean, and the metrics that a picture may show."""
    schema = SweepFile.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        document(part)
        part.pop("title", None)
    schema["$defs"]["Plot"]["properties"]["metric"]["enum"] = list(METRICS)
    return schema
