"""Each kind of case as scenarios: one class a kind, behind one registry."""

from __future__ import annotations

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import KINDS, Case
from servetwin.studies.validation.kinds.base import Kind
from servetwin.studies.validation.kinds.disaggregated import Disaggregated
from servetwin.studies.validation.kinds.disaggregated_sweep import DisaggregatedSweep
from servetwin.studies.validation.kinds.kv_cache import KvCache
from servetwin.studies.validation.kinds.profile import IterationProfile
from servetwin.studies.validation.kinds.serving import Serving
from servetwin.studies.validation.kinds.speculation import Speculation, SpeculationCost
from servetwin.studies.validation.kinds.sweep import ConcurrencySweep
from servetwin.studies.validation.kinds.throughput import ThroughputTable
from servetwin.studies.validation.trial import NotYet, Trial

_KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Serving(), ConcurrencySweep(), ThroughputTable(), IterationProfile(), Disaggregated(), DisaggregatedSweep(),
        KvCache(), Speculation(), SpeculationCost(),
    )
}  # fmt: skip
assert set(_KINDS) == set(KINDS)


def trials_of(case: Case, catalog: Catalog) -> list[Trial]:
    """The runs that stand for a case.

    Raises:
        NotYet: this version cannot simulate it.
        InputError: the case, or a recording that it names, is malformed.
    """
    kind = _KINDS.get(case.kind)
    if kind is None:
        raise NotYet(f"cases of kind {case.kind!r} are not known")
    trials = kind.trials(case, catalog)
    if not any(point.measured for trial in trials for point in trial.points):
        raise NotYet("nothing was measured that this version predicts")
    return trials
