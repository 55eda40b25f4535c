"""The answer of a comparison, as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from servetwin import __version__
from servetwin.studies.compare.contrasts import Account, Runs, difference, used
from servetwin.studies.compare.factorial import interactions, is_full, main_effect, techniques_of, without
from servetwin.studies.compare.measure import Measured
from servetwin.studies.compare.running import Finished
from servetwin.studies.compare.same_requests import check_same_requests, depends_on_system, unpaired
from servetwin.studies.compare.sentences import sentence
from servetwin.studies.compare.settling import unsettled
from servetwin.studies.compare.variants import Variant
from servetwin.studies.statistics import Interval


def build_document(variants: Sequence[Variant], finished: Finished) -> dict[str, Any]:
    """The answer.

    Args:
        variants: what was compared, the baseline first.
        finished: its runs, of at least one seed.

    Raises:
        ScenarioError: the variants did not get the same requests.
    """
    reacts = depends_on_system(variants[0].scenario.workload)
    notes = _notes(finished.seeds, reacts)
    runs = Runs(finished.seeds)
    baseline = variants[0].name
    whole = {variant.name: runs.account({variant.name: 1.0}) for variant in variants}
    first = {run.name: run for run in finished.seeds[0]}
    changes = {variant.name: runs.account(difference(variant.name, baseline)) for variant in variants}
    sentences = {
        variant.name: sentence(
            f"{variant.name}, compared with {baseline},", changes[variant.name], used(whole[baseline])
        )
        for variant in variants[1:]
        if variant.techniques is None
    }
    factorial = _factorial(variants, runs)
    sentences |= {name: effect.pop("sentence") for name, effect in factorial.get("techniques", {}).items()}
    return {
        "version": __version__,
        "baseline": baseline,
        "seeds": runs.seeds,
        "paired": "by seed" if len(runs.seeds) > 1 else "by request",
        "requests": {"number": len(first[baseline].columns["id"]), "arrivals": "by system" if reacts else "the same"},
        "variants": {
            variant.name: {
                "scenario": variant.reference,
                "changes": list(variant.changes),
                "config_hash": first[variant.name].config_hash,
                "techniques": None if variant.techniques is None else sorted(variant.techniques),
                "metrics": runs.metrics(variant.name),
                "ledger": whole[variant.name].ledger,
                **_changed(changes[variant.name], used(whole[baseline])),
                "warnings": list(first[variant.name].warnings),
            }
            for variant in variants
        },
        "factorial": factorial,
        "sentences": sentences,
        "notes": notes,
    }


def _changed(account: Account, reference_gpu_s: float) -> dict[str, Any]:
    return {
        "gain": account.metrics,
        "ledger_difference": account.ledger,
        "cost": account.cost,
        "net": account.net(reference_gpu_s),
        "ci": {key: _ends(interval) for key, interval in account.intervals.items()},
    }


def _ends(interval: Interval) -> dict[str, float | None]:
    """An interval as JSON has it, where an end that is infinite is null."""
    return {name: value if isfinite(value) else None for name, value in interval._asdict().items()}


def _factorial(variants: Sequence[Variant], runs: Runs) -> dict[str, Any]:
    techniques = techniques_of(variants)
    if not techniques:
        return {}
    effects, pairs = {}, {}
    for name in techniques:
        account, reference = runs.account(main_effect(name, variants)), used(runs.account(without(name, variants)))
        effects[name] = {**_changed(account, reference), "sentence": sentence(name, account, reference)}
    for (one, other), weights in interactions(variants).items():
        pairs[f"{one} x {other}"] = _changed(runs.account(weights), used(runs.account(_positive(weights))))
    return {
        "design": "all combinations" if is_full(variants) else "one by one",
        "techniques": effects,
        "interactions": pairs,
    }


def _positive(weights: Any) -> dict[str, float]:
    """The weights of the mean of all variants."""
    return {name: 1 / len(weights) for name in weights}


def _notes(seeds: Sequence[Sequence[Measured]], reacts: bool) -> list[str]:
    notes: dict[str, None] = {}
    if reacts:
        notes["arrivals after the first ones depend on how the system fares, and differ between the variants"] = None
    for baseline, *others in seeds:
        for other in others:
            notes |= dict.fromkeys(check_same_requests(baseline, other, reacts=reacts))
            notes |= dict.fromkeys(unpaired(baseline, other)) if len(seeds) == 1 and not reacts else {}
    if len(seeds) == 1:
        notes |= dict.fromkeys(unsettled(seeds[0]))
    return list(notes)
