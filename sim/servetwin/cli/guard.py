"""What becomes of an exception: a message in red, an exit code, and a traceback for those who ask for it."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from servetwin.errors import InputError, Interrupted

OK = 0
BAD_INPUT = 2
BUG = 70
INTERRUPTED = 130

TRACEBACK = "SERVETWIN_TRACEBACK"
"""The environment variable that asks for tracebacks."""

_MOST_LINES = 24

P = ParamSpec("P")


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose exceptions become messages and exit codes."""

    @wraps(command)
    def guard(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except (SystemExit, typer.Exit, typer.Abort):
            raise
        except BaseException as error:
            if type(error).__module__.startswith(("click", "typer")):
                raise
            raise typer.Exit(report(error)) from None

    return guard


def report(error: BaseException) -> int:
    """Say what happened on stderr; returns the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else BAD_INPUT
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        return _reader_is_gone()
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    if isinstance(error, InputError):
        say(f"error: {error}", red=True)
        return BAD_INPUT
    if isinstance(error, Interrupted):
        say(str(error), red=True)
        return INTERRUPTED
    if isinstance(error, KeyboardInterrupt):
        say("interrupted before the simulation had finished: there are no results", red=True)
        return INTERRUPTED
    say(
        f"internal error: {type(error).__name__}: {error}\n"
        "  this is a bug in servetwin, please report it with the command and the scenario\n"
        f"  for the traceback, run it again with {TRACEBACK}=1",
        red=True,
    )
    return BUG


def say(text: str, *, red: bool = False) -> None:
    """Print to stderr, in red on a terminal; long texts are cut to one screen."""
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"  … and {len(lines) - _MOST_LINES + 1} more lines"]
    text = "\n".join(lines)
    if red and sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        text = f"\033[31m{text}\033[0m"
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # Nobody can read the message; the exit code has to do.
        return


def _reader_is_gone() -> int:
    """The reader of a pipe has seen enough (``| head``), which is no mistake."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return OK
