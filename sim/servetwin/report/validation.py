"""The terminal tables of ``servetwin validate``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from servetwin.errors import printable
from servetwin.report.markdown import signed
from servetwin.report.validation_rows import LABELS, Groups, cases_by, main_only, shown, wide_rows

_QUIET = "dim"

_NARROW = ("e2e_ms.p99", "transfer_ms.mean", "speedup")
"""Metrics of the short tables for which a terminal has no room; speed-ups have a table of their own."""

_SECTIONS = (
    ("sets", "set", "set {}"), ("kinds", "kind", "{}"), ("engines", "engine", "engine {}"),
    ("architectures", "architecture", "{} models"), ("hardware", "hardware", "{}"),
)  # fmt: skip
"""What the table of errors is divided into: key of the document, column of the cases, how a row is called."""


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
    parts += [Text(), _errors(document)]
    if document["peers"]:
        parts += [Text(), _peers(document["peers"])]
    if document["speedups"]:
        parts += [Text(), _speedups(document["speedups"])]
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


def _errors(document: Mapping[str, Any]) -> Table:
    """One row a group, so that a screen shows all of them."""
    metrics = shown({name: found for key, _, _ in _SECTIONS for name, found in document[key].items()}, _NARROW)
    sections = []
    for key, column, title in _SECTIONS:
        cases = cases_by(document["scores"], column)
        rows = wide_rows(document[key], metrics, _absolute_and_signed, cases)
        sections += [[(title.format(name), *cells) for name, *cells in rows]] if rows else []
    columns = ("", *(LABELS[metric] for metric in metrics), "n")
    return _table("mean absolute error over cases, and mean signed error [%]", columns, sections, texts=1)


def _peers(peers: Groups) -> Table:
    groups = {simulator: metrics for simulator, metrics in main_only(peers).items() if metrics}
    metrics = shown(groups, _NARROW)
    columns = ("", *(LABELS[metric] for metric in metrics), "n")
    rows = [wide_rows(groups, metrics, _theirs_and_ours)]
    return _table("other simulators, and servetwin on the same figures [%]", columns, rows, texts=1)


def _speedups(scores: Mapping[str, Any]) -> Table:
    rows = [
        (
            f"acceptance {how}", f"{found['mae']:.3f}", f"{found['bias']:+.3f}", str(found["n"]),
            str(len(found["wrong_side"])),
        )
        for how in ("measured", "inferred")
        if (found := scores[how])["n"]
    ]  # fmt: skip
    columns = ("", "absolute", "signed", "points", "wrong side of 1")
    return _table("speed-ups by drafts, errors in units of the speed-up", columns, [rows], texts=1)


def _worst(worst: Sequence[Mapping[str, Any]]) -> Table:
    rows = [(row["id"], row["metric"], _percent(row["mape"]), _signed(row["signed_mean"])) for row in worst]
    return _table("furthest off", ("case", "metric", "error", "signed"), [rows], texts=2)


def _reasons(not_yet: Sequence[Mapping[str, Any]]) -> Table:
    counts: dict[str, int] = {}
    for row in not_yet:
        counts[row["reason"]] = counts.get(row["reason"], 0) + 1
    rows = [(reason, str(count)) for reason, count in sorted(counts.items(), key=lambda item: -item[1])]
    return _table("not yet possible", ("why", "cases"), [rows], texts=1)


def _table(title: str, columns: Sequence[str], sections: Iterable[Iterable[Sequence[str]]], *, texts: int) -> Table:
    """A table, with an empty line between sections."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(
            column, justify="left" if place < texts else "right", header_style=_QUIET, overflow="fold",
            no_wrap=place >= texts,
        )  # fmt: skip
    for number, rows in enumerate(sections):
        if number:
            table.add_row()
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _absolute_and_signed(row: Mapping[str, Any]) -> str:
    return f"{row['mape_mean']:,.1f} {signed(row['signed_mean'])}"


def _theirs_and_ours(row: Mapping[str, Any]) -> str:
    return f"{row['mape_mean']:,.1f} / {row['servetwin_mape_mean']:,.1f}"


def _percent(value: float) -> str:
    return f"{value:,.1f} %"


def _signed(value: float) -> str:
    return f"{value:+,.1f} %"
