"""The trace formats that servetwin reads, and how to tell which one a file has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from servetwin.errors import TraceError, nearest_name
from servetwin.workload.traces.azure import AzureFormat
from servetwin.workload.traces.bailian import BailianFormat
from servetwin.workload.traces.burstgpt import BurstGptFormat
from servetwin.workload.traces.columns import COLUMNS
from servetwin.workload.traces.format import FileFormat, TraceFormat
from servetwin.workload.traces.mooncake import MooncakeFormat
from servetwin.workload.traces.own_table import OwnTable
from servetwin.workload.traces.servegen import ServeGenFormat
from servetwin.workload.traces.splitwise import SplitwiseFormat
from servetwin.workload.traces.vidur import VidurFormat

AUTO = "auto"

AnyFormat = TraceFormat | FileFormat

F = TypeVar("F", bound=AnyFormat)

_FORMATS: dict[str, AnyFormat] = {}


def register(trace_format: AnyFormat) -> None:
    """Make a format known under its name.

    Raises:
        ValueError: the name is taken.
    """
    if trace_format.name in (AUTO, COLUMNS) or trace_format.name in _FORMATS:
        raise ValueError(f"there is already a trace format called {trace_format.name!r}")
    _FORMATS[trace_format.name] = trace_format


def formats() -> list[AnyFormat]:
    """All known formats that are told by their content, in the order of registration."""
    return list(_FORMATS.values())


def check_name(name: str) -> None:
    """Refuse a name that no format has.

    Raises:
        ValueError: the message lists those that exist.
    """
    known = [AUTO, *_FORMATS, COLUMNS]
    if name not in known:
        near = nearest_name(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"unknown trace format {name!r}, known are {', '.join(known)}{hint}")


def find(name: str) -> AnyFormat:
    """The format called ``name``.

    Raises:
        KeyError: no format has that name.
    """
    return _FORMATS[name]


def detect_file(path: Path, head: bytes, shown: str) -> FileFormat | None:
    """The format of a file or folder that is no text, None if no such format recognises it.

    Args:
        path: where it is.
        head: its first bytes, decompressed; empty for a folder.
        shown: its name, for messages.
    """
    known = [entry for entry in _FORMATS.values() if isinstance(entry, FileFormat)]
    return _only([entry for entry in known if entry.recognises_file(path, head)], shown)


def detect(line: str, shown: str) -> TraceFormat:
    """The format of a text file whose first non-blank line is ``line``.

    Args:
        line: that line.
        shown: the file's name, for the message.

    Raises:
        TraceError: no format recognises it, or several do.
    """
    known = [entry for entry in _FORMATS.values() if not isinstance(entry, FileFormat)]
    found = _only([entry for entry in known if entry.recognises(line)], shown)
    if found is not None:
        return found
    raise TraceError(
        "the file is no trace in a format that servetwin reads",
        file=shown,
        path="line 1",
        found=line,
        nearest=_nearest(line),
        hint=f"looked for {looked_for(_FORMATS.values())}\n"
        f"           any other CSV or JSON lines: say with workload.trace.columns what its columns are",
    )


def looked_for(entries: Iterable[AnyFormat]) -> str:
    """The layouts of formats, a line each."""
    return "".join(f"\n           {entry.name}: {_short(entry.layout)}" for entry in entries).lstrip("\n").lstrip()


def _nearest(line: str) -> str | None:
    """The CSV format that a header comes closest to, and what it lacks; None if it has less than half of any."""
    cells = {cell.strip() for cell in line.split(",")}
    best: tuple[float, str] | None = None
    for entry in _FORMATS.values():
        columns: Sequence[str] = getattr(entry, "columns", ())
        share = len(cells & set(columns)) / max(len(columns), 1)
        if share >= 0.5 and (best is None or share > best[0]):
            missing = ", ".join(column for column in columns if column not in cells)
            best = (share, f"{entry.name}, but there is no column {missing}")
    return best[1] if best else None


def _short(layout: str) -> str:
    return layout if len(layout) <= 110 else layout[:109] + "…"


def _only(found: Sequence[F], shown: str) -> F | None:
    if len(found) > 1:
        names = [entry.name for entry in found]
        raise TraceError(
            "the file could be a trace in several formats",
            file=shown,
            found=", ".join(names),
            allowed="one that only one format fits, or workload.trace.format to say which",
            hint=f"looked for {looked_for(found)}",
        )
    return found[0] if found else None


_BUNDLED: tuple[AnyFormat, ...] = (
    AzureFormat(),
    MooncakeFormat(),
    BailianFormat(),
    BurstGptFormat(),
    VidurFormat(),
    SplitwiseFormat(),
    ServeGenFormat(),
    OwnTable(),
)
for _entry in _BUNDLED:
    register(_entry)
