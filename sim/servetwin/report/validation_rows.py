"""What the tables of ``servetwin validate`` have in common, on a terminal and in Markdown: their metrics and rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

MAIN = (
    "ttft_ms.mean", "ttft_ms.p99", "tpot_ms.mean", "e2e_ms.mean", "e2e_ms.p99", "transfer_ms.mean", "output_throughput",
    "speedup",
)  # fmt: skip
"""The metrics of the short tables."""

LABELS = {
    "ttft_ms.mean": "TTFT", "ttft_ms.p99": "TTFT p99", "tpot_ms.mean": "TPOT", "e2e_ms.mean": "E2E",
    "e2e_ms.p99": "E2E p99", "transfer_ms.mean": "transfer", "output_throughput": "tokens/s", "speedup": "speedup",
}  # fmt: skip
"""What heads the columns of wide tables, for each of ``MAIN``."""

_TRAITS = ("hardware", "model", "precision", "engine")

TEXTS = 1 + len(_TRAITS)
"""Columns of text in the table of ``case_rows``."""

Groups = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Errors by group (a kind, a set, a simulator) and metric."""

Cell = Callable[[Mapping[str, Any]], str]
"""The text of a cell, from the errors of a metric."""


def ordered(metrics: Iterable[str]) -> list[str]:
    """Metrics, those of the short tables first."""
    return sorted(metrics, key=lambda metric: (MAIN.index(metric) if metric in MAIN else len(MAIN), metric))


def main_only(groups: Groups) -> Groups:
    """The groups with no metrics but those of the short tables."""
    return {group: {m: row for m, row in metrics.items() if m in MAIN} for group, metrics in groups.items()}


def error_rows(groups: Groups, cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """A row for each metric of each group: group, metric, cells. Of a group without metrics, a row that says so.

    Args:
        groups: the errors.
        cells: what stands behind the metric; the last one is the number of cases.
    """
    rows: list[tuple[str, ...]] = []
    for group, metrics in groups.items():
        rows += [(group, metric, *(cell(metrics[metric]) for cell in cells)) for metric in ordered(metrics)]
        if not metrics:
            rows.append((group, "–", *("–" for _ in cells[1:]), "0"))
    return rows


def shown(groups: Groups, left_out: Sequence[str] = ()) -> list[str]:
    """Those of ``MAIN`` that any of the groups has: the columns of a wide table.

    Args:
        groups: the errors.
        left_out: metrics for which there is no room.
    """
    found = {metric for metrics in groups.values() for metric in metrics}
    return [metric for metric in MAIN if metric in found and metric not in left_out]


def wide_rows(
    groups: Groups, metrics: Sequence[str], cell: Cell, cases: Mapping[str, int] | None = None
) -> list[tuple[str, ...]]:
    """A row for each group: group, a cell for each metric, the number of cases.

    Args:
        groups: the errors.
        metrics: the columns.
        cell: the text for the errors of a metric.
        cases: how many cases a group has; where not given, those of the metric that most of them have.
    """
    return [
        (
            group,
            *(cell(found[metric]) if metric in found else "–" for metric in metrics),
            str(max((row["n"] for row in found.values()), default=0) if cases is None else cases.get(group, 0)),
        )
        for group, found in groups.items()
    ]


def cases_by(scores: Iterable[Mapping[str, Any]], column: str) -> dict[str, int]:
    """How many of the scored cases have each value of a column, such as ``engine``."""
    return Counter(row[column] for row in scores)


def case_rows(
    scores: Sequence[Mapping[str, Any]], primary: Mapping[str, str], number: Callable[[float], str]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """The scored cases, a row each: the names of the columns, and the rows.

    Behind the signed errors stands the absolute error by which the cases of a kind are ordered, which counts where
    points of opposite sign cancel.

    Args:
        scores: the scored cases, see ``build_document``.
        primary: the metric that orders the cases of a kind.
        number: the text of a signed error.
    """
    metrics = shown({row["id"]: row["errors"] for row in scores})
    head = ["case", *_TRAITS, *(LABELS[metric] for metric in metrics), "absolute", "points"]
    rows = []
    for row in scores:
        errors = row["errors"]
        main = errors.get(primary.get(row["kind"], ""))
        rows.append((
            row["id"], *(row[trait] for trait in _TRAITS),
            *(number(errors[metric]["signed_mean"]) if metric in errors else "–" for metric in metrics),
            f"{main['mape']:,.1f}" if main else "–", str(max(found["points"] for found in errors.values())),
        ))  # fmt: skip
    return head, rows
