"""Plug-ins: Python files and installed packages that register policies when they are imported."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from servetwin.errors import ScenarioError, nearest_name

ENTRY_POINT_GROUP = "servetwin.policies"
_MODULE_PREFIX = "servetwin_plugin_"


def load_plugins(files: Iterable[Path] = (), *, installed: bool = True) -> None:
    """Import the plug-ins, which register their policies on import.

    Args:
        files: Python files given with ``--plugin``.
        installed: whether to load the entry points of the group ``servetwin.policies`` too.

    Raises:
        ScenarioError: a file is missing or cannot be imported.
    """
    if installed:
        _load_entry_points()
    for file in files:
        _load_file(Path(file))


def _load_entry_points() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            with _own_exits_only():
                point.load()
        except (Exception, SystemExit, PlugInExit) as error:
            raise ScenarioError(
                f"the installed plug-in '{point.name}' cannot be loaded: {_in_words(error)}",
                found=point.value,
            ) from error


def _load_file(file: Path) -> None:
    if not file.is_file():
        neighbours = [entry.name for entry in file.parent.glob("*.py")] if file.parent.is_dir() else []
        raise ScenarioError(
            "there is no such plug-in file",
            file=str(file),
            allowed="a Python file that registers policies",
            nearest=nearest_name(file.name, neighbours),
        )
    # The module's name says where it came from, so that loading one file twice replaces its policies.
    name = f"{_MODULE_PREFIX}{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ScenarioError("a plug-in must be a Python file", file=str(file), allowed="a file named *.py")
    module = importlib.util.module_from_spec(spec)
    # Annotations of pydantic classes are looked up in the module, which must therefore be importable by its name.
    sys.modules[name] = module
    try:
        with _own_exits_only():
            spec.loader.exec_module(module)
    except (Exception, SystemExit, PlugInExit) as error:
        cause = error.__cause__ if isinstance(error, PlugInExit) and error.__cause__ is not None else error
        raise ScenarioError(
            f"the plug-in cannot be loaded: {_in_words(error)}", file=str(file), path=_line_in(cause, file)
        ) from error


class PlugInExit(BaseException):
    """A plug-in raised ``KeyboardInterrupt`` although nobody pressed Ctrl-C."""


@contextmanager
def _own_exits_only() -> Iterator[None]:
    """Tell the user's Ctrl-C, which is passed on, from a ``KeyboardInterrupt`` that a plug-in raises itself."""
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.default_int_handler(number, frame)

    usual = threading.current_thread() is threading.main_thread()
    usual = usual and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, press)
    try:
        yield
    except KeyboardInterrupt as error:
        if pressed or not usual:
            raise
        raise PlugInExit from error
    finally:
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_words(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it ends the program (SystemExit: {error.code})"
    if isinstance(error, PlugInExit):
        return "it raises KeyboardInterrupt"
    return f"{type(error).__name__}: {error}"


def plugin_behind(error: BaseException) -> str | None:
    """The file of the plug-in that raised an error, or caused the error that was raised from it; None if none did."""
    cause: BaseException | None = error
    while cause is not None:
        trace = cause.__traceback__
        while trace is not None:
            if str(trace.tb_frame.f_globals.get("__name__", "")).startswith(_MODULE_PREFIX):
                return trace.tb_frame.f_code.co_filename
            trace = trace.tb_next
        cause = cause.__cause__
    return None


def _line_in(error: BaseException, file: Path) -> str | None:
    """The last line of ``file`` that an exception passed through."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}"
    trace, line = error.__traceback__, None
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == file.absolute():
            line = f"line {trace.tb_lineno}"
        trace = trace.tb_next
    return line
