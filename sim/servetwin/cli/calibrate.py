"""``servetwin calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from servetwin.cli import options
from servetwin.cli.guard import guarded, say
from servetwin.cli.processes import cpus
from servetwin.errors import InputError, nearest_name

app = typer.Typer(
    name="calibrate", help="Fit the constants of a calibration to measurements.", no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def kernels(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The folder of the tables: kernels_KIND_GPU.csv, KIND as listed above."),
    ],
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="G", help="Fit this GPU only, by default every GPU with tables.")
    ] = None,
    base: Annotated[
        str, typer.Option("--base", metavar="NAME", help="The calibration that all other constants come from.")
    ] = "default",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a calibration file with the new curves.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="TEXT", help="Who measured the kernels, for the file, by default DIR."),
    ] = None,
    date: Annotated[
        str | None,
        typer.Option("--date", metavar="YYYY-MM-DD", help="Date of the fit, for the file, by default today."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="FILE", help="Write the residuals as Markdown, into their place in a page."),
    ] = None,
    catalog: options.CatalogDir = None,
    json: options.Json = False,
) -> None:
    """Fit curves of kernels: how near to the data sheet matrix products, experts and attention come, by GPU and type.

    KIND is gemm, moe, decode_attention or prefill_attention; kernels_allreduce_intranode.csv and
    kernels_collectives_other.csv are scored only, for a GPU profile holds measured collectives. A third of the shapes
    is left out of the fit and judges it; rows whose operands sit in the L2 cache count for neither.
    """
    if out is None and (source is not None or date is not None):
        name = "--source" if source is not None else "--date"
        raise typer.BadParameter("it goes into the file that --out writes, and there is none", param_hint=name)
    if date is not None:
        _check_date(date)
    from servetwin.studies.calibration.page import put_into_page
    from servetwin.studies.calibration.residuals import markdown, plain
    from servetwin.studies.calibration.study import calibrate_kernels

    fits = calibrate_kernels(folder, options.open_catalog(catalog), gpu=gpu, base=base)
    if table is not None:
        put_into_page(table, markdown(fits.residuals))
    if out is not None:
        from servetwin.studies.calibration.write import write_file

        write_file(out, fits.text(name=out.stem, source=source or f"kernel tables in {folder}", date=date or _today()))
    if json:
        from json import dumps

        written = str(out) if out else None
        print(dumps({**fits.document(), "file": written}, indent=2, allow_nan=False, ensure_ascii=False))
        return
    print(plain(fits.residuals))
    print(f"\n{fits.error()}")
    for name, text in fits.collectives.items():
        print(f"\nthe profile of {name} lacks collectives; measured ones for it, with source and date to be added:")
        print(text)
    if out is not None:
        print(f"\nwritten to {out}; use it with: --set physics.calibration={out}")
    for path in (table,) if table else ():
        say(f"residuals written to {path}")


def serving(
    cases: Annotated[Path, typer.Argument(metavar="CASES.json", help="The file of measured cases (JSON).")],
    engine: Annotated[
        str, typer.Option("--engine", metavar="NAME", help="The family of engines: vllm, sglang or trtllm.")
    ] = "vllm",
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="NAME", help="The calibration to start from, by default the family's."),
    ] = None,
    leave_one_out: Annotated[
        bool,
        typer.Option("--leave-one-out", help="Fit again without each GPU and each model, and say what that costs."),
    ] = False,
    every: Annotated[
        int, typer.Option("--every", metavar="N", min=1, help="Run only each N-th point of a sweep, to save time.")
    ] = 1,
    held: Annotated[
        float | None,
        typer.Option(
            "--held",
            metavar="W",
            min=1e-6,
            help="Weight of staying at the constants to start from, as a share of a case; less for another engine.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a calibration file with the new constants.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="TEXT", help="Who measured the cases, for the file, by default CASES.json."),
    ] = None,
    date: Annotated[
        str | None,
        typer.Option("--date", metavar="YYYY-MM-DD", help="Date of the fit, for the file, by default today."),
    ] = None,
    jobs: options.Jobs = None,
    catalog: options.CatalogDir = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Fit the constants of a family of engines: what it adds to its kernels, in each step and for each request.

    The usable cases of the family in CASES.json run once; each case counts once, in TPOT and, less, in TTFT. No
    constant is of a model. What is printed are the constants and the errors, before and after; start again from the
    written file to check them.
    """
    if out is None and (source is not None or date is not None):
        name = "--source" if source is not None else "--date"
        raise typer.BadParameter("it goes into the file that --out writes, and there is none", param_hint=name)
    if date is not None:
        _check_date(date)
    from servetwin.cli.progress import progress_bar
    from servetwin.scenario.engines import CALIBRATIONS
    from servetwin.studies.calibration.write import write_file
    from servetwin.studies.overheads.study import HELD, calibrate_serving
    from servetwin.studies.overheads.table import plain
    from servetwin.studies.run_options import RunOptions
    from servetwin.studies.validation.cases import read_case_file

    if engine not in CALIBRATIONS:
        raise InputError(
            "there is no such family of engines", path="--engine", found=engine, allowed=list(CALIBRATIONS),
            nearest=nearest_name(engine, CALIBRATIONS),
        )  # fmt: skip
    run_options = RunOptions(catalog=tuple(catalog or ()), jobs=jobs or cpus())
    with progress_bar("calibrating", "runs", quiet=quiet) as show:
        found = calibrate_serving(
            read_case_file(cases), options.open_catalog(catalog), engine, run_options, start=base,
            leave_one_out=leave_one_out, every=every,
            held=HELD if held is None else held,
            progress=(lambda ended, planned: show(ended, planned, "runs")) if show else None,
        )  # fmt: skip
    if out is not None:
        write_file(out, found.text(name=out.stem, source=source or f"cases of {cases}", date=date or _today()))
    if json:
        from json import dumps

        written = str(out) if out else None
        print(dumps({**found.document(), "file": written}, indent=2, allow_nan=False, ensure_ascii=False))
        return
    if not quiet:
        print(plain(found))
    if out is not None:
        print(f"\nwritten to {out}; use it with: --set physics.calibration={out}")


def _check_date(text: str) -> None:
    from datetime import date

    try:
        date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"a date is expected, YYYY-MM-DD, found {text!r}", param_hint="--date") from None


def _today() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).date().isoformat()


app.command("kernels")(guarded(kernels))
app.command("serving")(guarded(serving))
