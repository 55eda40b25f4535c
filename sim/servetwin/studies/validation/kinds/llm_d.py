"""Runs of llm-d's comparison of prefill and decode workers with aggregated replicas, of May 2025."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import DRAWS, recorded_options, tensor_of
from servetwin.studies.validation.kinds.workers import Workers, apart
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.trial import Point, Trial, metrics_of

NOT_ISOLATED = "pd_itl_p99_equals_aggregated_so_prefill_isolation_doubtful"
"""The flag of cases whose decode workers prefilled too."""

_SERIES = "exp-7"
"""In the path of the series' source."""

_GRAPHS = (
    "started without --enforce-eager, as the series' deployment file has it "
    "(collected/yamls/exp-7/baseline-vllm/llama3-8b-deployment.yaml), and not as the case records it"
)
_BOTH = (
    "no prefill was isolated: every worker serves its share of requests whole, for the pool of the gateway selects "
    "prefill and decode workers alike, and a request is stalled by as many prefills as its worker's share has"
)
_AT_RANDOM = "the balancer before the replicas is not recorded: at random, as a Kubernetes service does"


def llm_d_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """The run of a case: all its measured repetitions are predicted by it.

    Where the collectors doubt that prefill was isolated, it was not. A request that decodes waits for the prefills on
    its worker, ``(mean TPOT − median ITL) · (tokens − 1) / (p99 of ITL − median ITL)`` of them: all gaps are nearly
    equal but those with a prefill of 8,000 tokens. Where decode is isolated there are none. On H100 with one prefill
    and one decode worker there are 6.6 in the 3.6 s of a request, 1.8 a second: half of the 3.6 requests a second, as
    of two aggregated replicas (6.0 in 3.2 s). On A100 there are 0.92 a second of 1.8 (aggregated 0.91), with three
    workers 0.9 of 2.5 (aggregated 0.9). TTFT has a single mode, 5 ms above that of the replicas: nothing was prefilled
    elsewhere and moved. The ``InferencePool`` of the series selects by labels that all workers have.
    """
    tensor, _ = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    # Its prefix_caching is a remark on the prompts, which are random.
    parts.options = {**recorded_options(case), "prefix_caching": False}
    stages = case.need("workload", "stages")
    if not isinstance(stages, list) or len(stages) != 1:
        raise case.error("one stage is expected", "workload", "stages", found=stages)
    workload = {
        "arrivals": _arrivals(case, stages[0]),
        "prompts": int(case.number_at("workload", "prompt_tokens")),
        "outputs": int(case.number_at("workload", "output_tokens")),
        "sampling": "greedy",
    }
    requests = int(stages[0].get("n_requests") or 200)
    points = tuple(Point(stage, metrics_of(measured)) for stage, measured in case.measured.items())
    scenario = _scenario(case, parts, workload, requests)
    return [Trial(scenario, points, flags=tuple(parts.flags), draws=DRAWS)]


def _scenario(case: Case, parts: Parts, workload: Mapping[str, Any], requests: int) -> dict[str, Any]:
    if case.find("aggregated_replicas"):
        parts.replicas = int(case.number_at("aggregated_replicas"))
        if _SERIES in str(case.find("source", "path")) and parts.options.pop("enforce_eager", False):
            parts.flags.append(_GRAPHS)
    else:
        workers = [int(case.number_at(f"{role}_workers")) for role in ("prefill", "decode")]
        if NOT_ISOLATED not in case.flags:
            prefill, decode = (Workers(count, parts.parallel) for count in workers)
            return apart(parts, case.id, workload, requests, prefill=prefill, decode=decode)
        parts.replicas = sum(workers)
        parts.flags.append(_BOTH)
    parts.flags.append(_AT_RANDOM)
    scenario = parts.scenario(case.id, workload, requests)
    if parts.replicas > 1:
        scenario["router"] = {"policy": "random"}
    return scenario


def _arrivals(case: Case, stage: Mapping[str, Any]) -> dict[str, Any]:
    """Gamma gaps, whose cv is 1/√burstiness."""
    rate = stage.get("rate_rps")
    if not isinstance(rate, (int, float)) or not rate > 0:
        raise case.error("a rate is expected", "workload", "stages", "0", "rate_rps", found=rate)
    burstiness = re.search(r"burstiness ([\d.]+)", str(case.find("workload", "arrival")))
    if burstiness is None:
        return {"rate_per_s": float(rate)}
    return {"process": "gamma", "rate_per_s": float(rate), "cv": 1 / math.sqrt(float(burstiness[1]))}
