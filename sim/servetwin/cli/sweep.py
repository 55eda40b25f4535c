"""``servetwin sweep``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.guard import say, showing
from servetwin.cli.processes import cpus
from servetwin.cli.progress import progress_bar
from servetwin.errors import InputError, Interrupted, printable, shorten

if TYPE_CHECKING:
    from servetwin.studies.sweep.file import SweepFile
    from servetwin.studies.sweep.folder import Folder
    from servetwin.studies.sweep.points import Plan
    from servetwin.studies.sweep.running import Outcome

_ENGINES = ("local",)
_LONGEST_TITLE = 72
"""What fits on a picture."""
_OUT = typer.Option(
    "--out", metavar="DIR", parser=options.folder, help="Where to write the results, by default runs/SWEEP-TIME."
)


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep file (YAML).", metavar="SWEEP.yaml")],
    out: Annotated[Path | None, _OUT] = None,
    jobs: options.Jobs = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take over from --out what has ended there; run the rest.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the points, and how many would be skipped; run nothing.")
    ] = False,
    engine: Annotated[str, typer.Option("--engine", metavar="NAME", help="What runs the points: local.")] = "local",
    seed: options.Seed = None,
    changes: options.Set = None,
    catalog: options.CatalogDir = None,
    plugin: options.Plugin = None,
    no_figures: options.NoFigures = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Run a scenario at many points: every combination of the fields' values, or points drawn from ranges.

    Writes a table with a row per run, the summary of each run, and pictures. A run that fails has a row that says so;
    the exit code is 1 when all of them do.
    """
    from servetwin.scenario.unbuilt import check_choice
    from servetwin.studies.sweep.file import read_sweep
    from servetwin.studies.sweep.folder import Folder
    from servetwin.studies.sweep.running import run_sweep

    check_choice("--engine", engine, _ENGINES)
    if resume and out is None:
        raise InputError("what is to be resumed lies in a folder", path="--resume", allowed="--resume --out DIR")
    options.load_policies(plugin)
    wanted = read_sweep(file)
    plan = _plan(wanted, file, options.overrides(seed, changes), catalog, plugin, strict=strict, quiet=quiet)
    folder = Folder(out or _default_out(file))
    equal = None if quiet else plan.without_difference()
    if equal is not None:
        say(f"warning: {equal}")
    if dry_run:
        _print_plan(plan, folder if resume else None, as_json=json, quiet=quiet)
        return
    with progress_bar("sweeping", "runs", quiet=quiet) as show:
        progress = (lambda ended, todo: show(ended, todo, "runs")) if show else None
        outcome = run_sweep(plan, folder, jobs=jobs or cpus(), resume=resume, progress=progress)
    drawn = not no_figures and outcome.signal_number is None
    undrawn = drawn and wanted.plots is None
    with showing(f"the table of all runs is {folder.table}"):
        pictures = _draw(wanted, file, plan, folder) if drawn else []
        _print(plan, folder, outcome, pictures, undrawn=undrawn, as_json=json, quiet=quiet)
    if outcome.signal_number is not None:
        raise Interrupted(
            f"interrupted after {outcome.runs:,} of {len(plan.points):,} runs: what was finished is in {folder.out}, "
            f"and --resume --out {folder.out} goes on from there",
            outcome.signal_number,
        )
    if outcome.runs == len(outcome.failures):
        raise typer.Exit(1)


def _plan(
    wanted: SweepFile,
    file: Path,
    given: Sequence[Any],
    catalog: list[Path] | None,
    plugin: list[Path] | None,
    *,
    strict: bool,
    quiet: bool,
) -> Plan:
    """The runs, each checked."""
    from servetwin.studies.sweep.design import Design
    from servetwin.studies.sweep.plots import check_plots
    from servetwin.studies.sweep.points import Source, changes_of, make_plan, reference_of

    known = options.open_catalog(catalog)
    design = Design(wanted, str(file))
    changed = changes_of(wanted, given, str(file))
    reference = reference_of(wanted, file, known)
    source = Source(str(file), reference, design.fields, changed, tuple(catalog or ()), tuple(plugin or ()), strict)
    check_plots(wanted, [*design.fields, *(["run.seed"] if wanted.replications > 1 else [])], str(file))
    with progress_bar("checking", "points", quiet=quiet) as show:
        return make_plan(wanted, source, design, known, (lambda a, b: show(a, b, "points")) if show else None)


def _default_out(file: Path) -> Path:
    from servetwin.cli.simulate import default_out
    from servetwin.scenario.schema import name_of

    return default_out(name_of(file.stem))


def _draw(wanted: SweepFile, file: Path, plan: Plan, folder: Folder) -> list[Path]:
    from servetwin.studies.sweep.plots import chosen_plots, draw_plots

    plots = chosen_plots(wanted, plan)
    title = shorten(wanted.description, _LONGEST_TITLE) or f"{file.stem}: {plan.scenario.name}"
    return folder.writing(lambda: draw_plots(plots, plan, folder.table, title)) if plots else []


def _print_plan(plan: Plan, folder: Folder | None, *, as_json: bool, quiet: bool) -> None:
    """What would be run."""
    from servetwin.studies.sweep.running import unfinished

    todo = unfinished(plan, folder)
    impossible = [point for point in plan.points if point.key is None]
    there = sum(point.key is not None and point.key not in todo for point in plan.points)
    if as_json:
        from json import dumps

        rows = [{**dict(zip(plan.fields, point.values, strict=True)), "hash": point.key, "error": point.error}
                for point in plan.points]  # fmt: skip
        counts = {"points": len(plan.points), "skipped": plan.skipped, "finished": there, "impossible": len(impossible),
                  "to_run": len(todo)}  # fmt: skip
        print(dumps({"fields": plan.fields, **counts, "rows": rows}, indent=2, allow_nan=False, ensure_ascii=False))
    elif not quiet:
        from servetwin.report.sweep import print_rows

        def remark(key: str | None, error: str | None) -> str:
            return f"cannot exist: {error}" if error else "" if key in todo else "finished"

        rows_to_print = ((point.values, (), remark(point.key, point.error)) for point in plan.points)
        print_rows(plan.fields, (), rows_to_print, len(plan.points))
        print(f"\n{len(plan.points):,} points, {len(todo):,} to run; {plan.skipped:,} skipped by skip_if, {there:,} "
              f"finished before, {len(impossible):,} that cannot exist")  # fmt: skip


def _print(
    plan: Plan, folder: Folder, outcome: Outcome, pictures: Sequence[Path], *, undrawn: bool, as_json: bool, quiet: bool
) -> None:
    failed = len(outcome.failures)
    if as_json:
        _print_json(plan, folder, outcome, pictures)
    elif not quiet:
        from servetwin.report.sweep import print_rows, print_warnings, slo_remark
        from servetwin.studies.sweep.plots import metrics_of, varied
        from servetwin.studies.sweep.table import ERROR, STATUS, column_of, read_rows

        metrics = metrics_of(plan)
        shown = [column_of(metric, plan.fields) for metric in metrics]
        limits = column_of("slo", plan.fields)
        rows = (
            ([row[path] for path in plan.fields], [row[metric] for metric in shown],
             slo_remark(row[limits]) if row[ERROR] is None else f"{row[STATUS]}: {row[ERROR]}")
            for row in read_rows(folder.table)
        )  # fmt: skip
        print_rows(plan.fields, metrics, rows, outcome.runs)
        warnings = column_of("warnings", plan.fields)
        print_warnings(row[warnings] for row in read_rows(folder.table))
        print(f"\n{outcome.runs:,} runs, {outcome.taken:,} of them taken over, {failed:,} failed; "
              f"{plan.skipped:,} skipped by skip_if")  # fmt: skip
        if undrawn and not pictures and len(varied(plan)) > 1:
            print(f"no pictures of {len(varied(plan))} fields that vary: plots in the sweep file says which to draw")
        print(f"written to {printable(str(folder.out))}")
    if failed and not quiet:
        values, error = outcome.failures[0]
        point = ", ".join(f"{path}={value}" for path, value in zip(plan.fields, values, strict=True))
        say(f"warning: {failed:,} of {outcome.runs:,} runs failed, the first at {point}: {error}")


def _print_json(plan: Plan, folder: Folder, outcome: Outcome, pictures: Sequence[Path]) -> None:
    """One document, printed row by row: nobody holds a table of ten thousand rows."""
    from json import dumps

    from servetwin.studies.sweep.table import read_rows

    head = {
        "out": str(folder.out),
        "table": str(folder.table),
        "pictures": [str(path) for path in pictures],
        "fields": plan.fields,
        "points": len(plan.points),
        "skipped": plan.skipped,
        "taken_over": outcome.taken,
        "ok": outcome.runs - len(outcome.failures),
        "failed": len(outcome.failures),
    }
    print(dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}"), end=',\n  "rows": [')
    for number, row in enumerate(read_rows(folder.table)):
        print(",\n    " if number else "\n    ", dumps(row, allow_nan=False, ensure_ascii=False), sep="", end="")
    print("\n  ]\n}")
