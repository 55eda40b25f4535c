"""What terminal and Markdown say of a check, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servetwin.report.units import number

Row = Mapping[str, Any]

_MOST_ROWS = 10
"""Metrics of one scenario that a table names; the document has them all."""

_MOST_DOUBTFUL_ROWS = 3
"""The same of a table that decides nothing."""

METRICS = ("scenario", "metric", "baseline", "now", "change", "tolerance")
"""Columns of a table of metrics."""

ASSERTIONS = ("scenario", "assertion", "found")

SECTIONS = (
    ("regressions", "worse than the baseline"),
    ("improvements", "improved: update the baseline"),
    ("unclear", "worse on average, but not beyond the noise: more seeds would tell"),
    ("changed_metrics", "changed, neither for the better nor for the worse"),
)
"""Tables of metrics: key of the document, title."""


def counted(amount: int, word: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{amount:,} {word}{'' if amount == 1 else 's'}"


def verdict(document: Row) -> str:
    """The verdict in a word."""
    if document["passed"]:
        return "passed"
    failed = document["regressions"] or not all(one["passed"] for one in document["assertions"])
    return "failed" if failed else "not finished"


def counts(document: Row) -> str:
    """How much was checked."""
    entries = document["entries"]
    parts = [
        counted(len(entries) + len(document["unfinished"]), "scenario"),
        counted(sum(len(entry["seeds"]) for entry in entries), "run"),
        counted(len(document["assertions"]), "assertion"),
        f"{counted(sum(len(entry['compared']) for entry in entries), 'metric')} compared",
    ]
    return ", ".join(parts)


def found(assertion: Row) -> str:
    """What an assertion came to with the worst of its seeds."""
    values = ", ".join(f"{key} = {number(value)}" for key, value in assertion["values"].items())
    if assertion["seeds"] == 1:
        return f"{values} (seed {assertion['worst_seed']})"
    failed = len(assertion["failed_seeds"])
    of = f"; fails with {failed} of {assertion['seeds']} seeds" if failed else ""
    return f"{values} (seed {assertion['worst_seed']}, the worst{of})"


def change(row: Row) -> str:
    """A difference with its interval, in per cent where it can be."""
    if row["before"] is None or row["after"] is None:
        return "no longer defined" if row["after"] is None else "newly defined"
    if row["relative"] is None:
        text = f"{row['after'] - row['before']:+.4g}"
        return text if row["low"] is None else f"{text} [{row['low']:+.4g}, {row['high']:+.4g}]"
    text = f"{100 * row['relative']:+.2f}%"
    return text if row["low"] is None else f"{text} [{100 * row['low']:+.2f}, {100 * row['high']:+.2f}]"


def tolerance(row: Row) -> str:
    """What was tolerated."""
    relative, absolute = row["tolerance"]["relative"], row["tolerance"]["absolute"]
    texts = [f"{100 * relative:g}%"] if relative or not absolute else []
    return " or ".join([*texts, *([number(absolute)] if absolute else [])])


def metric_rows(document: Row, key: str) -> tuple[list[tuple[str, ...]], int]:
    """The rows of a table of metrics, the first few of each scenario; and how many are left out.

    Args:
        document: the document.
        key: one of ``SECTIONS``.
    """
    rows: Sequence[Row] = document[key]
    if key == "unclear":
        # What is least likely to be noise comes first.
        rows = sorted(rows, key=_noise)
    most = _MOST_ROWS if key == "regressions" else _MOST_DOUBTFUL_ROWS
    shown: list[tuple[str, ...]] = []
    for name in dict.fromkeys(row["name"] for row in document[key]):
        for row in [row for row in rows if row["name"] == name][:most]:
            values = (number(row["before"]), number(row["after"]), change(row), tolerance(row))
            shown.append((name, row["metric"], *values))
    return shown, len(rows) - len(shown)


def _noise(row: Row) -> float:
    """The width of the interval against the difference."""
    if row["low"] is None or row["before"] is None or row["after"] is None:
        return float("inf")
    size = row["after"] - row["before"] if row["relative"] is None else row["relative"]
    return float((row["high"] - row["low"]) / abs(size)) if size else float("inf")


def beside(document: Row) -> list[str]:
    """Sentences that stand beside the verdict: what has changed in what was run, and what to know."""
    texts = []
    for one in document["changed_scenarios"]:
        before, after = (_plain(one[side]) for side in ("before", "after"))
        if one["what"] == "scenario":
            texts.append(f"{one['name']}: the scenario has changed since the baseline was made ({before}, now {after})")
        else:
            texts.append(f"{one['name']}: {one['what']} of the baseline {before}, now {after}")
    for note in document["notes"]:
        texts.append(note["text"] if note["name"] is None else f"{note['name']}: {note['text']}")
    for one in document["updated_baselines"]:
        texts.append(f"{one['name']}: {one['file']} {'written' if one['changed'] else 'is as it was'}")
    if document["unfinished"]:
        texts.append(f"not finished: {', '.join(document['unfinished'])}")
    return texts


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
