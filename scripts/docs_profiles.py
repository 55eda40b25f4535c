"""The reference of the profiles in ``hardware_profiles``, as Markdown tables from their JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs_schema import cell, sentence

from servetwin.catalog.json_schema import SCHEMAS

Schema = dict[str, Any]

_HEAD = ("| field | value | | meaning |", "|---|---|---|---|")

_EXAMPLES = (
    ("bytes", "80 GiB"), ("bytes per second", "3.35 TB/s"), ("arithmetic per second", "989 TFLOPS"), ("watts", "700 W"),
    ("duration", "4 us"),
)  # fmt: skip
"""Figures with units: what they are, and how one is written."""


def profile_reference(kind: str) -> str:
    """The fields of one kind of profile.

    Args:
        kind: a key of ``SCHEMAS``.
    """
    schema = SCHEMAS[kind]()
    lines = list(_HEAD)
    for path, field, needed in _fields(schema):
        if not field.get("description"):
            raise SystemExit(f"scripts/docs_profiles.py: {kind}: {path} has no description")
        lines.append(_row(path, field, needed))
    if kind == "models":
        layer = schema["properties"]["layers"]["items"]["properties"]
        for part in ("attention", "mlp"):
            for alternative in layer[part]["anyOf"]:
                lines += ["", *_alternative(part, alternative)]
    return "\n".join(lines)


def _row(path: str, field: Schema, needed: bool) -> str:
    return f"| `{path}` | {_value(field)} | {'required' if needed else ''} | {_prose(field['description'])} |"


def _prose(meaning: str) -> str:
    text = cell(meaning)
    # A symbol at the beginning keeps its case.
    return text if text[1:2] == " " else sentence(text)


def _alternative(part: str, schema: Schema) -> Iterator[str]:
    """The fields of one kind of attention or feed-forward block."""
    properties, required = schema["properties"], schema.get("required", [])
    yield f"### `{part}: {{kind: {properties['kind']['const']}, …}}`"
    yield ""
    yield sentence(cell(schema["description"]))
    yield ""
    yield from _HEAD
    yield from (_row(name, field, name in required) for name, field in properties.items() if name != "kind")


def _fields(schema: Schema, prefix: str = "", whole: bool = True) -> Iterator[tuple[str, Schema, bool]]:
    """Every field that is no mapping, by its path; figures with a source count as one.

    Args:
        schema: the mapping.
        prefix: where it stands.
        whole: whether it must be there; the fields of a mapping that may be left out may be left out.
    """
    required = schema.get("required", []) if whole else ()
    for name, field in schema["properties"].items():
        inner = _unwrapped(field)
        path, needed = f"{prefix}{name}", name in required
        if _is_figure(inner) or "anyOf" in inner:
            yield path, field, needed
        elif "properties" in inner:
            yield from _fields(inner, f"{path}.", needed or "anyOf" not in field)
        elif isinstance(inner.get("additionalProperties"), dict) and "properties" in inner["additionalProperties"]:
            yield from _fields(inner["additionalProperties"], f"{path}.NAME.")
        elif "properties" in inner.get("items", {}):
            yield from _fields(inner["items"], f"{path}[].")
        else:
            yield path, field, needed


def _unwrapped(field: Schema) -> Schema:
    """A field without the null that it may be instead."""
    choices = [one for one in field.get("anyOf", []) if one.get("type") != "null"]
    return choices[0] if len(choices) == 1 else field


def _is_figure(schema: Schema) -> bool:
    return set(schema.get("properties", {})) == {"value", "source", "date"}


def _value(field: Schema) -> str:
    null = " or null" if field is not _unwrapped(field) else ""
    schema = _unwrapped(field)
    if "anyOf" in schema:
        kinds = (f"[`{one['properties']['kind']['const']}`](#{_anchor(one)})" for one in schema["anyOf"])
        return ", ".join(kinds)
    if _is_figure(schema):
        return f"`value` ({_plain(schema['properties']['value'])}), `source`, `date`{null}"
    return _plain(schema) + null


def _anchor(schema: Schema) -> str:
    name = schema["properties"]["kind"]["const"]
    return f"{'attention' if name in ('grouped', 'latent', 'state') else 'mlp'}-kind-{name}"


def _plain(schema: Schema) -> str:
    if "pattern" in schema:
        units = schema["pattern"].rsplit("(", 1)[-1].partition(")")[0].replace("\\", "").split("|")
        return next(f"{what}, as in `{example}`" for what, example in _EXAMPLES if example.split()[1] in units)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_plain(schema['items'])}"
    if schema.get("type") == "object":
        return f"mapping to {_plain(schema['additionalProperties'])}"
    names = {"integer": "whole number", "number": "number", "boolean": "`true`, `false`", "string": "text"}
    bounds = [
        f"{sign} {schema[key]:g}"
        for key, sign in (("exclusiveMinimum", ">"), ("minimum", "≥"), ("maximum", "≤"))
        if key in schema
    ]
    return " ".join([names[schema["type"]], ", ".join(bounds)]).strip()
