"""What is to be run: the trials of every chosen case, and why the other cases have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds import trials_of
from servetwin.studies.validation.traits import Traits, traits_of
from servetwin.studies.validation.trial import NotYet, Trial


@dataclass(slots=True)
class Plan:
    """What is to be run.

    Attributes:
        cases: the chosen cases.
        trials: the runs, each with the place of its case among ``cases``.
        not_yet: why a case has no run, by the place of the case among ``cases``.
        excluded: places of the cases that may not be scored.
        traits: hardware, engine and model of each case that has a run, by the place of the case among ``cases``.
    """

    cases: tuple[Case, ...]
    trials: list[tuple[int, Trial]] = field(default_factory=list)
    not_yet: dict[int, str] = field(default_factory=dict)
    excluded: list[int] = field(default_factory=list)
    traits: dict[int, Traits] = field(default_factory=dict)


def make_plan(cases: Sequence[Case], catalog: Catalog) -> Plan:
    """The runs of these cases.

    Args:
        cases: the chosen cases.
        catalog: where models and GPUs are found.

    Raises:
        InputError: a case that may be scored, or a recording that it names, is malformed.
    """
    found = Plan(tuple(cases))
    for case_index, case in enumerate(found.cases):
        if not case.usable:
            found.excluded.append(case_index)
            continue
        try:
            trials = trials_of(case, catalog)
        except NotYet as answer:
            found.not_yet[case_index] = answer.reason
            continue
        found.trials += [(case_index, trial) for trial in trials]
        if trials:
            found.traits[case_index] = traits_of(case, trials[0], catalog)
    return found
