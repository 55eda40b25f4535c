"""``servetwin replay``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.simulate import Choices, simulate
from servetwin.errors import InputError, ScenarioError

if TYPE_CHECKING:
    from servetwin.scenario.load import LoadedScenario
    from servetwin.scenario.overrides import Override

_FIELD = re.compile(r"workload\.trace\.([a-z_]+)(?![.a-z_])")
_SWITCH = re.compile(r"set (workload\.trace\.[a-z_]+) to true")


def replay(
    trace: Annotated[Path, typer.Argument(help="The trace: a file (plain, gzip or zstd), or a folder.")],
    scenario: Annotated[
        str, typer.Option("--scenario", metavar="S", help="Whose cluster: the name or path of a scenario.")
    ],
    trace_format: Annotated[
        str | None, typer.Option("--format", metavar="F", help="Format of the trace, by default from its content.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="MAP", help="Columns of any CSV or JSON lines: arrival_s=COLUMN,…"),
    ] = None,
    rate_scale: Annotated[
        float | None, typer.Option("--rate-scale", metavar="X", help="Speed arrivals up by this factor.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="A:B", help="Only rows from A to B seconds of the trace's time."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="At most this many rows.")] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Count and skip rows that cannot be used.")
    ] = False,
    sort: Annotated[bool, typer.Option("--sort", help="Sort the rows by time.")] = False,
    spread_ties: Annotated[
        bool, typer.Option("--spread-ties", help="Spread rows of the same time over the time to the next one.")
    ] = False,
    out: options.Out = None,
    seed: options.Seed = None,
    changes: options.Set = None,
    catalog: options.CatalogDir = None,
    plugin: options.Plugin = None,
    no_figures: options.NoFigures = False,
    timeline: options.Timeline = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Put a recorded trace through the cluster of a scenario.

    The same as workload.trace in a scenario file. The whole trace is replayed, whatever run.requests and
    run.duration_s say, unless --limit, --window or --set say otherwise.
    """
    from servetwin.scenario.load import load

    options.load_policies(plugin)
    known = options.open_catalog(catalog)
    given: dict[str, Any] = {
        "format": trace_format,
        "columns": columns,
        "rate_scale": rate_scale,
        "window_s": window,
        "limit": limit,
        "skip_bad_rows": skip_bad_rows or None,
        "sort": sort or None,
        "spread_ties": spread_ties or None,
    }
    treatment = [_override(field, value) for field, value in given.items() if value is not None]
    fields = {
        "workload": {"trace": {"path": str(trace.absolute())}},
        "run": {"requests": None, "duration_s": None},
    }
    choices = Choices(out, not no_figures, timeline, strict, quiet, json)
    try:
        loaded = load(scenario, [*treatment, *options.overrides(seed, changes)], known, fields)
        _check_replayed(loaded)
        simulate(loaded, choices, known)
    except InputError as error:
        raise _with_options(error) from None


def _check_replayed(loaded: LoadedScenario) -> None:
    """Refuse an override that replaces the trace."""
    if loaded.scenario.workload.trace is None:
        raise ScenarioError(
            "the trace would not be replayed: an override of the workload replaces it",
            file="--set",
            path="workload",
            allowed="overrides of fields inside workload, such as workload.classes",
            hint="for a synthetic workload: servetwin run",
        )


def _with_options(error: InputError) -> InputError:
    """A message that names the options of the command where it names fields of ``workload.trace``."""
    if error.hint is not None:
        error.hint = _FIELD.sub(_option_of, _SWITCH.sub(r"give \1", error.hint))
    if isinstance(error.allowed, str):
        error.allowed = _FIELD.sub(_option_of, error.allowed)
    return error


def _option_of(field: re.Match[str]) -> str:
    return _option(field[1])


def _option(field: str) -> str:
    return "--" + field.removesuffix("_s").replace("_", "-")


def _override(field: str, value: Any) -> Override:
    """A field of ``workload.trace`` as an override that is called by its option."""
    from servetwin.scenario.overrides import Override

    option = _option(field)
    return Override(option if value is True else f"{option} {value}", f"workload.trace.{field}", value)
