"""What other simulators predicted: of the same cases, and as published."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servetwin.errors import TraceError
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.scoring import SUMMARY, Entry, mape
from servetwin.studies.validation.trial import metrics_of

PUBLISHED = "accuracy_by_simulator.csv"
"""The file beside the cases with what was published of the accuracy of simulators."""

_NUMBERS = ("n_experiments", "mape_mean_pct", "mape_median_pct", "mape_p90_pct", "mean_signed_error_pct")
_COLUMNS = ("case_set", "simulator", "metric", *_NUMBERS)
_FIRST_300 = "summary_first300"


def peers(cases: Sequence[Case], entries: Sequence[Entry]) -> dict[str, dict[str, dict[str, float | int]]]:
    """The errors of other simulators by simulator and metric, each with ours on the very same figures.

    A peer is compared over whole runs (or over the first 300 requests, where that is what it simulated), on the cases
    for which both it and servetwin have a prediction.

    Args:
        cases: the cases.
        entries: what was measured and predicted.
    """
    ours = {(entry.case_index, entry.stage, entry.metric): entry for entry in entries}
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for case_index, case in enumerate(cases):
        for simulator, stages in case.peers.items():
            for stage in (SUMMARY, _FIRST_300):
                found = stages.get(stage) if isinstance(stages, Mapping) else None
                for metric, value in _flat(found).items():
                    entry = ours.get((case_index, stage, metric))
                    if entry is not None and entry.error_pct is not None:
                        error = 100.0 * (value / entry.measured - 1.0)
                        pairs[simulator, metric].append((error, entry.error_pct))
    answer: dict[str, dict[str, dict[str, float | int]]] = {}
    for (simulator, metric), errors in sorted(pairs.items()):
        theirs = mape([(abs(peer), peer) for peer, _ in errors])
        own = mape([(abs(mine), mine) for _, mine in errors])
        answer.setdefault(simulator, {})[metric] = {
            **theirs,
            "servetwin_mape_mean": own["mape_mean"],
            "servetwin_mape_median": own["mape_median"],
        }
    return answer


def _flat(found: Any) -> dict[str, float]:
    """The figures of a stage, whether as ``{"ttft_ms.mean": 1}`` or as ``{"ttft_ms": {"mean": 1}}``."""
    if not isinstance(found, Mapping):
        return {}
    nested: dict[str, Any] = {}
    for name, value in found.items():
        metric, dot, statistic = str(name).partition(".")
        if dot:
            nested.setdefault(metric, {})[statistic] = value
        else:
            nested[metric] = value
    return metrics_of(nested)


def published(file: Path) -> list[dict[str, Any]]:
    """The rows of the table beside a file of cases; none if there is no such table.

    Args:
        file: the file of cases.

    Raises:
        TraceError: the table cannot be read.
    """
    path = file.parent / PUBLISHED
    if not path.is_file():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        return [
            {**{name: row[name] for name in _COLUMNS[:3]}, **{name: float(row[name]) for name in _NUMBERS}}
            for row in rows
        ]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise TraceError(
            f"the table of other simulators cannot be read: {error}", file=str(path), allowed=", ".join(_COLUMNS)
        ) from None
