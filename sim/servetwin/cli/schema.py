"""``servetwin schema``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.kinds import KINDS, POLICIES, TECHNIQUES, kind_of
from servetwin.errors import InputError

_FILES = tuple(kind for kind in KINDS if kind not in (POLICIES, TECHNIQUES))
_STUDIES = {"sweep": "sweeps", "sweeps": "sweeps", "suite": "suites", "suites": "suites"}
"""Files that the catalog has none of."""


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            help="scenario, workload, sweep, suite, hardware, model, node, link, storage, calibration, acceptance; "
            "plurals too."
        ),
    ],
    plugin: options.Plugin = None,
) -> None:
    """Print the JSON Schema of a kind of file, with which editors complete fields and mark mistakes.

    Save it, and name it in the first line of a file: # yaml-language-server: $schema=scenario.schema.json
    """
    wanted = _STUDIES.get(kind.casefold()) or kind_of(kind)
    options.load_policies(plugin)
    from json import dumps

    print(dumps(_schema(wanted), indent=2, ensure_ascii=False))


def _schema(kind: str) -> dict[str, Any]:
    from servetwin.catalog.json_schema import DIALECT, SCHEMAS

    if kind == "scenarios":
        from servetwin.scenario.json_schema import scenario_schema

        found = scenario_schema()
    elif kind == "workloads":
        from servetwin.scenario.json_schema import workload_schema

        found = workload_schema()
    elif kind == "sweeps":
        from servetwin.studies.sweep.json_schema import sweep_schema

        found = sweep_schema()
    elif kind == "suites":
        from servetwin.studies.check.json_schema import suite_schema

        found = suite_schema()
    elif kind in SCHEMAS:
        found = SCHEMAS[kind]()
    else:
        raise InputError(
            f"{kind} are no files: the schema of scenarios knows the fields that they have", path="KIND",
            found=kind, allowed=_FILES, nearest="scenarios",
        )  # fmt: skip
    found.pop("title", None)
    return {"$schema": DIALECT, "title": f"servetwin {kind.removesuffix('s')}", **found}
