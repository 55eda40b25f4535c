"""How well speed-ups by drafts are predicted, apart by whether their acceptance was measured or is inferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from servetwin.studies.validation.plan import Plan
from servetwin.studies.validation.scoring import Entry
from servetwin.studies.validation.trial import Outcome

SPEEDUP = "speedup"

CLEAR = 0.05
"""From so far on a measured speed-up is clearly a gain or a loss."""


def acceptance_of(todo: Plan) -> dict[tuple[int, str], str]:
    """Whether the acceptance of drafts was ``measured`` or is ``inferred``, by case and stage; others are left out."""
    return {
        (case_index, point.stage): trial.acceptance
        for case_index, trial in todo.trials
        if trial.acceptance
        for point in trial.points
    }


def speedup_scores(todo: Plan, entries: Iterable[Entry], outcomes: Mapping[int, Outcome]) -> dict[str, Any]:
    """The errors of predicted speed-ups, in units of the speed-up.

    Returns:
        by ``measured`` and ``inferred``: ``mae`` and ``bias`` (mean absolute and mean signed error), ``n``, and
        ``wrong_side``: points that are measured clearly above or below 1 and predicted on the other side of it; and
        under ``rates`` the acceptance inferred for each series. Empty where there are none.
    """
    acceptance = acceptance_of(todo)
    groups: dict[str, list[tuple[Entry, float]]] = {}
    for entry in entries:
        how = acceptance.get((entry.case_index, entry.stage))
        if how is not None and entry.metric == SPEEDUP and entry.scored and entry.predicted is not None:
            groups.setdefault(how, []).append((entry, entry.predicted))
    rates = {name: rate for trial_index in sorted(outcomes) for name, rate in outcomes[trial_index].inferred.items()}
    if not groups and not rates:
        return {}
    scores: dict[str, Any] = {}
    for how in ("measured", "inferred"):
        found = groups.get(how, [])
        errors = [predicted - entry.measured for entry, predicted in found]
        scores[how] = {
            "mae": fmean(map(abs, errors)) if errors else None,
            "bias": fmean(errors) if errors else None,
            "n": len(errors),
            "wrong_side": [
                {
                    "id": todo.cases[entry.case_index].id, "stage": entry.stage, "predicted": predicted,
                    "measured": entry.measured,
                }
                for entry, predicted in found
                if abs(entry.measured - 1.0) > CLEAR and (entry.measured - 1.0) * (predicted - 1.0) < 0.0
            ],
        }  # fmt: skip
    return {**scores, "rates": rates}
