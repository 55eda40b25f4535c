"""The answer of ``validate`` as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servetwin import __version__
from servetwin.studies.validation.cases import KINDS
from servetwin.studies.validation.peers import peers
from servetwin.studies.validation.plan import Plan
from servetwin.studies.validation.running import Finished
from servetwin.studies.validation.scoring import PRIMARY, Entry, by, case_errors, is_scored, tables, worst
from servetwin.studies.validation.trial import Outcome


def document(
    todo: Plan,
    finished: Finished,
    *,
    seed: int | None = None,
    published: Sequence[Mapping[str, Any]] = (),
    changes: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that was found: errors by kind, set and case, peers, and the cases without a score.

    Args:
        todo: the plan.
        finished: what came of it.
        seed: of the random streams.
        published: what was published of the accuracy of other simulators.
        changes: overrides of scenario fields.
    """
    cases = todo.cases
    entries, missing = _entries(todo, finished.outcomes)
    not_yet = {**todo.not_yet, **_without_any(todo, finished.outcomes, missing)}
    errors = [error for error in case_errors(entries) if error.case not in not_yet]
    kinds = [kind for kind in KINDS if any(case.kind == kind for case in cases)]
    kinds += sorted({case.kind for case in cases} - set(kinds))
    by_kind = by({place: case.kind for place, case in enumerate(cases)}, errors)
    by_set = by({place: case.set_name for place, case in enumerate(cases)}, errors)
    return {
        "kinds": {kind: tables(by_kind.get(kind, ())) for kind in kinds},
        "sets": {name: tables(found) for name, found in sorted(by_set.items(), key=lambda item: item[0] == "other")},
        "cases": [_row(todo, entry) for entry in entries if entry.predicted is not None],
        "not_yet": [{"id": cases[place].id, "reason": reason} for place, reason in sorted(not_yet.items())],
        "excluded": [{"id": cases[place].id, "reason": _why(todo, place)} for place in todo.excluded],
        "worst": [
            {
                "id": cases[error.case].id, "kind": cases[error.case].kind, "metric": error.metric,
                "mape": error.absolute, "signed_mean": error.signed, "points": error.points,
            }
            for error in worst(cases, errors)
        ],
        "peers": peers(cases, entries),
        "published_peers": list(published),
        "per_request": _per_request(todo, finished.outcomes),
        "unpredicted": [
            {"id": cases[place].id, "stage": stage, "reason": reason}
            for (place, stage), reason in missing.items()
            if place not in not_yet
        ],
        "assumptions": _counted(todo, {n: trial.flags for n, (_, trial) in enumerate(todo.trials)}, finished.outcomes),
        "warnings": _counted(
            todo, {n: outcome.warnings for n, outcome in finished.outcomes.items()}, finished.outcomes
        ),
        "counts": _counts(todo, finished, not_yet, {error.case for error in errors}),
        "primary_metrics": {kind: PRIMARY[kind] for kind in kinds if kind in PRIMARY},
        "seed": seed if seed is not None else 0,
        "overrides": list(changes),
        "version": __version__,
        "interrupted": finished.signal_number is not None,
    }  # fmt: skip


def _entries(todo: Plan, outcomes: Mapping[int, Outcome]) -> tuple[list[Entry], dict[tuple[int, str], str]]:
    """Every measured figure of the points that were run, and why points of theirs are missing."""
    entries: list[Entry] = []
    missing: dict[tuple[int, str], str] = {}
    for number, (place, trial) in enumerate(todo.trials):
        outcome = outcomes.get(number)
        if outcome is None:
            continue
        for point in trial.points:
            found = outcome.predicted.get(point.stage, {})
            if point.stage in outcome.missing:
                missing[place, point.stage] = outcome.missing[point.stage]
            scored = is_scored(todo.cases[place], point.stage)
            for metric, measured in point.measured.items():
                entries.append(Entry(place, point.stage, metric, measured, found.get(metric), scored))
    return entries, missing


def _without_any(todo: Plan, outcomes: Mapping[int, Outcome], missing: Mapping[tuple[int, str], str]) -> dict[int, str]:
    """The cases that were run to the end and of which nothing could be predicted, with the reason."""
    found: dict[int, str] = {}
    for place in dict.fromkeys(place for place, _ in todo.trials):
        numbers = [number for number, (case, _) in enumerate(todo.trials) if case == place]
        if all(number in outcomes and not outcomes[number].predicted for number in numbers):
            found[place] = next(reason for (case, _), reason in missing.items() if case == place)
    return found


def _row(todo: Plan, entry: Entry) -> dict[str, Any]:
    case = todo.cases[entry.case]
    return {
        "id": case.id, "kind": case.kind, "stage": entry.stage, "metric": entry.metric, "predicted": entry.predicted,
        "measured": entry.measured, "error_pct": entry.error_pct, "scored": entry.scored, "set": case.set_name,
    }  # fmt: skip


def _why(todo: Plan, place: int) -> str:
    flags = todo.cases[place].flags
    return "not usable for scoring" + (f": {', '.join(flags)}" if flags else "")


def _per_request(todo: Plan, outcomes: Mapping[int, Outcome]) -> list[dict[str, Any]]:
    """Median errors of single requests, of the runs that replay a recording."""
    return [
        {
            "id": todo.cases[todo.trials[number][0]].id,
            "stage": todo.trials[number][1].points[0].stage,
            "metric": "e2e_ms",
            "median_error_pct": outcome.per_request_error_pct,
            "n": outcome.per_request_n,
        }
        for number, outcome in sorted(outcomes.items())
        if outcome.per_request_error_pct is not None
    ]


def _counted(todo: Plan, texts: Mapping[int, Sequence[str]], outcomes: Mapping[int, Outcome]) -> list[dict[str, Any]]:
    """Texts of the trials that ran, each with the number of cases that it concerns, the most frequent first."""
    concerned: dict[str, set[int]] = {}
    for number, found in texts.items():
        if number in outcomes and outcomes[number].predicted:
            for text in found:
                concerned.setdefault(text, set()).add(todo.trials[number][0])
    ordered = sorted(concerned.items(), key=lambda item: (-len(item[1]), item[0]))
    return [{"text": text, "cases": len(places)} for text, places in ordered]


def _counts(todo: Plan, finished: Finished, not_yet: Mapping[int, str], scored: set[int]) -> dict[str, Any]:
    unfinished = sorted({place for number, (place, _) in enumerate(todo.trials) if number not in finished.outcomes})
    by_kind: dict[str, dict[str, int]] = {}
    for place, case in enumerate(todo.cases):
        row = by_kind.setdefault(case.kind, dict.fromkeys(("cases", "scored", "not_yet", "excluded"), 0))
        row["cases"] += 1
        row["scored"] += place in scored
        row["not_yet"] += place in not_yet
    for place in todo.excluded:
        by_kind[todo.cases[place].kind]["excluded"] += 1
    return {
        "cases": len(todo.cases),
        "scored": len(scored),
        "not_yet": len(not_yet),
        "excluded": len(todo.excluded),
        "runs": len(finished.outcomes),
        "runs_planned": len(todo.trials),
        "unfinished": [todo.cases[place].id for place in unfinished],
        "kinds": by_kind,
    }
