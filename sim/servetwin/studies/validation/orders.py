"""Whether deployments that were measured under the same load come out in the right order."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Any, Literal

from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.plan import Plan
from servetwin.studies.validation.scoring import Entry

KINDS = ("pd", "pd_sweep")
"""The kinds whose cases compare deployments."""

NOISE = {"ttft_ms.mean": 12.0, "tpot_ms.mean": 16.0, "itl_ms.mean": 16.0, "e2e_ms.mean": 16.0}
"""The metrics that are compared, and by how much repetitions of a run differ in them where a comparison has none: the
largest of the only series that was repeated (README.md beside the public cases: largest less smallest over the mean)
[%]. Tokens per second are not compared: at a given rate of requests they are how long the last of them take."""

_REPETITION = re.compile(r"run_\d+")
_REPETITIONS = "repetitions"


@dataclass(slots=True)
class _Contest:
    """Deployments under the same load: by stage, metric and deployment, the pairs measured and predicted."""

    ids: dict[str, None] = field(default_factory=dict)
    figures: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )


def orders(todo: Plan, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Every pair of deployments that was measured under the same load, with both figures and a verdict.

    The deployments are stages of a case that say so (``Point.deployment``), or cases that share model, hardware,
    precision and workload; repetitions count as one stage. A pair is a ``tie`` where the measured figures differ by no
    more than repetitions of a run do; else the simulator is ``right`` or ``wrong`` about which is smaller.

    Args:
        todo: the plan.
        entries: what was measured and predicted.
    """
    rows = []
    for contest in _contests(todo, entries).values():
        for (stage, metric), deployments in contest.figures.items():
            noise = _noise(metric, deployments)
            for a, b in combinations(deployments, 2):
                rows.append(_row(contest, stage, metric, (a, deployments[a]), (b, deployments[b]), noise))
    return rows


def _contests(todo: Plan, entries: Sequence[Entry]) -> dict[str, _Contest]:
    named = {
        (case_index, point.stage): point.deployment
        for case_index, trial in todo.trials
        for point in trial.points
        if point.deployment
    }
    found: dict[str, _Contest] = {}
    for entry in entries:
        case = todo.cases[entry.case_index]
        if case.kind not in KINDS or entry.metric not in NOISE or entry.predicted is None:
            continue
        deployment = named.get((entry.case_index, entry.stage))
        key = case.id if deployment else _load(case)
        contest = found.setdefault(key, _Contest())
        contest.ids[case.id] = None
        stage = _REPETITIONS if deployment is None and _REPETITION.fullmatch(entry.stage) else entry.stage
        place = ("all", entry.metric) if deployment else (stage, entry.metric)
        contest.figures[place][deployment or case.id].append((entry.measured, entry.predicted))
    return found


def _load(case: Case) -> str:
    """What cases share whose deployments were measured under the same load."""
    fields: Mapping[str, Any] = case.fields
    shared = [fields.get(name) for name in ("model", "hardware", "precision", "workload")]
    return json.dumps(shared, sort_keys=True)


def _noise(metric: str, deployments: Mapping[str, Sequence[tuple[float, float]]]) -> float:
    """By how much repetitions of a run differ [%]."""
    spreads = []
    for pairs in deployments.values():
        measured = [pair[0] for pair in pairs]
        if len(measured) > 1:
            spreads.append(100.0 * (max(measured) - min(measured)) / fmean(measured))
    return max(spreads, default=NOISE[metric])


_Figures = tuple[str, Sequence[tuple[float, float]]]


def _row(contest: _Contest, stage: str, metric: str, one: _Figures, other: _Figures, noise: float) -> dict[str, Any]:
    measured = [fmean(pair[0] for pair in pairs) for _, pairs in (one, other)]
    predicted = [fmean(pair[1] for pair in pairs) for _, pairs in (one, other)]
    return {
        "ids": list(contest.ids), "stage": stage, "metric": metric, "deployments": [one[0], other[0]],
        "measured": measured, "predicted": predicted, "noise_pct": noise, "verdict": _verdict(measured, predicted,
        noise),
    }  # fmt: skip


def _verdict(measured: Sequence[float], predicted: Sequence[float], noise: float) -> Literal["right", "wrong", "tie"]:
    if abs(measured[0] - measured[1]) <= noise / 100.0 * fmean(measured):
        return "tie"
    return "right" if (measured[0] - measured[1]) * (predicted[0] - predicted[1]) > 0 else "wrong"
