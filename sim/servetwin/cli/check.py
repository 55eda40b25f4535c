"""``servetwin check``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.guard import say, showing
from servetwin.cli.processes import cpus
from servetwin.cli.progress import progress_bar
from servetwin.errors import InputError, Interrupted, printable

if TYPE_CHECKING:
    from servetwin.studies.check.plan import Plan
    from servetwin.studies.check.running import Finished

FAILED = 1

_BASELINE = typer.Option(
    "--baseline",
    metavar="DIR",
    parser=options.folder,
    help="The folder of baselines, by default baselines beside the suite.",
)
_OUT = typer.Option(
    "--out",
    metavar="DIR",
    parser=options.folder,
    help="Write check.json, junit.xml, summary.md and the summary of each run there; by default nothing is written.",
)


def check(
    suite: Annotated[
        Path, typer.Argument(help="The suite: scenarios and what must hold (YAML).", metavar="SUITE.yaml")
    ],
    baseline: Annotated[Path | None, _BASELINE] = None,
    update: Annotated[
        bool,
        typer.Option("--update-baseline", help="Write the baselines instead of comparing with them."),
    ] = False,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="F", parser=options.file, help="Write the verdicts as JUnit XML."),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            "--summary", metavar="F", parser=options.file, help="Write a summary in Markdown, for a pull request."
        ),
    ] = None,
    out: Annotated[Path | None, _OUT] = None,
    jobs: options.Jobs = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", min=0, help="Run the seeds N, N+1, … instead of those of the suite."),
    ] = None,
    changes: options.Set = None,
    catalog: options.CatalogDir = None,
    plugin: options.Plugin = None,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Run a suite of scenarios: do their assertions hold, and is any of them worse than its baseline?

    Made for CI: the exit code is 1 if an assertion does not hold or a metric is worse than the baseline by more than
    its tolerance and the noise.
    """
    from servetwin.studies.check.document import build_document, update_baselines
    from servetwin.studies.check.plan import Request, make_plan
    from servetwin.studies.check.running import run_plan
    from servetwin.studies.processes import signals_wait
    from servetwin.studies.run_options import RunOptions

    if update and (seed is not None or changes):
        raise InputError(
            "a baseline holds what the suite says", path="--update-baseline",
            found="--seed" if seed is not None else f"--set {(changes or [''])[0]}",
            allowed="the seeds and fields of the suite: change them there",
        )  # fmt: skip
    options.load_policies(plugin)
    runs = RunOptions(
        seed=seed, changes=tuple(changes or ()), catalog=tuple(catalog or ()), plugins=tuple(plugin or ()),
        strict=strict, jobs=jobs or cpus(),
    )  # fmt: skip
    plan = make_plan(Request(suite, baseline, update, runs), options.open_catalog(catalog))
    _check_writable(plan, out=out, junit=junit, summary=summary)
    started = datetime.now()
    with progress_bar("checking", "runs", quiet=quiet) as show:
        finished = run_plan(plan, show and (lambda ended, all_, name: show(ended, all_, f"runs, {name}")))
    with signals_wait() as came:
        document = build_document(plan, finished)
        if update:
            update_baselines(plan, finished, document)
        _write(document, finished, started, out=out, junit=junit, summary=summary)
    number = next(iter(came), finished.signal_number)
    with showing(f"the runs have ended; {_kept(out, quiet=True)}"):
        _print(document, quiet=quiet, as_json=json, out=out)
    if number is not None:
        planned = sum(len(one.seeds) for one in plan.entries)
        raise Interrupted(
            f"interrupted after {finished.runs:,} of {planned:,} runs: {_kept(out, quiet=quiet and not json)}",
            number,
        )
    if not document["passed"]:
        raise typer.Exit(FAILED)


def _check_writable(plan: Plan, *, out: Path | None, junit: Path | None, summary: Path | None) -> None:
    """Refuse what could not be written, before anything runs."""
    from servetwin.studies.writable import check_file, check_folder

    if junit is not None and junit == summary:
        raise InputError("two files cannot be one", path="--junit, --summary", found=str(junit),
                         allowed="a file for each")  # fmt: skip
    for file in (junit, summary):
        if file is not None:
            check_file(file)
    if plan.request.update:
        check_folder(plan.request.folder / plan.suite.name)
    if out is not None:
        check_folder(out)


def _kept(out: Path | None, *, quiet: bool) -> str:
    if out is not None:
        return f"what was finished is in {out}"
    return "what was finished is lost: there is no --out" if quiet else "what was finished is above"


def _write(
    document: dict[str, Any], finished: Finished, started: datetime, *, out: Path | None, junit: Path | None,
    summary: Path | None,
) -> None:  # fmt: skip
    if out is None and junit is None and summary is None:
        return
    from servetwin.report import check_markdown
    from servetwin.report.junit import junit as as_junit
    from servetwin.studies.check.writing import write_file, write_folder

    seconds = {name: sum(outcome.wall_s for outcome in by_seed.values()) for name, by_seed in finished.outcomes.items()}
    xml, text = as_junit(document, seconds, started), check_markdown.summary(document)
    if out is not None:
        write_folder(out, document, xml, text, finished)
    if junit is not None:
        write_file(junit, xml)
    if summary is not None:
        write_file(summary, text)


def _print(document: dict[str, Any], *, quiet: bool, as_json: bool, out: Path | None) -> None:
    if as_json:
        from servetwin.studies.check.writing import as_json as dumps

        print(dumps(document))
    elif not quiet:
        from servetwin.report.check import print_check

        print_check(document)
        if out is not None:
            print(f"\nwritten to {printable(str(out))}")
    elif not document["passed"] and not document["interrupted"]:
        say(f"the suite {document['suite']} has failed")
