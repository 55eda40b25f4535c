"""Which cases a family of engines is fitted to, and what they have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.studies.overheads.effects import METRICS
from servetwin.studies.overheads.runs import PointEffects
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.plan import make_plan
from servetwin.studies.validation.scoring import is_scored
from servetwin.studies.validation.trial import Trial

KINDS = ("serving", "concurrency_sweep")
"""Kinds of cases that say how long steps and first tokens take in a running engine."""

SET = "vllm-0.15.1"
"""Of the serving cases, those with recorded settings: the others are engines without them, or saturated."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A case, its points and what it belongs to.

    Attributes:
        case: the case.
        points: what was measured and simulated of it.
        hardware: its GPU in the catalogue.
        architecture: its model, without precision.
    """

    case: Case
    points: tuple[PointEffects, ...]
    hardware: str
    architecture: str

    def with_metric(self, metric: str) -> list[PointEffects]:
        """The points at which a metric was measured."""
        return [point for point in self.points if metric in point.measured]


def trials_of_family(cases: Sequence[Case], catalog: Catalog, family: str, every: int = 1) -> list[tuple[Case, Trial]]:
    """The runs of the cases of a family of engines that count.

    Args:
        cases: the cases of a file.
        catalog: where models and GPUs are.
        family: ``vllm``, ``sglang`` or ``trtllm``.
        every: of the runs of a case, only each so many-th; its first always.

    Raises:
        InputError: there is none.
    """
    chosen = [
        case for case in cases
        if case.usable and case.kind in KINDS and (case.kind != "serving" or case.set_name == SET)
    ]  # fmt: skip
    plan = make_plan(chosen, catalog)
    found = [
        (plan.cases[index], trial) for index, trial in plan.trials
        if trial.scenario["engine"]["name"] == family and trial.scenario["cluster"].get("replicas", 1) == 1
    ]  # fmt: skip
    if not found:
        raise InputError(
            f"the file has no case of {family} that this version can fit",
            allowed=f"usable cases of the kinds {', '.join(KINDS)}, of one replica",
        )
    kept: list[tuple[Case, Trial]] = []
    for name in dict.fromkeys(case.id for case, _ in found):
        kept += [pair for pair in found if pair[0].id == name][::every]
    return kept


def fitted_cases(trials: Sequence[tuple[Case, Trial]], runs: Sequence[tuple[PointEffects, ...]]) -> tuple[Fitted, ...]:
    """The cases of which there is anything to fit, in their order.

    Args:
        trials: the runs, with their cases.
        runs: what came of them.
    """
    points: dict[str, list[PointEffects]] = {}
    about: dict[str, tuple[Case, Trial]] = {}
    for (case, trial), found in zip(trials, runs, strict=True):
        about.setdefault(case.id, (case, trial))
        points.setdefault(case.id, []).extend(point for point in found if is_scored(case, point.stage))
    return tuple(
        Fitted(case, tuple(points[name]), trial.scenario["cluster"]["hardware"], _architecture(trial))
        for name, (case, trial) in about.items()
        if any(metric in point.measured for metric in METRICS for point in points[name])
    )


def _architecture(trial: Trial) -> str:
    """The model of a trial, without the precision that its name in the catalogue may say."""
    return re.sub(r"-(fp8|nvfp4|fp4|int4|mxfp4|bf16)(-dynamic)?$", "", str(trial.scenario["model"]))
