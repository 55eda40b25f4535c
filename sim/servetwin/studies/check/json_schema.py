"""The JSON Schema of suite files, for editors."""

from __future__ import annotations

from typing import Any

from servetwin.scenario.json_schema import document
from servetwin.studies.check.suite import Suite
from servetwin.studies.check.tolerance import IGNORE

_PERCENT = {
    "type": "string",
    "pattern": r"^\s*([0-9]+([.][0-9]*)?|[.][0-9]+)\s*%\s*$",
    "description": "A percentage of the baseline.",
    "examples": ["2%"],
}


def suite_schema() -> dict[str, Any]:
    """Of suites. What depends on the metrics of a scenario, the program says."""
    schema = Suite.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        document(part)
    # By default that of the file.
    schema["required"].remove("name")
    entry = schema["$defs"]["Entry"]["properties"]
    entry["assert"]["description"] = "What must hold in every run, such as ttft_ms.p99 <= 500."
    for field in (schema["properties"]["seeds"], entry["seeds"]):
        field.pop("default", None)
    tolerance = schema["$defs"]["Tolerance"]
    tolerance["properties"]["relative"] = {"anyOf": [{"const": 0}, _PERCENT]}
    schema["$defs"]["Tolerance"] = {"anyOf": [_PERCENT, {"const": 0}, {"const": IGNORE}, tolerance]}
    return schema
