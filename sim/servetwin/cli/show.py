"""``servetwin show``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.kinds import POLICIES, TECHNIQUES, kind_of
from servetwin.errors import InputError

if TYPE_CHECKING:
    from servetwin.policies import Policy

_FILES = ("scenarios", "workloads", "calibrations", "acceptance")
"""Kinds that are best read as the file that they are, comments included."""


def show(
    kind: Annotated[
        str,
        typer.Argument(
            help="hardware, model, scenario, workload, policy, technique, calibration, node, link, storage or "
            "acceptance; plural works too."
        ),
    ],
    name: Annotated[str, typer.Argument(help="Its name.")],
    catalog: options.CatalogDir = None,
    plugin: options.Plugin = None,
    json: options.Json = False,
) -> None:
    """Show one thing in full: figures with their sources, a scenario's file, a policy's rule."""
    wanted = kind_of(kind)
    options.load_policies(plugin)
    if wanted == POLICIES:
        found = [_describe(policy) for policy in _find_policies(name)]
        document: Any = found[0] if len(found) == 1 else found
    elif wanted == TECHNIQUES:
        document = _technique(name)
    else:
        found_in = options.open_catalog(catalog)
        document = found_in.describe(wanted, name)
        if wanted == "models":
            from servetwin.studies.model_sheet import model_sheet

            document = {**model_sheet(found_in.model(name), found_in), **document}
    if json:
        from json import dumps

        print(dumps(document, indent=2, ensure_ascii=False, default=str))
    elif wanted == POLICIES:
        print("\n\n".join(_policy_text(entry) for entry in found).rstrip())
    elif wanted == TECHNIQUES:
        print("\n".join(f"{key + ':':<7}{value}" for key, value in document.items()))
    elif wanted in _FILES:
        print(Path(document["file"]).read_text(encoding="utf-8").rstrip())
    else:
        _print_view(wanted, document)


def _print_view(kind: str, document: dict[str, Any]) -> None:
    """Print a thing of the catalogue in the units that people use."""
    if kind == "models":
        from servetwin.report.model_sheet import sheet_text

        print(sheet_text(document))
    else:
        from servetwin.report.hardware import print_hardware

        print_hardware(kind, document)


def _technique(name: str) -> dict[str, Any]:
    from servetwin.studies.techniques import find_technique

    technique = find_technique(name, "NAME")
    off, on = (side.replace("`", "") for side in technique.sides)
    costs = ", ".join(technique.costs) or "nothing of its own"
    return {"name": technique.name, "about": technique.does, "off": off, "on": on, "costs": costs}


def _find_policies(name: str) -> list[type[Policy]]:
    from servetwin.policies import KINDS, union
    from servetwin.scenario.other_names import meant_value

    known = [policy for kind in KINDS for policy in union(kind)]
    found = [policy for policy in known if policy.name() == name.casefold()]
    if not found:
        names = [policy.name() for policy in known]
        raise InputError(
            "there is no policy of that name",
            path="NAME",
            found=name,
            allowed=names,
            nearest=meant_value(name, names),
        )
    return found


def _describe(policy: type[Policy]) -> dict[str, Any]:
    parameters = {
        field: {
            "type": str(policy.model_fields[field].annotation).removeprefix("typing."),
            "required": policy.model_fields[field].is_required(),
            "default": None if policy.model_fields[field].is_required() else policy.model_fields[field].default,
        }
        for field in policy.parameters()
    }
    return {
        "name": policy.name(),
        "kind": policy.kind,
        "description": inspect.cleandoc(policy.__doc__ or ""),
        "parameters": parameters,
    }


def _policy_text(entry: dict[str, Any]) -> str:
    return f"{entry['name']} ({entry['kind']} policy)\n\n{entry['description']}"
