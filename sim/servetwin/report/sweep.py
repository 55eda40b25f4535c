"""What ``sweep`` prints: a row for each run, or for each point that would be run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from servetwin.errors import printable, shorten
from servetwin.report.layout import plain, warning_lines

_MOST_ROWS = 40
_MOST_WARNINGS = 5
_LONGEST = 60
_LONGEST_LINE = 11


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
        table.add_column(_in_two(printable(name)), justify="right", overflow="fold")
    for metric in metrics:
        table.add_column(_in_two(metric), justify="right")
    table.add_column("")
    for values, figures, remark in islice(rows, _MOST_ROWS):
        cells = [*(_text(value) for value in values), *(_figure(value) for value in figures)]
        table.add_row(*map(Text, cells), Text(shorten(remark, _LONGEST)))
    console = Console(highlight=False)
    console.print(table)
    if number > _MOST_ROWS:
        console.print(f"… and {number - _MOST_ROWS:,} more", style="dim")


def slo_remark(verdicts: Mapping[str, Any] | None) -> str:
    """Whether a run keeps all limits of its SLO; nothing where there are none.

    Args:
        verdicts: ``slo`` of its summary.

    >>> slo_remark({"ttft_ms.p99": {"limit": 500, "value": 620.0, "met": False}})
    'SLO missed'
    """
    if not verdicts:
        return ""
    return "SLO met" if all(verdict["met"] for verdict in verdicts.values()) else "SLO missed"


def print_warnings(warnings: Iterable[Sequence[str] | None]) -> None:
    """Print what runs warn of, the most frequent first, and of how many.

    Args:
        warnings: of each run; None = it has failed.
    """
    number, said = 0, Counter[str]()
    for texts in warnings:
        number += 1
        # What stands behind the colon has figures of its own in every run.
        said.update({text.partition(": ")[0] for text in texts or ()})
    if not said:
        return
    lines = [f"{count:,} of {number:,} runs: {text}" for text, count in said.most_common(_MOST_WARNINGS)]
    left_out = len(said) - len(lines)
    others = f", {left_out:,} others too" if left_out else ""
    more = f"in full they are in the column warnings of the table{others}"
    console = Console(highlight=False)
    console.print()
    console.print(Group(*warning_lines([*lines, more])))


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


def _in_two(name: str) -> Text:
    """A long name in two lines, broken at a dot or else in the middle, so that it is no wider than what stands below.

    >>> _in_two("output_tokens_per_s_per_gpu").plain
    'output_tokens\\n_per_s_per_gpu'
    """
    places = [place for place, letter in enumerate(name) if letter == ("." if "." in name else "_")]
    if len(name) <= _LONGEST_LINE or not places:
        return Text(name)
    place = min(places, key=lambda place: abs(2 * place - len(name)))
    return Text(f"{name[:place]}\n{name[place:]}")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return shorten("–" if value is None else str(value), 40)


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
