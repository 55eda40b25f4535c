"""``servetwin explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from servetwin.cli import options
from servetwin.cli.guard import say


def explain(
    scenario: Annotated[str, typer.Argument(help="The name of a bundled scenario, or the path of a file.")],
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="B", help="Requests that decode, by default 32, or 0 with --prefill."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            "--context",
            metavar="C",
            help="Tokens in the KV cache of each of them; without any, tokens of the prompt before the chunk. "
            "By default 1024, or 0 where nothing decodes.",
        ),
    ] = None,
    prefill: Annotated[
        int | None,
        typer.Option("--prefill", metavar="T", help="Prompt tokens of one request computed in the step, by default 0."),
    ] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", metavar="NAME", help="Whose step, by default the first pool.")
    ] = None,
    changes: options.Set = None,
    catalog: options.CatalogDir = None,
    plugin: options.Plugin = None,
    json: options.Json = False,
) -> None:
    """Explain one step: where its time goes, operator by operator, where it stands on the roofline, what fits.

    Nothing is simulated: the step is priced as the simulator would price it, for decodes, for a prefill chunk, or for
    both together.
    """
    from servetwin.scenario.load import load
    from servetwin.studies.explain import explain as explained
    from servetwin.studies.step import Step

    step = Step.of(batch, context, prefill)
    options.load_policies(plugin)
    known = options.open_catalog(catalog)
    loaded = load(scenario, options.overrides(None, changes), known)
    document = explained(loaded.scenario, step, known, pool)
    document["warnings"] = [*document["warnings"], *loaded.warnings]
    if json:
        from json import dumps

        for warning in document["warnings"]:
            say(f"warning: {warning}")
        print(dumps(document, indent=2, allow_nan=False, ensure_ascii=False))
        return
    from servetwin.report.explain import print_explanation

    print_explanation(document)
