"""What is compared: scenarios by name, with their changes, and those in which techniques are switched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from servetwin.catalog.find import Catalog
from servetwin.errors import ScenarioError, nearest_name
from servetwin.paths import exists
from servetwin.scenario.load import LoadedScenario, load
from servetwin.scenario.overrides import Override, parse_override
from servetwin.scenario.schema import Scenario, check_name, name_of
from servetwin.studies.techniques import MOST_COMBINED, Technique, find_techniques

OFF = "off"
"""The variant in which every technique is switched off."""

_OVERRULED = "(check overruled-by-every-pool)"

_FORM = "NAME:PATH=VALUE, for example more:cluster.replicas=8"


@dataclass(frozen=True, slots=True)
class Variant:
    """One side of a comparison.

    Attributes:
        name: what it is called.
        reference: the scenario as the user gave it.
        scenario: the scenario, resolved.
        changes: what differs from the scenario's file, ``PATH=VALUE``.
        techniques: those that are switched on; None = it takes no part in switching.
        warnings: what the user should know.
    """

    name: str
    reference: str
    scenario: Scenario
    changes: tuple[str, ...]
    techniques: frozenset[str] | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What the user asks for.

    Attributes:
        scenarios: names or paths of scenarios, or ``NAME=SCENARIO``; the first is what others are compared with.
        changes: overrides for all.
        changes_for: overrides for one, ``NAME:PATH=VALUE``.
        techniques: the names of techniques to switch in the first scenario.
        one_by_one: whether each technique is switched on alone, and no combinations are tried.
        baseline: the variant that others are compared with; None = the first.
        seed: the seed, instead of that of the scenarios.
    """

    scenarios: Sequence[str]
    changes: Sequence[str] = ()
    changes_for: Sequence[str] = ()
    techniques: Sequence[str] = ()
    one_by_one: bool = False
    baseline: str | None = None
    seed: int | None = None


def plan_variants(question: Question, catalog: Catalog) -> list[Variant]:
    """The variants of a question, the baseline first.

    Raises:
        InputError: whatever is wrong with it, or with a scenario.
    """
    techniques = find_techniques(question.techniques)
    _check_combinations(question)
    named = [_named(text) for text in question.scenarios]
    names = [name for name, _ in named]
    _check_names(names)
    own = _by_name(question.changes_for, names)
    variants: list[Variant] = []
    for name, reference in named:
        overrides: list[Override] = [parse_override(text) for text in question.changes]
        overrides += own.get(name, [])
        if question.seed is not None:
            overrides.append(Override(f"--seed {question.seed}", "run.seed", question.seed))
        loaded = load(reference, overrides, catalog)
        if techniques and not variants:
            variants += _switched(reference, loaded, overrides, techniques, question.one_by_one, catalog)
            continue
        variants.append(_variant(name, reference, loaded, overrides, None))
    _check_names([variant.name for variant in variants])
    return _baseline_first(variants, question.baseline)


def _check_combinations(question: Question) -> None:
    number = len(question.techniques)
    if len(question.scenarios) < 2 and not number:
        raise ScenarioError(
            "a comparison takes at least two scenarios, or a technique to switch",
            found=list(question.scenarios),
            allowed="servetwin compare A B, or servetwin compare A --toggle TECHNIQUE",
            hint="to compare a scenario with itself changed: "
            "servetwin compare A more=A --set-for more:cluster.replicas=8",
        )
    if number > MOST_COMBINED and not question.one_by_one:
        raise ScenarioError(
            f"{number} techniques in all combinations would be {2**number} runs a seed",
            file="--toggle",
            found=list(question.techniques),
            allowed=f"at most {MOST_COMBINED} in combination, or any number with --one-by-one",
        )
    if question.one_by_one and not number:
        raise ScenarioError(
            "--one-by-one has no effect without a technique",
            file="--one-by-one",
            allowed="--toggle TECHNIQUE beside it",
        )


def _named(text: str) -> tuple[str, str]:
    """The name of a variant and its scenario; a scenario without a name gives its own."""
    name, separator, reference = text.partition("=")
    if separator and not exists(text):
        try:
            return check_name(name), reference
        except ValueError as error:
            raise ScenarioError(str(error), file=text, found=name, allowed="NAME=SCENARIO") from None
    return name_of(Path(text).stem if text.endswith((".yaml", ".yml")) else text), text


def _check_names(names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ScenarioError(
                "two variants have the same name",
                found=name,
                allowed="a name that no other variant has",
                hint=f"give it one: {name}-2={name}",
            )


def _by_name(texts: Sequence[str], names: Sequence[str]) -> dict[str, list[Override]]:
    """The overrides of each variant."""
    found: dict[str, list[Override]] = {}
    for text in texts:
        name, separator, change = text.partition(":")
        given = f"--set-for {text}"
        if not separator or "=" in name or "=" not in change:
            raise ScenarioError("the change of one variant has another form", file=given, found=text, allowed=_FORM)
        if name not in names:
            raise ScenarioError(
                "there is no variant of that name", file=given, found=name, allowed=names,
                nearest=nearest_name(name, names),
            )  # fmt: skip
        try:
            found.setdefault(name, []).append(parse_override(change)._replace(given=given))
        except ScenarioError as error:
            error.file = given
            raise
    return found


def _switched(
    reference: str,
    loaded: LoadedScenario,
    overrides: Sequence[Override],
    techniques: Sequence[Technique],
    one_by_one: bool,
    catalog: Catalog,
) -> Iterator[Variant]:
    """A scenario with its techniques on and off, in all combinations or one by one; first with all of them off."""
    number = len(techniques)
    choices = [choice for choice in product((False, True), repeat=number) if not one_by_one or sum(choice) <= 1]
    for choice in sorted(choices, key=lambda choice: (sum(choice), [not on for on in choice])):
        switches: list[Override] = []
        idle: list[str] = []
        for technique, switch in zip(techniques, choice, strict=True):
            found = technique.switched(loaded.scenario, switch, switches)
            switches += found
            if switch and not found:
                idle.append(f"{technique.name} does nothing here: what it works on is switched off")
        on = [technique.name for technique, on in zip(techniques, choice, strict=True) if on]
        every = [*overrides, *switches]
        made = _variant("+".join(on) or OFF, reference, load(reference, every, catalog), every, frozenset(on))
        # That the switches overrule what the scenario says for all pools is what they are for.
        said = [text for text in made.warnings if text in loaded.warnings or _OVERRULED not in text]
        yield replace(made, warnings=(*said, *idle))


def _variant(
    name: str,
    reference: str,
    loaded: LoadedScenario,
    overrides: Sequence[Override],
    techniques: frozenset[str] | None,
) -> Variant:
    from json import dumps

    changes = tuple(f"{override.path}={dumps(override.value, ensure_ascii=False)}" for override in overrides)
    return Variant(name, reference, loaded.scenario, changes, techniques, loaded.warnings)


def _baseline_first(variants: list[Variant], wanted: str | None) -> list[Variant]:
    if wanted is None:
        return variants
    names = [variant.name for variant in variants]
    if wanted not in names:
        raise ScenarioError(
            "there is no variant of that name", file=f"--baseline {wanted}", found=wanted, allowed=names,
            nearest=nearest_name(wanted, names),
        )  # fmt: skip
    return sorted(variants, key=lambda variant: variant.name != wanted)
