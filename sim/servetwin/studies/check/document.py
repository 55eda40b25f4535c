"""What came of a check, as one document: verdicts, and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from servetwin import __version__
from servetwin.studies.check.baseline import Baseline, path_of, rounded, write_baseline
from servetwin.studies.check.comparison import FEW, Difference, compare
from servetwin.studies.check.metrics import flatten
from servetwin.studies.check.plan import Plan, Planned
from servetwin.studies.check.running import Finished, Outcome

_LISTS = {"worse": "regressions", "better": "improvements", "unclear": "unclear", "changed": "changed_metrics"}
"""Where differences stand, by their verdict."""


def build_document(plan: Plan, finished: Finished) -> dict[str, Any]:
    """The document of a check: the same bytes for any number of jobs, on any day.

    Args:
        plan: the suite.
        finished: what came of its runs. An entry that lacks one has no verdict.
    """
    document: dict[str, Any] = {
        "passed": True,
        "suite": plan.suite.name,
        "description": plan.suite.description,
        "version": __version__,
        "interrupted": finished.signal_number is not None,
        "unfinished": [],
        "entries": [],
        "assertions": [],
        **{name: [] for name in _LISTS.values()},
        "changed_scenarios": [],
        "updated_baselines": [],
        "notes": [{"name": None, "text": text} for text in plan.notes],
    }
    for planned in plan.entries:
        outcomes = finished.outcomes[planned.name]
        if len(outcomes) < len(planned.seeds):
            document["unfinished"].append(planned.name)
        else:
            _add(document, planned, outcomes)
    failed = [one for one in document["assertions"] if not one["passed"]]
    document["passed"] = not (failed or document["regressions"] or document["unfinished"])
    return document


def _add(document: dict[str, Any], planned: Planned, outcomes: Mapping[int, Outcome]) -> None:
    metrics = {seed: flatten(outcomes[seed].summary) for seed in planned.seeds}
    assertions = list(_asserted(planned, metrics))
    differences = _differences(planned, metrics)
    document["assertions"] += assertions
    for difference in differences:
        if difference.verdict in _LISTS:
            document[_LISTS[difference.verdict]].append(_row(planned, difference))
    document["changed_scenarios"] += _changes(planned)
    texts = [*planned.notes, *_doubts(planned)]
    document["notes"] += [{"name": planned.name, "text": text} for text in texts]
    worse = [one for one in differences if one.verdict == "worse"]
    document["entries"].append(
        {
            "name": planned.name,
            "scenario": planned.entry.scenario,
            "config_hash": planned.config_hash,
            "seeds": list(planned.seeds),
            "passed": not worse and all(one["passed"] for one in assertions),
            "compared": [one.metric for one in differences],
            "pairs": max((one.pairs for one in differences), default=None),
        }
    )


def _asserted(planned: Planned, metrics: Mapping[int, Mapping[str, float | None]]) -> Iterator[dict[str, Any]]:
    """An assertion holds if it holds for every seed; the seed is told for which it is furthest from holding."""
    for assertion in planned.assertions:
        checks = {seed: assertion.check(found) for seed, found in metrics.items()}
        worst = min(checks, key=lambda seed: (checks[seed].holds, checks[seed].margin))
        yield {
            "name": planned.name,
            "assertion": assertion.text,
            "passed": all(check.holds for check in checks.values()),
            "failed_seeds": [seed for seed, check in checks.items() if not check.holds],
            "seeds": len(checks),
            "worst_seed": worst,
            "values": checks[worst].values,
        }


def _differences(planned: Planned, metrics: Mapping[int, Mapping[str, float | None]]) -> list[Difference]:
    baseline = planned.baseline
    if baseline is None:
        return []
    before = {key: baseline.by_seed(key) for key in planned.rules}
    after = {key: {seed: rounded(metrics[seed][key]) for seed in planned.seeds} for key in planned.rules}
    return compare(before, after, planned.rules)


def _row(planned: Planned, difference: Difference) -> dict[str, Any]:
    rule = planned.rules[difference.metric]
    tolerance = {"relative": rule.relative, "absolute": rule.absolute}
    row = {key: value for key, value in asdict(difference).items() if key != "verdict"}
    return {"name": planned.name, "scenario": planned.entry.scenario, **row, "tolerance": tolerance}


def _changes(planned: Planned) -> Iterator[dict[str, Any]]:
    """What else differs from when the baseline was made; it decides nothing."""
    baseline = planned.baseline
    if baseline is None:
        return
    for what, before, after in (
        ("scenario", baseline.config_hash, planned.config_hash),
        ("version", baseline.version, __version__),
        ("seeds", list(baseline.seeds), list(planned.seeds)),
    ):
        if before != after:
            yield {"name": planned.name, "what": what, "before": before, "after": after}


def _doubts(planned: Planned) -> Iterator[str]:
    """Why a comparison says less than it could."""
    if planned.baseline is None:
        return
    common = sum(seed in planned.baseline.seeds for seed in planned.seeds)
    if not common and 1 in (len(planned.seeds), len(planned.baseline.seeds)):
        yield "the seeds are others than those of the baseline, and one seed alone cannot be told from noise"
    elif not common:
        yield "the seeds are others than those of the baseline, so that only large changes stand out from the noise"
    elif common == 1 < len(planned.seeds):
        yield f"one of {len(planned.seeds)} seeds is in the baseline and compared, and every difference is a change"
    elif 1 < common < FEW:
        yield (
            f"{common} seeds are few to tell a change from noise: {FEW} or more see changes of a few per cent, one "
            "takes every difference for a change"
        )


def update_baselines(plan: Plan, finished: Finished, document: dict[str, Any]) -> None:
    """Write the baselines of all entries that have finished, and say in the document which files have changed.

    Raises:
        InputError: a file cannot be written.
    """
    for planned in plan.entries:
        outcomes = finished.outcomes[planned.name]
        if not planned.entry.compare or len(outcomes) < len(planned.seeds):
            continue
        metrics = [flatten(outcomes[seed].summary) for seed in planned.seeds]
        rows = {key: tuple(rounded(one[key]) for one in metrics) for key in planned.keys}
        baseline = Baseline(planned.name, __version__, planned.config_hash, planned.seeds, rows)
        changed = write_baseline(plan.request.folder, plan.suite.name, baseline)
        file = path_of(plan.request.folder, plan.suite.name, planned.name)
        document["updated_baselines"].append({"name": planned.name, "file": str(file), "changed": changed})
