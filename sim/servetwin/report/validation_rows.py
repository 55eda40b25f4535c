"""What the tables of ``servetwin validate`` have in common, on a terminal and in Markdown: their metrics and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

MAIN = ("ttft_ms.mean", "ttft_ms.p99", "tpot_ms.mean", "e2e_ms.mean", "e2e_ms.p99", "output_throughput", "speedup")
"""The metrics of the short tables."""

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
