"""The reference of the scenario format, as Markdown tables from the pydantic schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from servetwin.catalog.descriptions import docstring_fields
from servetwin.scenario.schema import Scenario

Schema = dict[str, Any]

SECTIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "The file",
        (
            ("Scenario", "Top level"),
            ("Engine", "`engine`"),
            ("Physics", "`physics`"),
            ("Run", "`run`"),
            ("Slo", "`slo`"),
            ("Limits", "`slo.ttft_ms`, `tpot_ms`, `itl_ms`, `e2e_ms`"),
            ("Goodput", "`slo.goodput`"),
        ),
    ),
    (
        "The cluster",
        (
            ("Cluster", "`cluster`"),
            ("Pool", "`cluster.pools[]`"),
            ("EngineOptions", "`engine` of a pool, or `cluster.engine`"),
            ("Parallel", "`parallel`"),
            ("Precision", "`precision`"),
            ("TopologyOptions", "`cluster.topology`"),
            ("ExplicitPlacement", "`cluster.topology.placement` as a list"),
            ("BackgroundTraffic", "`cluster.topology.background[]`"),
            ("TransferOptions", "`cluster.transfer`"),
            ("Straggler", "`cluster.stragglers[]`"),
            ("Departure", "`cluster.departures[]`"),
            ("Speculation", "`speculation` of a pool, or `cluster.speculation`"),
            ("Tree", "`speculation.tree`"),
            ("Rate", "`speculation.acceptance: {rate: …}`, or a number"),
            ("Survival", "`speculation.acceptance: {survival: …}`"),
            ("Beyond", "`speculation.acceptance.beyond`"),
            ("Recorded", "`speculation.acceptance: {recorded: …}`"),
            ("Preset", "`speculation.acceptance: {preset: …}`, or its name"),
        ),
    ),
    (
        "The workload",
        (
            ("WorkloadSpec", "`workload`"),
            ("Prefixes", "`workload.prefixes`"),
            ("Documents", "`workload.documents`"),
            ("Sessions", "`workload.sessions`"),
            ("Forks", "`workload.sessions.forks`"),
            ("RequestClass", "`workload.classes[]`"),
            ("ClassSlo", "`workload.classes[].slo`"),
            ("TraceSpec", "`workload.trace`"),
            ("ColumnMap", "`workload.trace.columns`"),
        ),
    ),
    (
        "Arrival processes",
        (
            ("Poisson", "`process: poisson`"),
            ("Gamma", "`process: gamma`"),
            ("UniformGaps", "`process: uniform`"),
            ("ConstantRate", "`process: constant`"),
            ("AllAtOnce", "`process: all-at-once`"),
            ("Bursts", "`process: bursts`"),
            ("OnOff", "`process: on-off`"),
            ("Staged", "`process: staged`"),
            ("Stage", "A stage of `staged`"),
            ("Diurnal", "`process: diurnal`"),
            ("ClosedLoop", "`process: closed-loop`"),
        ),
    ),
    (
        "Lengths",
        (
            ("ConstantLength", "`distribution: constant` (or the bare number)"),
            ("NormalLength", "`distribution: normal`"),
            ("LognormalLength", "`distribution: lognormal`"),
            ("UniformLength", "`distribution: uniform`"),
            ("ExponentialLength", "`distribution: exponential`"),
            ("EmpiricalLength", "`distribution: empirical`"),
            ("PercentileLength", "`distribution: percentiles`"),
        ),
    ),
    (
        "Durations",
        (
            ("ConstantDuration", "Duration `constant` (or the bare number of seconds)"),
            ("UniformDuration", "Duration `uniform`"),
            ("ExponentialDuration", "Duration `exponential`"),
            ("LognormalDuration", "Duration `lognormal`"),
        ),
    ),
)
"""Chapters, and the classes in each with the heading that a reader knows them by."""

_ELSEWHERE = {"Policy"}
_STATISTICS = {
    "mean": "mean", "max": "largest value", "ttft_ms": "time to first token", "tpot_ms": "time per output token",
    "e2e_ms": "end-to-end latency", **{f"p{percent}": f"{percent}th percentile" for percent in (50, 90, 95, 99)},
}  # fmt: skip
_POLICY_FIELDS = {
    "controller": "speculation",
    "scheduling": "scheduling",
    "router": "routing",
    "admission": "admission",
    "disaggregation": "disaggregation",
}
_HEADINGS = {name: heading for _, parts in SECTIONS for name, heading in parts}
_FAMILIES = {
    "Lengths": {name for name in _HEADINGS if name.endswith("Length")},
    "Durations": {name for name in _HEADINGS if name.endswith("Duration")},
    "Arrival processes": {name for name, _ in SECTIONS[3][1]} - {"Stage"},
}


def scenario_reference() -> str:
    """All chapters.

    Raises:
        SystemExit: a class of the schema has no place in ``SECTIONS``, or the other way round.
    """
    schema = Scenario.model_json_schema()
    parts = {**schema["$defs"], "Scenario": schema}
    known, placed = set(parts) - _ELSEWHERE, set(_HEADINGS)
    if known != placed:
        raise SystemExit(f"scripts/docs_schema.py: SECTIONS and the schema differ in {sorted(known ^ placed)}")
    lines: list[str] = []
    for chapter, members in SECTIONS:
        lines += [f"## {chapter}", ""]
        for name, heading in members:
            lines += [f"### {heading}", "", *_part(parts[name]), ""]
    return "\n".join(lines).strip()


def markdown(text: str) -> str:
    """The text of a docstring in Markdown."""
    return text.replace("``", "`")


def cell(text: str) -> str:
    """A text that may stand in a table."""
    return markdown(" ".join(text.split())).replace("|", "\\|")


def sentence(text: str) -> str:
    """A text that starts with a capital, as the cells of a table do."""
    return text[:1].upper() + text[1:]


def _part(schema: Schema) -> Iterator[str]:
    body, described = docstring_fields(schema.get("description", ""))
    yield markdown(body)
    yield ""
    yield "| field | value | default | meaning |"
    yield "|---|---|---|---|"
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        meaning = field.get("description") or described.get(name, "")
        if "const" in field:
            meaning = meaning or "says which of the alternatives this is"
        if not meaning and schema.get("title") in ("Limits", "Goodput"):
            meaning = f"limit on the {_STATISTICS.get(name, name)} [ms]"
        if not meaning:
            raise SystemExit(f"scripts/docs_schema.py: {schema.get('title')}.{name} has no description")
        default = "required" if name in required else _default(field.get("default"))
        yield f"| `{name}` | {_value(name, field)} | {default} | {sentence(cell(meaning))} |"


def _value(name: str, field: Schema) -> str:
    if name in _POLICY_FIELDS:
        return f"a [{_POLICY_FIELDS[name]} policy](../policies.md#{_POLICY_FIELDS[name]})"
    return _kind(field)


def _kind(schema: Schema) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "$ref" in schema:
        return _link(schema["$ref"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _alternatives(schema[key])
    if "prefixItems" in schema:
        return f"pair of a {' and a '.join(_kind(item) for item in schema['prefixItems'])}"
    if schema.get("type") == "array":
        items = schema.get("items")
        return f"list of {_kind(items)}" if items else "list"
    names = {"integer": "whole number", "number": "number", "boolean": "`true`, `false`", "string": "text"}
    return names.get(schema.get("type", ""), "mapping") + _bounds(schema)


def _alternatives(choices: list[Schema]) -> str:
    references = {choice["$ref"].rsplit("/", 1)[-1] for choice in choices if "$ref" in choice}
    for family, members in _FAMILIES.items():
        if references and references <= members:
            plain = family.lower()
            return f"one of the [{plain}](#{plain.replace(' ', '-')})"
    kinds = [_kind(choice) for choice in choices if choice.get("type") != "null"]
    return " or ".join(dict.fromkeys(kinds))


def _link(reference: str) -> str:
    name = reference.rsplit("/", 1)[-1]
    letters = re.sub(r"[^\w\s-]", "", _HEADINGS[name]).strip().lower()
    anchor = re.sub(r"[-\s]+", "-", letters)
    return f"[{_HEADINGS[name]}](#{anchor})"


def _bounds(schema: Schema) -> str:
    texts = []
    for key, sign in (("exclusiveMinimum", ">"), ("minimum", "≥"), ("exclusiveMaximum", "<"), ("maximum", "≤")):
        # Bounds that only catch slips of the keyboard would hide what matters.
        if key in schema and abs(schema[key]) < 1e6:
            texts.append(f"{sign} {schema[key]:g}")
    return f" {', '.join(texts)}" if texts else ""


def _default(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "–"
    if isinstance(value, dict):
        for key in ("policy", "value"):
            if key in value:
                return f"`{value[key]:g}`" if isinstance(value[key], float) else f"`{value[key]}`"
        return "its defaults"
    if isinstance(value, list):
        return "its defaults"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value != "" else "–"
