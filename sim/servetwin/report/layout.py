"""How the terminal tables look, in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from servetwin.errors import printable

QUIET = "dim"


def plain(*, header: bool = True) -> Table:
    """A table without a frame and without columns; its header, if it has one, is quiet."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=header, header_style=QUIET)


def facts() -> Table:
    """A table of names, figures and remarks; each row stands on its own, so nothing breaks in a narrow terminal."""
    table = plain(header=False)
    table.add_column(style=QUIET)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style=QUIET)
    return table


def warning_lines(warnings: Iterable[str]) -> Iterator[Table]:
    """Each warning behind its mark, indented where it wraps."""
    for warning in warnings:
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_row(Text("!", style="bold yellow"), Text(printable(warning), style="yellow"))
        yield grid
