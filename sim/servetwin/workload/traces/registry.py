"""The trace formats that servetwin reads, and how to tell which one a file has."""

from __future__ import annotations

from servetwin.errors import TraceError, nearest_name
from servetwin.workload.traces.azure import AzureFormat
from servetwin.workload.traces.format import TraceFormat
from servetwin.workload.traces.mooncake import MooncakeFormat

AUTO = "auto"

_FORMATS: dict[str, TraceFormat] = {}


def register(trace_format: TraceFormat) -> None:
    """Make a format known under its name.

    Raises:
        ValueError: the name is taken.
    """
    if trace_format.name == AUTO or trace_format.name in _FORMATS:
        raise ValueError(f"there is already a trace format named {trace_format.name!r}")
    _FORMATS[trace_format.name] = trace_format


def formats() -> list[TraceFormat]:
    """All known formats, in the order of registration."""
    return list(_FORMATS.values())


def find(name: str) -> TraceFormat:
    """The format called ``name``.

    Raises:
        ValueError: no format has that name; the message lists those that exist.
    """
    if name not in _FORMATS:
        near = nearest_name(name, [AUTO, *_FORMATS])
        hint = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"unknown trace format {name!r}, known are {', '.join([AUTO, *_FORMATS])}{hint}")
    return _FORMATS[name]


def detect(line: str, shown: str) -> TraceFormat:
    """The format of a file whose first non-blank line is ``line``.

    Args:
        line: that line.
        shown: the file's name, for the message.

    Raises:
        TraceError: no format recognises it.
    """
    for trace_format in _FORMATS.values():
        if trace_format.recognises(line):
            return trace_format
    raise TraceError(
        "the file is no trace in a format that servetwin reads",
        file=shown,
        path="line 1",
        found=line,
        allowed=[f"{known.name}: {known.layout}" for known in _FORMATS.values()],
    )


register(AzureFormat())
register(MooncakeFormat())
