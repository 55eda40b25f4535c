"""What the fields of a JSON Schema mean, from the docstrings of the classes that hold them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from servetwin.specs import DenseMlp, GroupedAttention, LatentAttention, MoeMlp, StateAttention

Schema = dict[str, Any]

_FIELD = re.compile(r" {4}(\w+): (.*)")

_ALTERNATIVES: dict[str, type] = {
    "grouped": GroupedAttention, "latent": LatentAttention, "state": StateAttention, "dense": DenseMlp, "moe": MoeMlp,
}  # fmt: skip
"""What holds the fields of an alternative, by its ``kind``."""

_NAMED_OTHERWISE = {
    "dtype": "native_weights", "kv_cache": "native_kv_cache", "quantised": "quantised_parts",
    "power": "roofline_power", "link_latency": "link_latency_s", "across_latency": "across_latency_s",
    "step.host": "step_s", "step.mixed": "mixed_step_s",
    "step.per_request": "request_step_s", "step.all_reduce": "all_reduce", "step.eager": "eager_s",
    "step.experts_eager": "experts_eager_s",
    "step.router": "router_s", "step.scheduling": "scheduling_s",
    "step.scheduling_per_request": "scheduling_s_per_request",
    "draft.pass": "draft_pass_s", "draft.layer": "draft_layer_s", "draft.lookup": "lookup_s",
    "greedy": "sampling_s", "top-p": "sampling_s", "front_end.per_request": "front_end_s",
    "per_prompt_token": "front_end_s_per_token", "output.per_request": "output_s_per_request",
    "unavailable": "unavailable_bytes", "memory.overhead": "overhead_bytes",
    "collectives": "collectives_bytes",
}  # fmt: skip
"""Fields of files whose attribute has another name; the end of the path decides."""

_COMMON = {"what": "the figures that the source is of.", "kind": "which of the alternatives this is."}

_INSIDE = re.compile(r"[;,]? ?\(?see `[a-z]+\.[\w.]+`\)?")
"""What docstrings say to those who read the code."""

_IN_WORDS = (
    ("None =", "null ="),
    ("None where", "left out where"),
    ("`Calibration.sampling_s`", "`sampling`"),
    ("`ExpertsCurve.launch_s`", "the constant `launch` of experts"),
)
"""What docstrings call otherwise than files do."""


def docstring_fields(text: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring before ``Attributes:``, and what that section says of each field."""
    body, _, tail = text.partition("Attributes:\n")
    fields: dict[str, str] = {}
    name = ""
    for line in tail.splitlines():
        match = _FIELD.match(line)
        if match:
            name = match[1]
            fields[name] = match[2]
        elif name and line.startswith("     "):
            fields[name] += " " + line.strip()
        else:
            name = ""
    return body.strip(), fields


def described(schema: Schema, *owners: type) -> Schema:
    """A copy of a schema in which each field says what it means.

    Args:
        schema: of a mapping.
        owners: the classes whose docstrings say it, where the schema does not.
    """
    about: dict[str, str] = {}
    for owner in owners:
        about |= _of_class(owner)[1]
    return _mapping(schema, about, "")


def _mapping(schema: Schema, about: Mapping[str, str], prefix: str) -> Schema:
    properties = {name: _field(field, about, prefix + name) for name, field in schema["properties"].items()}
    return {**schema, "properties": properties}


def _field(field: Schema, about: Mapping[str, str], path: str) -> Schema:
    meaning = field.get("description") or _plain(_meaning(path, about))
    field = {**field, "description": meaning} if meaning else dict(field)
    rest = field.get("additionalProperties")
    if "properties" in field:
        return _mapping(field, about, f"{path}.")
    if isinstance(rest, dict) and "properties" in rest:
        field["additionalProperties"] = _mapping(rest, about, f"{path}.NAME.")
    elif "properties" in field.get("items", {}):
        field["items"] = _mapping(field["items"], about, f"{path}[].")
    elif any("kind" in one.get("properties", {}) for one in field.get("anyOf", [])):
        field["anyOf"] = [_alternative(one) for one in field["anyOf"]]
    return field


def described_as(schema: Schema, owner: type) -> Schema:
    """A copy of the schema of a mapping in which it and each field say what they mean: what ``owner`` says of them."""
    body, about = _of_class(owner)
    return {**_mapping(schema, about, ""), "description": _plain(body)}


def _alternative(schema: Schema) -> Schema:
    return described_as(schema, _ALTERNATIVES[schema["properties"]["kind"]["const"]])


def _of_class(owner: type) -> tuple[str, dict[str, str]]:
    return docstring_fields(inspect.cleandoc(owner.__doc__ or ""))


def _meaning(path: str, about: Mapping[str, str]) -> str:
    last = path.rsplit(".", 1)[-1]
    named = next((name for end, name in _NAMED_OTHERWISE.items() if path == end or path.endswith(f".{end}")), last)
    return about.get(named) or about.get(f"{last}_s") or _COMMON.get(last, "")


def _plain(text: str) -> str:
    """A sentence for readers of a file instead of the code."""
    plain = _INSIDE.sub("", " ".join(text.replace("``", "`").split()))
    for code, words in _IN_WORDS:
        plain = plain.replace(code, words)
    # A symbol at the beginning keeps its case.
    return plain if plain[1:2] == " " else plain[:1].upper() + plain[1:]
