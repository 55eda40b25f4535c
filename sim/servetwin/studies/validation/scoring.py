"""From predictions to errors: by point, by case, by kind and set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from servetwin.studies.validation.cases import Case

SUMMARY = "summary"
"""The stage of a serving case that is scored; its others are shown."""

PRIMARY = {
    "serving": "e2e_ms.mean", "concurrency_sweep": "tpot_ms.mean", "throughput_table": "output_throughput",
    "iteration_profile": "tpot_ms.mean", "pd": "tpot_ms.mean", "kv_cache": "tpot_ms.mean", "pd_sweep": "tpot_ms.mean",
    "spec_decode": "speedup", "spec_decode_cost": "tpot_ms.mean",
}  # fmt: skip
"""The metric by which cases of a kind are ordered."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A metric of a stage of a case.

    Attributes:
        case_index: the place of the case among those chosen.
        stage: the stage.
        metric: the metric.
        measured: what was measured.
        predicted: what was simulated; None = nothing.
        scored: whether it counts.
    """

    case_index: int
    stage: str
    metric: str
    measured: float
    predicted: float | None
    scored: bool

    @property
    def error_pct(self) -> float | None:
        """The signed relative error [%]."""
        return None if self.predicted is None else 100.0 * (self.predicted / self.measured - 1.0)


@dataclass(frozen=True, slots=True)
class CaseError:
    """The error of a case in a metric.

    Attributes:
        case_index: the place of the case among those chosen.
        metric: the metric.
        absolute: mean over its points of the absolute errors [%].
        signed: mean over its points of the signed errors [%].
        points: how many were predicted.
    """

    case_index: int
    metric: str
    absolute: float
    signed: float
    points: int


def is_scored(case: Case, stage: str) -> bool:
    """Whether a stage counts: only the whole run, of serving cases that have it."""
    return case.kind != "serving" or SUMMARY not in case.measured or stage == SUMMARY


def case_errors(entries: Iterable[Entry]) -> list[CaseError]:
    """The error of each case in each metric of which at least half of its points are predicted."""
    groups: dict[tuple[int, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.scored:
            groups[entry.case_index, entry.metric].append(entry)
    found = []
    for (case_index, metric), points in groups.items():
        errors = [entry.error_pct for entry in points if entry.error_pct is not None]
        if errors and 2 * len(errors) >= len(points):
            found.append(CaseError(case_index, metric, fmean(map(abs, errors)), fmean(errors), len(errors)))
    return found


def error_tables(errors: Iterable[CaseError]) -> dict[str, dict[str, float | int]]:
    """MAPE (mean and median over cases), mean signed error [%] and number of cases, by metric."""
    by_metric: dict[str, list[CaseError]] = defaultdict(list)
    for error in errors:
        by_metric[error.metric].append(error)
    return {metric: mape([(e.absolute, e.signed) for e in found]) for metric, found in sorted(by_metric.items())}


def mape(errors: Sequence[tuple[float, float]]) -> dict[str, float | int]:
    """MAPE and signed mean of pairs of an absolute and a signed error.

    >>> mape([(1.0, -1.0), (2.0, 2.0), (6.0, 6.0)])
    {'mape_mean': 3.0, 'mape_median': 2.0, 'signed_mean': 2.3333333333333335, 'n': 3}
    """
    absolute = [pair[0] for pair in errors]
    return {
        "mape_mean": fmean(absolute),
        "mape_median": median(absolute),
        "signed_mean": fmean(pair[1] for pair in errors),
        "n": len(errors),
    }


def worst(cases: Sequence[Case], errors: Iterable[CaseError], most: int = 10) -> list[CaseError]:
    """The cases that are furthest off in the metric that matters for their kind."""
    primary = [error for error in errors if PRIMARY.get(cases[error.case_index].kind) == error.metric]
    return sorted(primary, key=lambda error: (-error.absolute, error.case_index))[:most]


def grouped(names: Mapping[int, str | None], errors: Iterable[CaseError]) -> dict[str, list[CaseError]]:
    """The errors of cases, by a name of the case; cases without one are left out."""
    found: dict[str, list[CaseError]] = {}
    for error in errors:
        name = names.get(error.case_index)
        if name is not None:
            found.setdefault(name, []).append(error)
    return found
