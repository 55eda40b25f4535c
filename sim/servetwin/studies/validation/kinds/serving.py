"""Serving runs: open load on one engine or a few, by several load generators."""

from __future__ import annotations

from typing import ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind
from servetwin.studies.validation.kinds.distserve import distserve_trials
from servetwin.studies.validation.kinds.guidellm import guidellm_trials
from servetwin.studies.validation.kinds.inference_perf import inference_perf_trials
from servetwin.studies.validation.kinds.lmbench import lmbench_trials
from servetwin.studies.validation.kinds.request_bench import request_bench_trials
from servetwin.studies.validation.trial import NotYet, Trial


class Serving(Kind):
    """Runs of real engines under load; which load generator, the workload shows by its fields."""

    name: ClassVar[str] = "serving"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """The runs that stand for a case."""
        work = case.need("workload")
        if "prefix_groups_effective" in work:
            return inference_perf_trials(case, catalog)
        if "per_request_csv" in work:
            return request_bench_trials(case, catalog)
        if "prefix_tokens" in work:
            return guidellm_trials(case, catalog)
        if work.get("generator") == "LMCache/LMBenchmark":
            return lmbench_trials(case, catalog)
        if "per_request_trace" in work:
            return distserve_trials(case, catalog)
        raise NotYet("its workload is not described in a way that is known")
