"""Sweeps of guidellm: one client, everything at once, and a few constant rates, on one engine."""

from __future__ import annotations

import re
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import recorded_options, tensor_of
from servetwin.studies.validation.serving import parts_of
from servetwin.studies.validation.trial import Point, Trial, metrics_of


def guidellm_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """A run for each strategy of the sweep.

    guidellm's ``itl_ms`` is a request's time after its first token over its tokens after the first: TPOT here. A prompt
    that would not fit with its prefix and its answer is drawn as long as does, for the engine refuses longer ones.
    """
    tensor, _ = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    parts.options = recorded_options(case)
    prefix = int(case.number_at("workload", "prefix_tokens"))
    prompts = _lengths(case, "prompt_tokens")
    longest = parts.options.get("max_model_len")
    outputs = _lengths(case, "output_tokens")
    if longest is not None:
        prompts["max"] = min(prompts["max"], longest - prefix - outputs["max"])
    trials = []
    for stage, measured in case.measured.items():
        metrics = {name.replace("itl_ms", "tpot_ms"): value for name, value in metrics_of(measured).items()}
        requests = int(measured.get("n_success") or 40)
        workload = {
            "arrivals": _arrivals(case, stage),
            "prefixes": {"groups": 1, "tokens": prefix},
            "prompts": prompts,
            "outputs": outputs,
            "sampling": "greedy",
        }
        scenario = parts.scenario(f"{case.id}-{stage}", workload, requests)
        trials.append(Trial(scenario, (Point(stage, metrics),), flags=tuple(parts.flags)))
    return trials


def _arrivals(case: Case, stage: str) -> dict[str, Any]:
    if stage == "synchronous":
        return {"process": "closed-loop", "concurrency": 1}
    if stage == "throughput":
        return {"process": "all-at-once"}
    rate = re.fullmatch(r"constant_([\d.]+)rps", stage)
    if rate is None:
        raise case.error(
            "this stage is no strategy of guidellm that is known", "measured", stage,
            allowed="synchronous, throughput, constant_RATErps",
        )  # fmt: skip
    return {"process": "constant", "rate_per_s": float(rate[1])}


def _lengths(case: Case, field: str) -> dict[str, Any]:
    mean, std, least, most = (case.number_at("workload", field, name) for name in ("mean", "stdev", "min", "max"))
    return {"distribution": "normal", "mean": float(mean), "std": float(std), "min": int(least), "max": int(most)}
