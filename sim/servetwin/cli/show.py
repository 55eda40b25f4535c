"""``servetwin show``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.kinds import POLICIES, kind_of
from servetwin.errors import InputError, nearest_name

if TYPE_CHECKING:
    from servetwin.policies import Policy

_FILES = ("scenarios", "workloads")
"""Kinds that are best read as the file that they are, comments included."""


def show(
    kind: Annotated[str, typer.Argument(help="hardware, model, scenario, workload, policy or calibration.")],
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
        text = "\n\n".join(_policy_text(entry) for entry in found)
        document: Any = found[0] if len(found) == 1 else found
    else:
        document = options.open_catalog(catalog).describe(wanted, name)
        text = Path(document["file"]).read_text(encoding="utf-8") if wanted in _FILES else _as_yaml(document)
    if json:
        from json import dumps

        print(dumps(document, indent=2, ensure_ascii=False, default=str))
    else:
        print(text.rstrip())


def _as_yaml(document: dict[str, Any]) -> str:
    from json import dumps, loads

    import yaml

    # Through JSON, which turns tuples into lists and leaves only what YAML writes plainly.
    plain = loads(dumps(document, default=str))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def _find_policies(name: str) -> list[type[Policy]]:
    from servetwin.policies import KINDS, union

    known = [policy for kind in KINDS for policy in union(kind)]
    found = [policy for policy in known if policy.name() == name.casefold()]
    if not found:
        names = [policy.name() for policy in known]
        raise InputError(
            "there is no policy of that name",
            path="NAME",
            found=name,
            allowed=names,
            nearest=nearest_name(name, names),
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
