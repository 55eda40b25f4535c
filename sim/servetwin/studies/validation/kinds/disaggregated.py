"""Prefill and decode on separate replicas, and the aggregated runs that they were compared with."""

from __future__ import annotations

from typing import ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind
from servetwin.studies.validation.kinds.distserve import distserve_trials
from servetwin.studies.validation.kinds.expert_pools import expert_pool_trials
from servetwin.studies.validation.kinds.llm_d import llm_d_trials
from servetwin.studies.validation.kinds.mooncake import comparison_trials, is_comparison, transfer_trials
from servetwin.studies.validation.trial import NotYet, Trial


class Disaggregated(Kind):
    """Cases about separate prefill and decode: each series in its own module, told apart by what it records."""

    name: ClassVar[str] = "pd"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """The runs of the series that the case is of."""
        if case.find("workload", "per_request_trace"):
            return distserve_trials(case, catalog)
        if case.find("aggregated_replicas") or (case.find("workload", "stages") and case.find("decode_workers")):
            return llm_d_trials(case, catalog)
        if any("transfer_ms" in stage for stage in case.measured.values() if isinstance(stage, dict)):
            return transfer_trials(case, catalog)
        if is_comparison(case):
            return comparison_trials(case, catalog)
        if "prefill_tok_s_per_node" in case.measured:
            return expert_pool_trials(case, catalog)
        raise NotYet("the workers that prefill and decode, or their requests, are not described in a way that is known")
