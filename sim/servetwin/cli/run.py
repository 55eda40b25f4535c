"""``servetwin run``."""

from __future__ import annotations

from typing import Annotated

import typer

from servetwin.cli import options
from servetwin.cli.simulate import Choices, simulate


def run(
    scenario: Annotated[
        str, typer.Argument(help="The name of a bundled scenario, or the path of a file.")
    ] = "quickstart",
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
    """Simulate a scenario: print its latencies and write tables, pictures and data."""
    from servetwin.scenario.load import load

    options.load_policies(plugin)
    known = options.open_catalog(catalog)
    loaded = load(scenario, options.overrides(seed, changes), known)
    choices = Choices(out, not no_figures, timeline, strict, quiet, json)
    simulate(loaded, choices, known)
