"""The answer of ``validate`` as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servetwin import __version__
from servetwin.studies.validation.cases import KINDS
from servetwin.studies.validation.orders import orders
from servetwin.studies.validation.peers import peers
from servetwin.studies.validation.plan import Plan
from servetwin.studies.validation.running import Finished
from servetwin.studies.validation.scoring import (
    PRIMARY,
    CaseError,
    Entry,
    case_errors,
    error_tables,
    grouped,
    is_scored,
    worst,
)
from servetwin.studies.validation.speedup_scores import acceptance_of, speedup_scores
from servetwin.studies.validation.trial import Outcome

_GROUPINGS = {"engines": "engine", "hardware": "hardware", "architectures": "architecture"}
"""Keys of the document that hold the errors by a trait of the cases."""


def build_document(
    todo: Plan,
    finished: Finished,
    *,
    seed: int | None = None,
    published: Sequence[Mapping[str, Any]] = (),
    changes: Sequence[str] = (),
    command: Sequence[str] = (),
    date: str | None = None,
) -> dict[str, Any]:
    """Everything that was found: errors by kind, set and case, peers, and the cases without a score.

    Args:
        todo: the plan.
        finished: what came of it.
        seed: of the random streams.
        published: what was published of the accuracy of other simulators.
        changes: overrides of scenario fields.
        command: the words of the command line that gives the same answer.
        date: the day of the runs, as ``2026-11-30``.
    """
    cases = todo.cases
    entries, missing = _entries(todo, finished.outcomes)
    not_yet = {**todo.not_yet, **_without_any(todo, finished.outcomes, missing)}
    errors = [error for error in case_errors(entries) if error.case_index not in not_yet]
    kinds = [kind for kind in KINDS if any(case.kind == kind for case in cases)]
    kinds += sorted({case.kind for case in cases} - set(kinds))
    by_kind = grouped({case_index: case.kind for case_index, case in enumerate(cases)}, errors)
    by_set = grouped({case_index: case.set_name for case_index, case in enumerate(cases)}, errors)
    acceptance = acceptance_of(todo)
    traits = {case_index: found.columns() for case_index, found in todo.traits.items()}
    return {
        "kinds": {kind: error_tables(by_kind.get(kind, ())) for kind in kinds},
        "sets": {name: error_tables(by_set[name]) for name in sorted(by_set, key=lambda name: name == "other")},
        **{plural: _by_trait(trait, traits, errors) for plural, trait in _GROUPINGS.items()},
        "scores": _scores(todo, errors),
        "speedups": speedup_scores(todo, entries, finished.outcomes),
        "orders": orders(todo, entries),
        "cases": [_row(todo, entry, acceptance) for entry in entries if entry.predicted is not None],
        "not_yet": [_left_out(todo, case_index, reason) for case_index, reason in sorted(not_yet.items())],
        "excluded": [_left_out(todo, case_index, _why(todo, case_index)) for case_index in todo.excluded],
        "worst": [
            {
                "id": cases[error.case_index].id, "kind": cases[error.case_index].kind, "metric": error.metric,
                "mape": error.absolute, "signed_mean": error.signed, "points": error.points,
            }
            for error in worst(cases, errors)
        ],
        "peers": peers(cases, entries),
        "published_peers": list(published),
        "per_request": _per_request(todo, finished.outcomes),
        "unpredicted": [
            {"id": cases[case_index].id, "stage": stage, "reason": reason}
            for (case_index, stage), reason in missing.items()
            if case_index not in not_yet
        ],
        "assumptions": _counted(todo, {n: trial.flags for n, (_, trial) in enumerate(todo.trials)}, finished.outcomes),
        "warnings": _counted(
            todo, {n: outcome.warnings for n, outcome in finished.outcomes.items()}, finished.outcomes
        ),
        "counts": _counts(todo, finished, not_yet, {error.case_index for error in errors}),
        "primary_metrics": {kind: PRIMARY[kind] for kind in kinds if kind in PRIMARY},
        "seed": seed if seed is not None else 0,
        "overrides": list(changes),
        "command": list(command),
        "date": date,
        "version": __version__,
        "interrupted": finished.signal_number is not None,
    }  # fmt: skip


def _entries(todo: Plan, outcomes: Mapping[int, Outcome]) -> tuple[list[Entry], dict[tuple[int, str], str]]:
    """Every measured figure of the points that were run, and why points of theirs are missing."""
    entries: list[Entry] = []
    missing: dict[tuple[int, str], str] = {}
    for trial_index, (case_index, trial) in enumerate(todo.trials):
        outcome = outcomes.get(trial_index)
        if outcome is None:
            continue
        for point in trial.points:
            found = outcome.predicted.get(point.stage, {})
            if point.stage in outcome.missing:
                missing[case_index, point.stage] = outcome.missing[point.stage]
            scored = point.scored and is_scored(todo.cases[case_index], point.stage)
            for metric, measured in point.measured.items():
                entries.append(Entry(case_index, point.stage, metric, measured, found.get(metric), scored))
    return entries, missing


def _without_any(todo: Plan, outcomes: Mapping[int, Outcome], missing: Mapping[tuple[int, str], str]) -> dict[int, str]:
    """The cases that were run to the end and of which nothing could be predicted, with the reason."""
    found: dict[int, str] = {}
    for case_index in dict.fromkeys(case_index for case_index, _ in todo.trials):
        numbers = [trial_index for trial_index, (case, _) in enumerate(todo.trials) if case == case_index]
        if all(trial_index in outcomes and not outcomes[trial_index].predicted for trial_index in numbers):
            found[case_index] = next(reason for (case, _), reason in missing.items() if case == case_index)
    return found


def _by_trait(
    trait: str, traits: Mapping[int, Mapping[str, str]], errors: Sequence[CaseError]
) -> dict[str, dict[str, dict[str, float | int]]]:
    """The errors of all kinds together by one trait of the cases, the trait's values in alphabetic order."""
    groups = grouped({case_index: found[trait] for case_index, found in traits.items()}, errors)
    return {name: error_tables(groups[name]) for name in sorted(groups)}


def _scores(todo: Plan, errors: Sequence[CaseError]) -> list[dict[str, Any]]:
    """The scored cases, a row each, with their error in every metric."""
    by_case: dict[int, dict[str, dict[str, float | int]]] = {}
    for error in errors:
        found = {"mape": error.absolute, "signed_mean": error.signed, "points": error.points}
        by_case.setdefault(error.case_index, {})[error.metric] = found
    rows = []
    for case_index in sorted(by_case):
        case, traits = todo.cases[case_index], todo.traits[case_index].columns()
        rows.append({"id": case.id, "kind": case.kind, "set": case.set_name, **traits, "errors": by_case[case_index]})
    return rows


def _left_out(todo: Plan, case_index: int, reason: str) -> dict[str, str]:
    case = todo.cases[case_index]
    return {"id": case.id, "kind": case.kind, "reason": reason}


def _row(todo: Plan, entry: Entry, acceptance: Mapping[tuple[int, str], str]) -> dict[str, Any]:
    case = todo.cases[entry.case_index]
    how = acceptance.get((entry.case_index, entry.stage))
    return {
        "id": case.id, "kind": case.kind, "stage": entry.stage, "metric": entry.metric, "predicted": entry.predicted,
        "measured": entry.measured, "error_pct": entry.error_pct, "scored": entry.scored, "set": case.set_name,
        **todo.traits[entry.case_index].columns(), **({} if how is None else {"acceptance": how}),
    }  # fmt: skip


def _why(todo: Plan, case_index: int) -> str:
    flags = todo.cases[case_index].flags
    return "not usable for scoring" + (f": {', '.join(flags)}" if flags else "")


def _per_request(todo: Plan, outcomes: Mapping[int, Outcome]) -> list[dict[str, Any]]:
    """Median errors of single requests, of the runs that replay a recording."""
    return [
        {
            "id": todo.cases[todo.trials[trial_index][0]].id,
            "stage": todo.trials[trial_index][1].points[0].stage,
            "metric": "e2e_ms",
            "median_error_pct": outcome.per_request_error_pct,
            "n": outcome.per_request_n,
        }
        for trial_index, outcome in sorted(outcomes.items())
        if outcome.per_request_error_pct is not None
    ]


def _counted(todo: Plan, texts: Mapping[int, Sequence[str]], outcomes: Mapping[int, Outcome]) -> list[dict[str, Any]]:
    """Texts of the trials that ran, each with the trial_index of cases that it concerns, the most frequent first."""
    concerned: dict[str, set[int]] = {}
    for trial_index, found in texts.items():
        if trial_index in outcomes and outcomes[trial_index].predicted:
            for text in found:
                concerned.setdefault(text, set()).add(todo.trials[trial_index][0])
    ordered = sorted(concerned.items(), key=lambda item: (-len(item[1]), item[0]))
    return [{"text": text, "cases": len(indexes)} for text, indexes in ordered]


def _counts(todo: Plan, finished: Finished, not_yet: Mapping[int, str], scored: set[int]) -> dict[str, Any]:
    unfinished = sorted(
        {case_index for trial_index, (case_index, _) in enumerate(todo.trials) if trial_index not in finished.outcomes}
    )
    by_kind: dict[str, dict[str, int]] = {}
    for case_index, case in enumerate(todo.cases):
        row = by_kind.setdefault(case.kind, dict.fromkeys(("cases", "scored", "not_yet", "excluded"), 0))
        row["cases"] += 1
        row["scored"] += case_index in scored
        row["not_yet"] += case_index in not_yet
    for case_index in todo.excluded:
        by_kind[todo.cases[case_index].kind]["excluded"] += 1
    return {
        "cases": len(todo.cases),
        "scored": len(scored),
        "not_yet": len(not_yet),
        "excluded": len(todo.excluded),
        "runs": len(finished.outcomes),
        "runs_planned": len(todo.trials),
        "unfinished": [todo.cases[case_index].id for case_index in unfinished],
        "kinds": by_kind,
    }
