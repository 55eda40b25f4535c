"""What ``sweep`` prints: a row for each run, or for each point that would be run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from rich.console import Console
from rich.text import Text

from servetwin.errors import printable, shorten
from servetwin.report.layout import plain

_MOST_ROWS = 40
_LONGEST = 60


def print_rows(
    fields: Sequence[str], metrics: Sequence[str], rows: Iterable[tuple[Sequence[Any], Sequence[Any], str]], number: int
) -> None:
    """Print the runs of a sweep, as many as a reader takes in.

    Args:
        fields: the swept fields.
        metrics: the metrics beside them.
        rows: the values of the fields, those of the metrics, and what else is to be said of each run.
        number: of rows.
    """
    table = plain()
    for name in _short(fields):
        table.add_column(printable(name), justify="right")
    for metric in metrics:
        table.add_column(metric, justify="right")
    table.add_column("")
    for values, figures, remark in islice(rows, _MOST_ROWS):
        cells = [*(_text(value) for value in values), *(_figure(value) for value in figures)]
        table.add_row(*map(Text, cells), Text(shorten(remark, _LONGEST)))
    console = Console(highlight=False)
    console.print(table)
    if number > _MOST_ROWS:
        console.print(f"… and {number - _MOST_ROWS:,} more", style="dim")


def _short(paths: Sequence[str]) -> list[str]:
    """The last names of the paths, as many as tell them apart."""
    names = list(paths)
    for index, path in enumerate(paths):
        parts = path.split(".")
        for length in range(1, len(parts) + 1):
            end = ".".join(parts[-length:])
            if sum(f".{other}".endswith(f".{end}") for other in paths) == 1:
                names[index] = end
                break
    return names


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return shorten("–" if value is None else str(value), 40)


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
