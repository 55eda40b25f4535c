"""``servetwin validate``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servetwin.cli import options
from servetwin.cli.guard import say
from servetwin.cli.processes import cpus
from servetwin.cli.progress import progress_bar
from servetwin.errors import Interrupted, printable

if TYPE_CHECKING:
    from servetwin.studies.run_options import RunOptions

_OUT = typer.Option(
    "--out",
    metavar="DIR",
    parser=options.folder,
    help="Write report.md, errors.csv and validate.json there; by default nothing is written.",
)


def validate(
    cases: Annotated[Path, typer.Argument(help="The file of measured cases (JSON).", metavar="CASES.json")],
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="K", help="Only cases of this kind; may be repeated.")
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="ID", help="Only this case; may be repeated.")
    ] = None,
    out: Annotated[Path | None, _OUT] = None,
    jobs: options.Jobs = None,
    seed: options.Seed = None,
    changes: options.Set = None,
    catalog: options.CatalogDir = None,
    plugin: options.Plugin = None,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Score against measured cases: run each of them and compare.

    Every case of the file is turned into scenarios and run. What this version cannot simulate is listed with the
    reason; cases that their file calls unusable are left out.
    """
    from servetwin.studies.run_options import RunOptions
    from servetwin.studies.validation.cases import read_case_file
    from servetwin.studies.validation.document import build_document
    from servetwin.studies.validation.peers import published
    from servetwin.studies.validation.plan import make_plan
    from servetwin.studies.validation.running import run_plan
    from servetwin.studies.validation.writing import write

    options.load_policies(plugin)
    known = options.open_catalog(catalog)
    chosen = read_case_file(cases).choose(kind or (), case or ())
    table = published(cases)
    todo = make_plan(chosen, known)
    run_options = RunOptions(
        seed=seed,
        changes=tuple(changes or ()),
        catalog=tuple(catalog or ()),
        plugins=tuple(plugin or ()),
        strict=strict,
        jobs=jobs or cpus(),
    )
    with progress_bar("validating", "runs", quiet=quiet) as show:
        progress = (lambda ended, planned: show(ended, planned, "runs")) if show else None
        finished = run_plan(todo, run_options, progress)
    if finished.signal_number is not None:
        # What has ended is worth more than the seconds that writing it takes.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer = build_document(
        todo, finished, seed=seed, published=table, changes=changes or (), date=datetime.now(UTC).date().isoformat(),
        command=_command(cases, kind or (), case or (), run_options),
    )  # fmt: skip
    if out is not None:
        write(answer, out)
    _print(answer, out, quiet=quiet, as_json=json)
    if finished.signal_number is not None:
        where = f"in {out}" if out is not None else "above" if not quiet or json else "lost: there is no --out"
        raise Interrupted(
            f"interrupted after {len(finished.outcomes):,} of {len(todo.trials):,} runs: what was finished is {where}",
            finished.signal_number,
        )


def _print(answer: dict[str, Any], out: Path | None, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        from json import dumps

        print(dumps(answer, indent=2, allow_nan=False, ensure_ascii=False))
    elif not quiet:
        from servetwin.report.validation import print_validation

        print_validation(answer)
        if out is not None:
            print(f"\nwritten to {printable(str(out))}")
    if answer["unpredicted"] and not quiet:
        say(f"warning: {len(answer['unpredicted']):,} points of scored cases have no prediction (see unpredicted)")
    sys.stdout.flush()


def _command(cases: Path, kinds: Sequence[str], ids: Sequence[str], run_options: RunOptions) -> list[str]:
    """The words of the command line that gives the same answer."""
    given: list[tuple[str, Sequence[object]]] = [
        ("--kind", kinds), ("--case", ids), ("--seed", [] if run_options.seed is None else [run_options.seed]),
        ("--set", run_options.changes), ("--catalog", run_options.catalog), ("--plugin", run_options.plugins),
    ]  # fmt: skip
    words = [word for option, values in given for value in values for word in (option, str(value))]
    return ["servetwin", "validate", str(cases), *words, *(["--strict"] if run_options.strict else [])]
