"""The terminal tables of ``servetwin check``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from servetwin.errors import printable
from servetwin.report.check_rows import ASSERTIONS, METRICS, SECTIONS, beside, counts, found, metric_rows, verdict
from servetwin.report.layout import QUIET, plain, warning_lines

_COLOURS = {"passed": "bold green", "failed": "bold red", "not finished": "bold yellow"}


def print_check(document: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what came of a check.

    Args:
        document: its document.
        console: where to print; standard output if not given.
    """
    (console or Console(highlight=False)).print(check_view(document))


def check_view(document: Mapping[str, Any]) -> Group:
    """The tables, for a rich console of any width."""
    parts: list[RenderableType] = [_heading(document), Text(), _entries(document)]
    failed = [one for one in document["assertions"] if not one["passed"]]
    if failed:
        lines = [(one["name"], one["assertion"], found(one)) for one in failed]
        parts += [Text(), *_titled("does not hold", ASSERTIONS, lines, texts=3)]
    for key, title in SECTIONS:
        rows, left_out = metric_rows(document, key)
        if rows:
            parts += [Text(), *_titled(title, METRICS, rows, texts=2)]
        if left_out:
            parts.append(Text(f"and {left_out:,} more, all of them with --json or in check.json", style=QUIET))
    texts = beside(document)
    if texts:
        parts += [Text(), *warning_lines(texts)]
    return Group(*parts)


def _heading(document: Mapping[str, Any]) -> Text:
    word = verdict(document)
    text = Text()
    text.append(f"suite {document['suite']}: ", style="bold")
    text.append(word, style=_COLOURS[word])
    text.append(f"  {counts(document)}", style=QUIET)
    if document["description"]:
        text.append(f"\n{printable(document['description'])}", style=QUIET)
    return text


def _entries(document: Mapping[str, Any]) -> Table:
    rows = []
    for entry in document["entries"]:
        own = {key: sum(row["name"] == entry["name"] for row in document[key]) for key, _ in SECTIONS}
        asserted = [one for one in document["assertions"] if one["name"] == entry["name"]]
        holding = f"{sum(one['passed'] for one in asserted)} of {len(asserted)}" if asserted else "–"
        figures = [f"{own[key]:,}" if entry["compared"] else "–" for key in ("regressions", "improvements", "unclear")]
        rows.append((entry["name"], "passed" if entry["passed"] else "failed", f"{len(entry['seeds'])}", holding,
                     f"{len(entry['compared']):,}", *figures))  # fmt: skip
    rows += [(name, "not finished", *("–" for _ in range(6))) for name in document["unfinished"]]
    table = _table(("scenario", "", "seeds", "hold", "compared", "worse", "better", "unclear"), [], texts=2)
    for name, word, *cells in rows:
        table.add_row(Text(printable(name)), Text(word, style=_COLOURS[word].removeprefix("bold ")), *cells)
    return table


def _titled(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int
) -> Iterable[RenderableType]:
    yield Text(title, style="bold")
    yield _table(columns, rows, texts=texts)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int) -> Table:
    table = plain()
    for place, column in enumerate(columns):
        text = place < texts
        table.add_column(column, justify="left" if text else "right", overflow="fold", no_wrap=not text)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table
