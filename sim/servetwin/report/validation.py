"""The terminal tables of ``servetwin validate``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from servetwin.errors import printable
from servetwin.report.validation_rows import Groups, error_rows, main_only

_QUIET = "dim"


def print_validation(document: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the answer of ``validate``.

    Args:
        document: its document.
        console: where to print; standard output if not given.
    """
    (console or Console(highlight=False)).print(validation_view(document))


def validation_view(document: Mapping[str, Any]) -> Group:
    """The tables, for a rich console of any width."""
    parts: list[RenderableType] = [_heading(document["counts"], document["seed"])]
    groups = {**{f"set {name}": table for name, table in document["sets"].items()}, **document["kinds"]}
    parts += [Text(), _errors(groups)]
    if document["peers"]:
        parts += [Text(), _peers(document["peers"])]
    if document["worst"]:
        parts += [Text(), _worst(document["worst"])]
    if document["counts"]["not_yet"]:
        parts += [Text(), _reasons(document["not_yet"])]
    return Group(*parts)


def _heading(counts: Mapping[str, Any], seed: int) -> Text:
    text = Text()
    text.append(f"{counts['cases']:,} cases", style="bold")
    text.append(
        f": {counts['scored']:,} scored, {counts['not_yet']:,} not yet possible, {counts['excluded']:,} excluded "
        f"({counts['runs']:,} of {counts['runs_planned']:,} runs, seed {seed})"
    )
    return text


def _errors(groups: Groups) -> Table:
    rows = error_rows(main_only(groups), (_mean, _median, lambda row: _signed(row["signed_mean"]), _number))
    return _table(
        "absolute error over cases", ("", "metric", "mean", "median", "signed", "n"), _named_once(rows), texts=2
    )


def _peers(peers: Groups) -> Table:
    groups = {simulator: metrics for simulator, metrics in main_only(peers).items() if metrics}
    rows = error_rows(groups, (_mean, _median, lambda row: _percent(row["servetwin_mape_mean"]), _number))
    columns = ("", "metric", "mean", "median", "servetwin mean", "n")
    return _table("other simulators on the same cases", columns, _named_once(rows), texts=2)


def _named_once(rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """The rows, each group named in its first one only."""
    last = None
    for group, *cells in rows:
        yield ("" if group == last else group, *cells)
        last = group


def _worst(worst: Sequence[Mapping[str, Any]]) -> Table:
    rows = [(row["id"], row["metric"], _percent(row["mape"]), _signed(row["signed_mean"])) for row in worst]
    return _table("furthest off", ("case", "metric", "error", "signed"), rows, texts=2)


def _reasons(not_yet: Sequence[Mapping[str, Any]]) -> Table:
    counts: dict[str, int] = {}
    for row in not_yet:
        counts[row["reason"]] = counts.get(row["reason"], 0) + 1
    rows = [(reason, str(count)) for reason, count in sorted(counts.items(), key=lambda item: -item[1])]
    return _table("not yet possible", ("why", "cases"), rows, texts=1)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(
            column, justify="left" if place < texts else "right", header_style=_QUIET, overflow="fold",
            no_wrap=place >= texts,
        )  # fmt: skip
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _mean(row: Mapping[str, Any]) -> str:
    return _percent(row["mape_mean"])


def _median(row: Mapping[str, Any]) -> str:
    return _percent(row["mape_median"])


def _number(row: Mapping[str, Any]) -> str:
    return str(row["n"])


def _percent(value: float) -> str:
    return f"{value:,.1f} %"


def _signed(value: float) -> str:
    return f"{value:+,.1f} %"
