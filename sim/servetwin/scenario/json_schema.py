"""JSON Schemas of scenario and workload files, for editors.

They come from the classes that validate, with the meaning of each field from its docstring. Where a file may leave out
what another one gives (``extends``, settings of all pools), a schema demands nothing; the program still does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from servetwin.catalog.descriptions import docstring_fields
from servetwin.policies import Kind, union
from servetwin.scenario.schema import Scenario
from servetwin.workload.spec import WorkloadSpec

Schema = dict[str, Any]

_POLICIES: dict[str, Kind] = {
    "router": "routing", "admission": "admission", "scheduling": "scheduling", "controller": "speculation",
    "disaggregation": "disaggregation",
}  # fmt: skip
"""Fields that hold a policy, and of which kind."""


def scenario_schema() -> Schema:
    """Of ``scenarios``: whole ones, and those that extend another."""
    schema = _relaxed(Scenario.model_json_schema())
    properties = schema["properties"]
    properties["extends"] = {"type": "string", "description": "Another scenario to start from: a name, or a path."}
    workload = properties["workload"]
    properties["workload"] = {
        "anyOf": [{"type": "string", "description": "A bundled workload, or the path of a file."}, workload],
        "description": "The requests.",
    }
    schema["anyOf"] = [{"required": ["extends"]}, {"required": ["model", "cluster", "workload"]}, _models_in_pools()]
    return schema


def _models_in_pools() -> Schema:
    """A scenario whose pools name their models."""
    pools = {"type": "array", "items": {"required": ["model"]}}
    cluster = {"properties": {"pools": pools}, "required": ["pools"]}
    return {"required": ["cluster", "workload"], "properties": {"cluster": cluster}}


def workload_schema() -> Schema:
    """Of ``workloads``."""
    schema = _relaxed(WorkloadSpec.model_json_schema())
    for name, about in (("name", "Its name."), ("description", "What it stands for.")):
        schema["properties"].setdefault(name, {"type": "string", "description": about})
    return schema


def _relaxed(schema: Schema) -> Schema:
    """A schema that demands no field, with policies by name, and the meaning of fields from docstrings."""
    kinds = {kind: _policies(kind) for kind in _POLICIES.values()}
    definitions = schema.pop("$defs", {})
    definitions.pop("Policy", None)
    for kind, (choice, named) in kinds.items():
        definitions[f"{kind}-policy"] = choice
        definitions.update(named)
    schema["$defs"] = definitions
    for part in (schema, *definitions.values()):
        document(part)
    for part in _parts(schema):
        part.pop("required", None)
        part.pop("discriminator", None)
        if "oneOf" in part:
            part["anyOf"] = part.pop("oneOf")
        for name, field in part.get("properties", {}).items():
            for one in (field, *field.get("anyOf", ())):
                if name in _POLICIES and "Policy" in str(one.get("$ref", "")):
                    one["$ref"] = f"#/$defs/{_POLICIES[name]}-policy"
    return schema


def _policies(kind: Kind) -> tuple[Schema, dict[str, Schema]]:
    """The choice between the policies of a kind, by name alone or with their fields; and a definition of each."""
    named: dict[str, Schema] = {}
    for policy in union(kind):
        one = policy.model_json_schema()
        named.update(one.pop("$defs", {}))
        named[f"{kind}-{policy.name()}"] = one
    names = {"enum": [policy.name() for policy in union(kind)]}
    choices = [{"$ref": f"#/$defs/{kind}-{policy.name()}"} for policy in union(kind)]
    return {"anyOf": [names, *choices]}, named


def _parts(schema: Any) -> Iterator[Schema]:
    """Every mapping inside a schema, itself included, except those that are values: defaults and examples."""
    if isinstance(schema, dict):
        yield schema
        for key, inner in schema.items():
            if key not in ("default", "examples", "enum", "const"):
                yield from _parts(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _parts(inner)


def document(part: Schema) -> None:
    """Move what a docstring says about the fields to the fields."""
    body, meanings = docstring_fields(part.get("description", ""))
    if body:
        part["description"] = body
    for field, meaning in meanings.items():
        if field in part.get("properties", {}):
            part["properties"][field].setdefault("description", meaning)
