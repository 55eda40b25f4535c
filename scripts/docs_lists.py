"""Parts of the documentation that list what there is: policies, commands, hardware, models, calibrations, scenarios."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer
import yaml
from docs_schema import cell, markdown, sentence

from servetwin.acceptance.resolve import resolve_acceptance
from servetwin.acceptance.spec import Preset, Survival
from servetwin.catalog.descriptions import docstring_fields
from servetwin.catalog.find import Catalog
from servetwin.cli.list import _catalogued
from servetwin.cli.main import app
from servetwin.policies import KINDS, Policy, union
from servetwin.studies.overheads.constants import CONSTANTS
from servetwin.studies.techniques import TECHNIQUES

_CATALOG = Catalog()
_CALIBRATION = _CATALOG.calibration("default")
_WHERE = {
    "scheduling": "cluster.engine.scheduling", "routing": "router", "admission": "admission",
    "speculation": "cluster.speculation.controller", "disaggregation": "disaggregation",
}  # fmt: skip
"""Where a scenario names a policy of each kind."""


def policies() -> str:
    """Every registered policy, from its docstring."""
    lines: list[str] = []
    for kind in KINDS:
        lines += [f"## {kind.capitalize()}", "", f"In a scenario: `{_WHERE[kind]}`.", ""]
        # A plug-in that somebody has loaded is not ours to document.
        for policy in (one for one in union(kind) if one.__module__.startswith("servetwin.")):
            lines += [f"### `{policy.name()}`", "", *_policy(policy), ""]
    return "\n".join(lines).strip()


def _policy(policy: type[Policy]) -> Iterator[str]:
    body, described = docstring_fields(inspect.cleandoc(policy.__doc__ or ""))
    body = body.partition(">>>")[0].strip()
    for paragraph in body.split("\n\n"):
        yield markdown(" ".join(paragraph.split()))
        yield ""
    fields = policy.parameters()
    if fields:
        yield from ("| field | default | meaning |", "|---|---|---|")
    for field in fields:
        info = policy.model_fields[field]
        default = "required" if info.is_required() else f"`{info.default}`"
        yield f"| `{field}` | {default} | {sentence(cell(described[field]))} |"


def commands() -> str:
    """Every command with its arguments and options, from the program itself."""
    lines: list[str] = []
    for name, command in _commands(typer.main.get_command(app)):
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        usage = [(p.metavar or p.name).upper() for p in arguments]
        usage = [text if p.required else f"[{text}]" for text, p in zip(usage, arguments, strict=True)]
        lines += [f"## `servetwin {' '.join([name, *usage])}`", "", inspect.cleandoc(command.help), ""]
        lines += ["| | meaning |", "|---|---|"]
        lines += [f"| `{p.name.upper()}` | {cell(p.help)} |" for p in arguments]
        for option in (p for p in command.params if p.param_type_name == "option"):
            spelled = ", ".join(f"`{text}`" for text in option.opts)
            value = "" if option.is_flag or not option.metavar else f" `{option.metavar}`"
            lines.append(f"| {spelled}{value} | {cell(option.help)} |")
        lines.append("")
    return "\n".join(lines).strip()


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Commands with their full names; those of a group of commands after it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def techniques() -> str:
    """What ``compare --toggle`` switches."""
    lines = ["| technique | what it does | off | on |", "|---|---|---|---|"]
    for technique in TECHNIQUES.values():
        off, on = technique.sides
        lines.append(f"| `{technique.name}` | {technique.does} | {cell(off)} | {cell(on)} |")
    return "\n".join(lines)


def hardware() -> str:
    """The GPUs with the figures that matter most."""
    lines = [
        "| name | memory | HBM | bf16 | fp8 | fp4 | link, one direction | USD/h | TDP | kernels of |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for name in _CATALOG.names("hardware"):
        gpu = _CATALOG.gpu(name)
        peaks = dict(gpu.flops)
        shown = [f"{peaks[dtype] / 1e12:,.0f}" if dtype in peaks else "–" for dtype in ("bf16", "fp8", "fp4")]
        cells = [
            f"`{name}`", f"{gpu.memory_bytes / 2**20:,.0f} MiB", f"{gpu.hbm_bytes_per_s / 1e12:.3g} TB/s", *shown,
            f"{gpu.link_bytes_per_s / 1e9:,.0f} GB/s",
            "–" if gpu.price_per_hour_usd is None else f"{gpu.price_per_hour_usd:.2f}",
            "–" if gpu.tdp_watts is None else f"{gpu.tdp_watts:.0f} W",
            f"`{_CALIBRATION.kernels_of(gpu.name, gpu.architecture)}`",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", "Peaks are dense, in TFLOP/s."])


def catalogued(kind: str) -> str:
    """Names of a kind, and a line about each, as ``servetwin list`` prints them."""
    rows = _catalogued(kind, _CATALOG)
    return "\n".join(["| name | |", "|---|---|", *(f"| `{row['name']}` | {cell(row['about'])} |" for row in rows)])


def acceptance() -> str:
    """The presets of acceptance: what they are, and what steps of them yield."""
    drafts = (1, 3, 5, 7)
    lines = [
        f"| preset | of | method | {' | '.join(f'K = {k}' for k in drafts)} | spread | persistence |",
        f"|---|---|---|{'--:|' * (len(drafts) + 2)}",
    ]
    for row in _catalogued("acceptance", _CATALOG):
        for method in _CATALOG.acceptance(row["name"]):
            spec = resolve_acceptance(Preset(preset=row["name"]), method, _CATALOG.acceptance)
            assert isinstance(spec, Survival)
            steps = (f"{1 + spec.levels().survival(k).sum():.2f}" for k in drafts)
            cells = (
                f"`{row['name']}`", cell(row["about"]), f"`{method}`", *steps, f"{spec.spread:g}",
                f"{spec.persistence:g}",
            )  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _leaves(content: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings by dotted name."""
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def calibration() -> str:
    """The constants of the default calibration: those of all GPUs, those of each, and where they come from."""
    path = _CATALOG.describe("calibrations", "default")["file"]
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        content: dict[str, Any] = yaml.safe_load(file)
    lines = ["| constant, on every GPU | value |", "|---|--:|"]
    for group in ("roofline", "step", "sampling", "front_end", "output", "memory"):
        lines += [f"| `{group}.{name}` | {value} |" for name, value in content[group].items()]
    kernels = content["kernels"]
    lines += ["", "| constant, by GPU | " + " | ".join(f"`{gpu}`" for gpu in kernels) + " |"]
    lines.append("|---|" + "--:|" * len(kernels))
    by_gpu = {gpu: dict(_leaves(constants)) for gpu, constants in kernels.items()}
    for name in dict.fromkeys(name for constants in by_gpu.values() for name in constants):
        lines.append(f"| `{name}` | " + " | ".join(str(found.get(name, "–")) for found in by_gpu.values()) + " |")
    lines += ["", "Sources:", ""]
    lines += [f"- {cell(entry['what'])}: {cell(entry['source'])} ({entry['date']})" for entry in content["sources"]]
    return "\n".join(lines)


def engine_constants() -> str:
    """What each family of engines adds to its kernels: the fitted constants, and where they come from."""
    calibrations = {name: _CATALOG.calibration(name) for name in _CATALOG.names("calibrations")}
    lines = ["| constant | " + " | ".join(f"`{name}`" for name in calibrations) + " |"]
    lines.append("|---|" + "--:|" * len(calibrations))
    for constant in CONSTANTS:
        values = [constant.text(constant.of(found)) for found in calibrations.values()]
        lines.append(f"| `{constant.name}` | {' | '.join(values)} |")
    lines += ["", "Sources:", ""]
    for name, found in calibrations.items():
        what, source, date = found.sources[0]
        lines.append(f"- `{name}`, {cell(what)}: {cell(source)} ({date})")
    return "\n".join(lines)
