"""Throughput tables: all requests queued at once, output tokens per second and GPU."""

from __future__ import annotations

import re
from typing import ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind
from servetwin.studies.validation.launch import set_weights
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.trial import Point, Trial, metrics_of

BUDGET = 8192
"""Tokens of a step: the default ``max_num_tokens`` of TensorRT-LLM's LLM API, from memory of its documentation."""

REQUESTS = {(1024, 1024): 3000, (8192, 1024): 1500, (1024, 8192): 1500, (32768, 1024): 1000, (1024, 32768): 1000}
"""Requests by prompt and output tokens: table "Number of Requests" of TensorRT-LLM's perf-overview (read 30 November
2026); 1000/1000, which is not in it, as 1024/1024."""

MEMORY = 0.95
"""Share of the GPU's memory: ``--kv_cache_free_gpu_mem_fraction`` is 0.90 to 0.95 there, of what weights leave free."""

_FP8_KV_ON_HOPPER = ("llama",)
"""Beginnings of the models whose KV cache is fp8 on Hopper too: ModelOpt's checkpoints of them say so (from memory of
their hf_quant_config.json). gpt-oss has fp8 on Blackwell only (perf-overview: "Hopper: use auto")."""

_SHAPE = re.compile(r"isl(\d+)_osl(\d+)")
_DEGREES = re.compile(r"(?:TP(?P<tp>\d+)|DEP(?P<dep>\d+))(?:PP(?P<pp>\d+))?")


class ThroughputTable(Kind):
    """trtllm-bench: fixed lengths, all requests at once, as many at a time as surely end without eviction.

    Seats are as many requests of full length as the KV cache holds, which is TensorRT-LLM's GUARANTEED_NO_EVICT.
    """

    name: ClassVar[str] = "throughput_table"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """A run for each shape."""
        parts = parts_of(case, catalog, parallel=_degrees(case))
        set_weights(case, parts, catalog)
        kv_cache = _kv_cache(case, parts, catalog)
        if kv_cache:
            parts.precision["kv_cache"] = kv_cache
            parts.flags.append("KV cache of fp8: as the published checkpoints and options have it")
        parts.flags.append("seats: as many full-length requests as the KV cache holds")
        trials = []
        for stage, measured in case.measured.items():
            found = _SHAPE.fullmatch(stage)
            if found is None:
                raise case.error("a row of a throughput table is called islTOKENS_oslTOKENS", "measured", stage)
            prompt, output = int(found[1]), int(found[2])
            parts.options = {
                "max_num_batched_tokens": BUDGET,
                "max_model_len": prompt + output,
                "prefix_caching": False,
                "gpu_memory_utilization": MEMORY,
            }
            workload = {
                "arrivals": {"process": "all-at-once"}, "prompts": prompt, "outputs": output, "sampling": "greedy",
            }  # fmt: skip
            requests = REQUESTS.get((prompt, output), 3000 if prompt + output <= 2048 else 1000)
            scenario = parts.scenario(f"{case.id}-{stage}", workload, requests)
            point = Point(stage, metrics_of(measured), gpus=parts.gpus)
            trials.append(Trial(scenario, (point,), flags=tuple(parts.flags), full_length_seats=prompt + output))
        return trials


def _degrees(case: Case) -> dict[str, int]:
    """``TP2``, ``TP1PP2``, or ``DEP4``: attention data parallel and experts spread over as many GPUs."""
    text = case.need("parallel")
    found = _DEGREES.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise case.error("degrees are expected", "parallel", found=text, allowed="TPn, DEPn, or one of them and PPn")
    spread = int(found["dep"] or 1)
    return {"tensor": int(found["tp"] or 1), "data": spread, "expert": spread, "pipeline": int(found["pp"] or 1)}


def _kv_cache(case: Case, parts: Parts, catalog: Catalog) -> str | None:
    """The KV cache's precision where it is not the model's own."""
    architecture = catalog.gpu(parts.hardware).architecture
    if catalog.model(parts.model).native_kv_cache == "fp8":
        return None
    return "fp8" if architecture != "hopper" or parts.model.startswith(_FP8_KV_ON_HOPPER) else None
