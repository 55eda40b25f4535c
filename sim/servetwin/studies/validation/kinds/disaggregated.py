"""Prefill and decode on separate replicas, and the aggregated runs that they were compared with."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind, recorded_options, tensor_of
from servetwin.studies.validation.serving import parts_of
from servetwin.studies.validation.trial import NotYet, Point, Trial, metrics_of

SEPARATE = "needs prefill and decode pools with a KV transfer between them"


class Disaggregated(Kind):
    """Cases that compare separate prefill and decode with aggregated replicas; the latter run today."""

    name: ClassVar[str] = "pd"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """The run of an aggregated case: all its measured repetitions are predicted by it."""
        replicas = case.find("aggregated_replicas")
        if not replicas:
            raise NotYet(SEPARATE)
        tensor, _ = tensor_of(case)
        parts = parts_of(case, catalog, parallel={"tensor": tensor})
        parts.replicas = int(case.number_at("aggregated_replicas"))
        # Its prefix_caching is a remark on the prompts, which are random.
        parts.options = {**recorded_options(case), "prefix_caching": False}
        parts.flags.append("the balancer before the replicas is not recorded: at random, as a Kubernetes service does")
        stages = case.need("workload", "stages")
        if not isinstance(stages, list) or len(stages) != 1:
            raise case.error("one stage is expected", "workload", "stages", found=stages)
        workload = {
            "arrivals": _arrivals(case, stages[0]),
            "prompts": int(case.number_at("workload", "prompt_tokens")),
            "outputs": int(case.number_at("workload", "output_tokens")),
            "sampling": "greedy",
        }
        points = tuple(Point(stage, metrics_of(measured)) for stage, measured in case.measured.items())
        scenario = parts.scenario(case.id, workload, int(stages[0].get("n_requests") or 200))
        if parts.replicas > 1:
            scenario["router"] = {"policy": "random"}
        return [Trial(scenario, points, flags=tuple(parts.flags))]


def _arrivals(case: Case, stage: Mapping[str, Any]) -> dict[str, Any]:
    """Gamma gaps, whose cv is 1/√burstiness."""
    rate = stage.get("rate_rps")
    if not isinstance(rate, (int, float)) or not rate > 0:
        raise case.error("a rate is expected", "workload", "stages", "0", "rate_rps", found=rate)
    burstiness = re.search(r"burstiness ([\d.]+)", str(case.find("workload", "arrival")))
    if burstiness is None:
        return {"rate_per_s": float(rate)}
    return {"process": "gamma", "rate_per_s": float(rate), "cv": 1 / math.sqrt(float(burstiness[1]))}


class DisaggregatedSweep(Kind):
    """Concurrency sweeps of separate prefill and decode workers."""

    name: ClassVar[str] = "pd_sweep"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """Refuse: separate workers are what the case measures."""
        raise NotYet(SEPARATE)
