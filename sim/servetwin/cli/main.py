"""``servetwin``: the program, and the promise that a user's mistake never ends in a traceback."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from servetwin.cli import calibrate as calibrate_command
from servetwin.cli import check as check_command
from servetwin.cli import compare as compare_command
from servetwin.cli import explain as explain_command
from servetwin.cli import list as list_command
from servetwin.cli import new as new_command
from servetwin.cli import replay as replay_command
from servetwin.cli import run as run_command
from servetwin.cli import schema as schema_command
from servetwin.cli import show as show_command
from servetwin.cli import sweep as sweep_command
from servetwin.cli import validate as validate_command
from servetwin.cli.guard import guarded, prepare_streams, report

_SHORT_HELP = """\
servetwin simulates a cluster that serves a large language model: latencies, SLOs, where the GPU time goes.

  servetwin run                                       simulate the bundled quickstart scenario
  servetwin run quickstart --set cluster.replicas=2   change anything in it
  servetwin replay TRACE --scenario azure-conversation-4xh100   put a recorded trace through a cluster

  servetwin list scenarios      what there is to run
  servetwin explain quickstart  where the time of a step goes
  servetwin compare A B         the same requests through two scenarios
  servetwin --help              all commands
"""

app = typer.Typer(
    name="servetwin",
    help="A discrete-event simulator of LLM-serving clusters.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 a check or all of a sweep failed, 2 bad input or usage, "
    "130 or 143 interrupted (what was finished is kept).",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from servetwin import __version__, compiled

        print(f"servetwin {__version__} ({'compiled' if compiled.in_use() else 'run from source'})")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version, and how it runs.",
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(_SHORT_HELP, end="")


app.command("run")(guarded(run_command.run))
app.command("replay")(guarded(replay_command.replay))
app.command("compare")(guarded(compare_command.compare))
app.command("sweep")(guarded(sweep_command.sweep))
app.command("check")(guarded(check_command.check))
app.command("explain")(guarded(explain_command.explain))
app.command("validate")(guarded(validate_command.validate))
app.command("list")(guarded(list_command.list_))
app.command("show")(guarded(show_command.show))
app.command("new")(guarded(new_command.new))
app.command("schema")(guarded(schema_command.schema))
app.add_typer(calibrate_command.app)


def main() -> None:
    """Run the program on the command line's arguments; never returns normally."""
    prepare_streams()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BaseException as error:
        sys.exit(report(error))
