"""Throughput of prefill and decode workers with experts shared out over many GPUs, each kind measured for itself."""

from __future__ import annotations

import re

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.step_cost import StepCostTrial
from servetwin.studies.validation.trial import NotYet, Point, Trial

_GPUS = 8
"""GPUs of a node."""

_DECODING = re.compile(r"bs(\d+)_kv(\d+)")
_REQUESTS = 16
"""Prompts for each GPU that prefills, so that its first and last steps, which wait for each other, hardly count."""


def expert_pool_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """A run for each length of prompt, of workers that only prefill; and the price of the decode steps.

    ``bs256_kv2000`` is 256 requests for each GPU at 2,000 tokens of context: tokens per second and node become the time
    of a step. Stages whose drafts are made up are left out.
    """
    spread = {
        role: int(found[1])
        for role in ("prefill", "decode")
        if (found := re.search(rf"{role} \d+ nodes EP(\d+)", str(case.need("parallel"))))
    }
    if len(spread) != 2:
        raise NotYet("the workers that prefill and decode are not described in a way that is known")
    parts = parts_of(case, catalog, parallel={})
    parts.options = {"prefix_caching": False}
    trials: list[Trial] = []
    for stage, rate in case.need("measured", "prefill_tok_s_per_node").items():
        found = re.fullmatch(r"(\d+)k", stage)
        if found is None:
            raise case.error("a length of prompts is expected", "measured", "prefill_tok_s_per_node", stage)
        trials.append(_prefill(case, parts, spread["prefill"], int(found[1]) * 1024, f"prefill_{stage}", float(rate)))
    steps, points = {}, []
    for stage, rate in (case.find("measured", "decode_tok_s_per_node") or {}).items():
        found = _DECODING.fullmatch(stage)
        if found is not None:
            steps[stage] = (int(found[1]), int(found[2]), False)
            points.append(Point(stage, {"tpot_ms.mean": int(found[1]) * _GPUS / float(rate) * 1e3}))
    parts.parallel = _degrees(spread["decode"])
    parts.replicas = 1
    scenario = parts.scenario(f"{case.id}-decode", _batch(1, 2))
    trials.append(StepCostTrial(scenario, tuple(points), flags=tuple(parts.flags), steps=steps))
    return trials


def _prefill(case: Case, parts: Parts, gpus: int, prompt: int, stage: str, rate: float) -> Trial:
    parts.parallel = _degrees(gpus)
    scenario = parts.scenario(f"{case.id}-{stage}", _batch(prompt, 1), _REQUESTS * gpus)
    point = Point(stage, {"input_throughput": rate}, gpus=gpus // _GPUS)
    return Trial(scenario, (point,), flags=tuple(parts.flags))


def _batch(prompt: int, output: int) -> dict[str, object]:
    return {"arrivals": {"process": "all-at-once"}, "prompts": prompt, "outputs": output, "sampling": "greedy"}


def _degrees(gpus: int) -> dict[str, int]:
    return {"data": gpus, "expert": gpus}
