"""What becomes of an exception: a message in red, an exit code, and a traceback for those who ask for it."""

from __future__ import annotations

import codecs
import errno
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import typer

from servetwin.errors import InputError, Interrupted, printable

OK = 0
BAD_INPUT = 2
BUG = 70
_NO_OUTPUT = (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT)
"""What keeps standard output from being written."""

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
    if isinstance(error, (Interrupted, KeyboardInterrupt)):
        return _report_signal(error)
    if isinstance(error, OSError) and error.filename is None and error.errno in _NO_OUTPUT:
        return _cannot_print(error)
    say(
        f"internal error: {type(error).__name__}: {error}\n"
        "  this is a bug in servetwin, please report it with the command and the scenario\n"
        f"  for the traceback, run it again with {TRACEBACK}=1",
        red=True,
    )
    return BUG


def _report_signal(error: Interrupted | KeyboardInterrupt) -> int:
    """Say what was kept; whoever keeps pressing Ctrl-C meanwhile gets no traceback."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if isinstance(error, Interrupted):
        say(str(error), red=True)
    else:
        say("interrupted before the simulation had finished: there are no results", red=True)
    return 128 + int(getattr(error, "signal_number", signal.SIGINT))


def say(text: str, *, red: bool = False) -> None:
    """Print to stderr, in red on a terminal; long texts are cut to one screen."""
    lines = printable(text).split("\n")
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


@contextmanager
def showing(kept: str) -> Iterator[None]:
    """Around what shows results: a signal is told as what it is, and a reader that leaves changes no exit code.

    Args:
        kept: what there is, and where, for whoever interrupts.
    """
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while results were shown: {kept}") from None
    except BrokenPipeError:
        _drop_output()


def _reader_is_gone() -> int:
    """The reader of a pipe has seen enough (``| head``), which is no mistake."""
    _drop_output()
    return OK


def _cannot_print(error: OSError) -> int:
    """Standard output is full or closed: a line on stderr, and no second try at the end of the program."""
    _drop_output()
    say(f"error: the output cannot be written: {error.strerror}", red=True)
    return BAD_INPUT


def _drop_output() -> None:
    """Send what standard output still holds, and all that follows, nowhere."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = os.fdopen(devnull, "w")


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that was closed before the program started."""

    def write(self, text: str) -> int:
        """Refuse, as a file would."""
        raise OSError(errno.EBADF, "standard output is closed")

    def writable(self) -> bool:
        """Yes, for otherwise nobody would ask it to."""
        return True


def prepare_streams() -> None:
    """Make standard output and error take any text: what an encoding lacks becomes something similar."""
    codecs.register_error("similar", _similar)
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        # Kept open to the end: messages have to go somewhere.
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="similar")


_SIMILAR = {
    "–": "-", "≤": "<=", "≥": ">=", "█": "#", "■": "#", "…": "...", "·": "|", "→": "->", "µ": "u", "×": "x",
    "\u00a0": " ", "─": "-", "│": "|", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "√": "sqrt ",
}  # fmt: skip


def _similar(error: UnicodeError) -> tuple[str | bytes, int]:
    """An error handler for encodings that cannot write what the tables are made of."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SIMILAR.get(character, "?") for character in error.object[error.start : error.end]), error.end
