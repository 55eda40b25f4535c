"""The reference of the profiles in ``hardware_profiles``, as Markdown tables from their JSON Schemas.

Where a schema says nothing of a field, the docstring of the class that holds it does.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from docs_schema import cell, docstring_fields, sentence

from servetwin.catalog.json_schema import SCHEMAS
from servetwin.specs import (
    DenseMlp,
    GroupedAttention,
    KernelConstants,
    LatentAttention,
    Layer,
    ModelSpec,
    MoeMlp,
    StateAttention,
)
from servetwin.specs.calibration import Calibration

Schema = dict[str, Any]

_NAMED_OTHERWISE = {
    "dtype": "native_weights", "kv_cache": "native_kv_cache", "quantised": "quantised_parts",
    "power": "roofline_power", "link_latency": "link_latency_s", "step.host": "step_s", "step.mixed": "mixed_step_s",
    "greedy": "sampling_s", "top-p": "sampling_s", "front_end.per_request": "front_end_s",
    "per_prompt_token": "front_end_s_per_token", "output.per_request": "output_s_per_request",
    "unavailable": "unavailable_bytes", "memory.overhead": "overhead_bytes",
}  # fmt: skip
"""Fields of files whose attribute has another name; the end of the path decides."""

_PARTS = {
    "grouped": GroupedAttention, "latent": LatentAttention, "state": StateAttention, "dense": DenseMlp, "moe": MoeMlp,
}  # fmt: skip
"""Alternatives of a layer, by ``kind``."""

_EXAMPLES = (
    ("bytes", "80 GiB"), ("bytes per second", "3.35 TB/s"), ("arithmetic per second", "989 TFLOPS"), ("watts", "700 W"),
    ("duration", "4 us"),
)  # fmt: skip
"""Figures with units: what they are, and how one is written."""

_INSIDE = re.compile(r"[;,]? ?\(?see `[a-z]+\.[\w.]+`\)?")
"""What docstrings say to those who read the code."""

_COMMON = {
    "source": "who says so", "date": "when it was looked up, YYYY-MM-DD", "what": "the figures that the source is of.",
    "value": "how many",
}  # fmt: skip


def profile_reference(kind: str) -> str:
    """The fields of one kind of profile.

    Args:
        kind: a key of ``SCHEMAS``.
    """
    owners = {"models": (ModelSpec, Layer), "calibrations": (Calibration, KernelConstants)}.get(kind, ())
    lines = ["| field | value | | meaning |", "|---|---|---|---|"]
    lines += [f"| `{path}` | {value} | {need} | {meaning} |" for path, value, need, meaning in _rows(kind, owners)]
    if kind == "models":
        for name in _PARTS:
            lines += ["", *_alternative(name)]
    return "\n".join(lines)


def _rows(kind: str, owners: tuple[type, ...]) -> Iterator[tuple[str, str, str, str]]:
    about: dict[str, str] = {}
    for owner in owners:
        about |= _described(owner)
    for path, field, needed in _fields(SCHEMAS[kind]()):
        meaning = field.get("description") or _meaning(path, about)
        if not meaning and path != "layers[].attention" and path != "layers[].mlp":
            raise SystemExit(f"scripts/docs_profiles.py: {kind}: {path} has no description")
        yield path, _value(field), "required" if needed else "", _prose(meaning)


def _prose(meaning: str) -> str:
    text = _INSIDE.sub("", cell(meaning)).replace("None =", "null =").replace("`Calibration.sampling_s`", "`sampling`")
    # A symbol at the beginning keeps its case.
    return text if text[1:2] == " " else sentence(text)


def _alternative(name: str) -> Iterator[str]:
    """The fields of one kind of attention or feed-forward block."""
    layer = SCHEMAS["models"]()["properties"]["layers"]["items"]["properties"]
    part = "attention" if name in ("grouped", "latent", "state") else "mlp"
    schema = next(one for one in layer[part]["anyOf"] if one["properties"]["kind"]["const"] == name)
    owner, required = _PARTS[name], schema.get("required", [])
    about = _described(owner)
    yield f"### `{part}: {{kind: {name}, …}}`"
    yield ""
    yield sentence(cell(docstring_fields(inspect.cleandoc(owner.__doc__ or ""))[0]))
    yield ""
    yield from ("| field | value | | meaning |", "|---|---|---|---|")
    for field, inner in schema["properties"].items():
        if field != "kind":
            need = "required" if field in required else ""
            yield f"| `{field}` | {_value(inner)} | {need} | {_prose(about[field])} |"


def _described(owner: type) -> dict[str, str]:
    return docstring_fields(inspect.cleandoc(owner.__doc__ or ""))[1]


def _meaning(path: str, about: dict[str, str]) -> str:
    last = path.rsplit(".", 1)[-1]
    renamed = next((name for end, name in _NAMED_OTHERWISE.items() if path == end or path.endswith(f".{end}")), last)
    return about.get(renamed) or about.get(f"{last}_s") or _COMMON.get(last, "")


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
