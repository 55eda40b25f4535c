"""Fitting the constants of a family of engines, and what they are worth on cases that they were not fitted to.

Each case runs once in full; of each run it is worked out what one unit of each constant would add to its mean TPOT and
TTFT (``effects``), so that the fit itself is a small linear problem. Starting again from its result checks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.scenario.engines import CALIBRATIONS
from servetwin.specs import Calibration
from servetwin.studies.overheads.constants import CONSTANTS
from servetwin.studies.overheads.effects import METRICS
from servetwin.studies.overheads.fit import Row, fit
from servetwin.studies.overheads.groups import Fitted, fitted_cases, trials_of_family
from servetwin.studies.overheads.runs import Progress, run_all
from servetwin.studies.overheads.write import family_text
from servetwin.studies.run_options import RunOptions
from servetwin.studies.validation.cases import CaseFile

WEIGHTS = {"tpot_ms.mean": 1.0, "ttft_ms.mean": 0.2}
"""How much a case counts in each metric: TTFT depends on waiting, which few constants explain."""

POLLING = ("sglang",)
"""Families whose TTFT counts nothing: the public runs of SGLang look for new requests every 10 or 30 steps only
(``--scheduler-recv-interval`` in InferenceMAX's launch commands), which is a setting and no overhead."""

SOFT = {"tpot_ms.mean": 0.03, "ttft_ms.mean": 0.1}
"""Relative errors from which a case counts linearly instead of squared."""

GUESSED = 0.05
"""What a sweep counts beside recorded runs, by the inverse of their variances: repeated runs of the latter differ by 1
to 2 %, while sweeps, whose settings are read from launch commands of about their date, scatter by 8 %."""

HELD = 0.3
"""Weight of staying at the constants to start from, as a share of a case: it decides what no case does, and which of
two constants moves that do nearly the same; with less of it, leaving out a GPU costs more. A measured all-reduce is
known best (``Constant.far``)."""

NOTHING = 0.01
"""A constant below this share of what it may be wrong by is none."""

LEAST_CASES = 3
"""Groups with fewer cases are not left out."""


@dataclass(frozen=True, slots=True)
class Score:
    """Errors over cases in a metric [%]: the mean absolute one, the median and the signed mean, and their number."""

    mean: float
    median: float
    signed: float
    n: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A group of cases that was left out of the fit.

    Attributes:
        what: ``hardware`` or ``model``.
        name: which.
        n: its cases.
        without: its mean absolute error of TPOT with constants fitted without it [%].
        fitted: the same with constants fitted with it [%].
    """

    what: str
    name: str
    n: int
    without: float
    fitted: float

    @property
    def ratio(self) -> float:
        """What leaving it out costs: 1 = nothing."""
        return self.without / self.fitted


@dataclass(frozen=True)
class FamilyFit:
    """The constants of a family.

    Attributes:
        family: which.
        start: the calibration to start from.
        start_file: where it stands.
        values: the constants by name [s], or shares.
        before: by kind or set and metric, the errors with the constants to start from.
        after: the same with the new ones.
        left_out: groups that were left out in turn; empty = not asked for.
        cases: how many cases it rests on.
    """

    family: str
    start: Calibration
    start_file: Path
    values: dict[str, float]
    before: dict[tuple[str, str], Score]
    after: dict[tuple[str, str], Score]
    left_out: tuple[LeftOut, ...]
    cases: int

    def error(self) -> str:
        """How well the constants fit, in words."""
        said = [
            f"{metric.split('_')[0].upper()} of {group}: {score.mean:.1f}% mean, {score.median:.1f}% median over "
            f"{score.n} cases"
            for (group, metric), score in self.after.items()
        ]
        return "errors, " + "; ".join(said)

    def text(self, *, name: str, source: str, date: str) -> str:
        """The calibration file: that to start from with the new constants.

        Args:
            name: its name; where it is that of the start the aliases stay.
            source: what it was fitted to.
            date: when, ``YYYY-MM-DD``.
        """
        return family_text(
            self.start_file.read_text(encoding="utf-8"), self.values,
            name=None if name == self.start.name else name, source=f"{source}; {self.error()}", date=date,
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """Plain data for JSON; times in seconds, errors in percent."""
        return {
            "engine": self.family,
            "start": self.start.name,
            "cases": self.cases,
            "constants": {
                constant.name: {"before": constant.of(self.start), "after": self.values[constant.name]}
                for constant in CONSTANTS
            },
            "errors_pct": [
                {"of": group, "metric": metric, "before": _plain(self.before[group, metric]), "after": _plain(score)}
                for (group, metric), score in self.after.items()
            ],
            "left_out": [
                {
                    "what": item.what, "name": item.name, "n": item.n, "tpot_pct_without": item.without,
                    "tpot_pct_fitted": item.fitted, "ratio": item.ratio,
                }
                for item in self.left_out
            ],
        }  # fmt: skip


def calibrate_serving(
    cases: CaseFile, catalog: Catalog, family: str, options: RunOptions, *, start: str | None = None,
    leave_one_out: bool = False, every: int = 1, held: float = HELD, progress: Progress | None = None,
) -> FamilyFit:  # fmt: skip
    """Fit the constants of a family of engines to measured cases.

    Parameters
    ----------
    cases : the cases; those that their file calls unusable are left out
    catalog : where models, GPUs and calibrations are
    family : ``vllm``, ``sglang`` or ``trtllm``
    options : what holds for every run
    start : the calibration to start from; None = that of the family
    leave_one_out : whether to fit again without each GPU and each model
    every : of the points of a sweep, run only each so many-th, to save time
    held : weight of staying at the constants to start from, as a share of a case
    progress : told after each run

    Raises
    ------
    InputError
        where there is no case of the family
    """
    name = start or CALIBRATIONS[family]
    calibration = catalog.calibration(name)
    file = Path(catalog.describe("calibrations", name)["file"])
    trials = trials_of_family(cases.cases, catalog, family, every)
    origin = [constant.of(calibration) for constant in CONSTANTS]
    changed = replace(options, changes=(*options.changes, f"physics.calibration={name}"))
    fitted = fitted_cases(trials, run_all([trial for _, trial in trials], changed, progress))
    values = solve(fitted, origin, family, held)
    left_out = tuple(_leave_out(fitted, origin, values, family, held)) if leave_one_out else ()
    found = {constant.name: value for constant, value in zip(CONSTANTS, values, strict=True)}
    return FamilyFit(
        family, calibration, file, found, scores(fitted, origin, origin), scores(fitted, origin, values), left_out,
        len(fitted),
    )  # fmt: skip


def solve(fitted: Sequence[Fitted], origin: Sequence[float], family: str, held: float = HELD) -> list[float]:
    """The constants that fit these cases best, rounded as a file has them.

    Args:
        fitted: the cases, run with the constants ``origin``.
        origin: in the order of ``CONSTANTS`` [s], or shares.
        family: of which engines.
        held: weight of staying at ``origin``, as a share of a case.
    """
    rows = []
    recorded = any(item.case.set_name for item in fitted)
    for item in fitted:
        trust = GUESSED if recorded and item.case.set_name is None else 1.0
        for metric in METRICS[:1] if family in POLLING else METRICS:
            points = item.with_metric(metric)
            rows += [
                Row(
                    point.effects.predicted[metric], point.effects.slopes[metric], point.measured[metric],
                    WEIGHTS[metric] * trust / len(points), SOFT[metric],
                )
                for point in points
            ]  # fmt: skip
    bounds = [(0.0, constant.most) for constant in CONSTANTS]
    found = fit(rows, origin, bounds, [constant.far for constant in CONSTANTS], held)
    return [
        float(f"{value / constant.unit_s:.3g}") * constant.unit_s if value > NOTHING * constant.far else 0.0
        for constant, value in zip(CONSTANTS, found, strict=True)
    ]


def scores(fitted: Sequence[Fitted], origin: Sequence[float], values: Sequence[float]) -> dict[tuple[str, str], Score]:
    """Errors by kind or set and metric with the constants ``values``.

    Args:
        fitted: the cases, run with the constants ``origin``.
        origin, values: in the order of ``CONSTANTS``.
    """
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for item in fitted:
        for metric in METRICS:
            errors = case_errors(item, metric, origin, values)
            if errors:
                group = item.case.set_name or item.case.kind
                groups.setdefault((group, metric), []).append((fmean(map(abs, errors)), fmean(errors)))
    return {
        key: Score(fmean(a for a, _ in pairs), median(a for a, _ in pairs), fmean(s for _, s in pairs), len(pairs))
        for key, pairs in groups.items()
    }


def case_errors(item: Fitted, metric: str, origin: Sequence[float], values: Sequence[float]) -> list[float]:
    """The signed errors of the points of a case [%]."""
    steps = [value - start for value, start in zip(values, origin, strict=True)]
    return [
        100.0 * (point.effects.at(metric, steps) / point.measured[metric] - 1.0) for point in item.with_metric(metric)
    ]


def _leave_out(
    fitted: Sequence[Fitted], origin: Sequence[float], values: Sequence[float], family: str, held: float
) -> list[LeftOut]:
    """Each GPU and each model with enough cases, left out of the fit in turn."""
    found = []
    for what in ("hardware", "model"):
        names = [item.hardware if what == "hardware" else item.architecture for item in fitted]
        for name in sorted(set(names)):
            group = [item for item, own in zip(fitted, names, strict=True) if own == name]
            rest = [item for item, own in zip(fitted, names, strict=True) if own != name]
            if len(group) < LEAST_CASES or not rest:
                continue
            without = solve(rest, origin, family, held)
            found.append(LeftOut(what, name, len(group), _tpot(group, origin, without), _tpot(group, origin, values)))
    return found


def _tpot(group: Sequence[Fitted], origin: Sequence[float], values: Sequence[float]) -> float:
    """The mean absolute error of TPOT over cases [%]."""
    each = [case_errors(item, "tpot_ms.mean", origin, values) for item in group]
    return fmean(fmean(map(abs, errors)) for errors in each if errors)


def _plain(score: Score) -> dict[str, float | int]:
    return {"mean": score.mean, "median": score.median, "signed": score.signed, "n": score.n}
