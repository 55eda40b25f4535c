"""``servetwin compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.guard import showing
from servetwin.cli.processes import cpus
from servetwin.cli.progress import progress_bar
from servetwin.cli.simulate import default_out
from servetwin.errors import Interrupted, printable

if TYPE_CHECKING:
    from servetwin.studies.compare.running import Finished

_SCENARIOS = typer.Argument(
    help="Names of bundled scenarios or paths of files, each with a name of your own or without: NAME=SCENARIO.",
    metavar="[NAME=]SCENARIO…",
)
_SET_FOR = typer.Option(
    "--set-for", metavar="NAME:PATH=VALUE", help="Change a field of one of the scenarios; may be repeated."
)
_TOGGLE = typer.Option(
    "--toggle",
    metavar="TECHNIQUE",
    help="Switch a technique of the first scenario off and on; several, up to four, in all combinations. "
    "See: servetwin list techniques.",
)


def compare(
    scenarios: Annotated[list[str], _SCENARIOS],
    toggle: Annotated[list[str] | None, _TOGGLE] = None,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Switch each technique on alone, without combinations.")
    ] = False,
    changes_for: Annotated[list[str] | None, _SET_FOR] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="NAME", help="What others are compared with, by default the first."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, max=10_000, help="Run with N seeds: run.seed, +1, …")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", parser=options.folder, help="Where to write, by default runs/compare-TIME."
        ),
    ] = None,
    jobs: options.Jobs = None,
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
    """Put the same requests through several scenarios: gains, what they cost, net.

    Or through one scenario with techniques switched off and on: the effect of each, and how they work together.
    """
    from servetwin.studies.compare.document import build_document
    from servetwin.studies.compare.running import run_variants
    from servetwin.studies.compare.same_requests import check_same_workload
    from servetwin.studies.compare.variants import Question, plan_variants
    from servetwin.studies.compare.writing import RUNS, draw, write
    from servetwin.studies.processes import signals_wait
    from servetwin.studies.run_options import RunOptions
    from servetwin.studies.writable import check_folder

    options.load_policies(plugin)
    question = Question(
        scenarios, changes or (), changes_for or (), toggle or (), one_by_one=one_by_one, baseline=baseline, seed=seed
    )
    variants = plan_variants(question, options.open_catalog(catalog))
    check_same_workload(variants)
    folder = out or default_out("compare")
    check_folder(folder)
    run_options = RunOptions(
        catalog=tuple(catalog or ()), plugins=tuple(plugin or ()), strict=strict, jobs=jobs or cpus()
    )
    with progress_bar("comparing", "runs", quiet=quiet) as show:
        progress = (lambda ended, planned: show(ended, planned, "runs")) if show else None
        finished = run_variants(variants, seeds, run_options, progress, out=folder / RUNS, timeline=timeline)
    with signals_wait() as came:
        answer = build_document(variants, finished) if finished.seeds else None
        if answer is not None:
            write(answer, folder)
    number = next(iter(came), finished.signal_number)
    with showing(f"the comparison is in {folder}"):
        if answer is not None and not no_figures and number is None:
            draw(answer, folder)
        if answer is not None:
            _print(answer, folder, quiet=quiet, as_json=json)
    if number is not None:
        raise Interrupted(_kept(finished, folder), number)


def _print(answer: dict[str, Any], out: Path, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        from json import dumps

        print(dumps(answer, indent=2, allow_nan=False, ensure_ascii=False))
    elif not quiet:
        from servetwin.report.compare import print_comparison

        print_comparison(answer)
        print(f"\nwritten to {printable(str(out))}")


def _kept(finished: Finished, out: Path) -> str:
    runs = f"interrupted after {finished.ended:,} of {finished.planned:,} runs"
    if not finished.seeds:
        return f"{runs}: no seed has gone through all variants, so there is nothing to compare"
    number = len(finished.seeds)
    return f"{runs}: the comparison of {number:,} {'seed' if number == 1 else 'seeds'} is in {out}, without a picture"
