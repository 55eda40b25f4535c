"""Concurrency sweeps: so many clients, each of which sends its next request when its last has ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind
from servetwin.studies.validation.launch import cache_of, set_weights
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.trial import NotYet, Point, Trial, metrics_of

SHORTEST = 0.8
"""Lengths are uniform from this share of the nominal ones to all of it: ``RANDOM_RANGE_RATIO`` of InferenceMAX's client
configuration (README of the repository, read 30 November 2026)."""

REQUESTS_PER_CLIENT = 10
"""``--num-prompts $(( CONC * 10 ))`` in the same place."""

BUDGET = 8192
"""``--max-num-batched-tokens 8192`` in InferenceMAX's launch commands of vLLM for H200 and B200 (same place)."""

_POINT = re.compile(r"conc_(?P<conc>\d+)|isl(?P<isl>\d+)_osl(?P<osl>\d+)_conc(?P<conc2>\d+)")


class ConcurrencySweep(Kind):
    """TTFT and TPOT at fixed numbers of clients.

    Random prompts, of which nothing is shared; engine settings are not recorded, so those of InferenceMAX's launch
    commands (``studies.validation.launch``) stand for them.
    """

    name: ClassVar[str] = "concurrency_sweep"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """A run for each point."""
        parts = prepared(case, catalog, _sweep_degrees(case))
        trials = []
        for stage, measured in case.measured.items():
            clients, prompt, output = point_of(case, stage)
            parts.options = options_of(clients, prompt, output)
            count = measured.get("n_requests") if isinstance(measured, Mapping) else None
            requests = int(count) if count else REQUESTS_PER_CLIENT * clients
            scenario = parts.scenario(f"{case.id}-{stage}", closed_loop(clients, prompt, output), requests)
            trials.append(Trial(scenario, (Point(stage, metrics_of(measured)),), flags=tuple(parts.flags)))
        return trials


def prepared(case: Case, catalog: Catalog, parallel: Mapping[str, int]) -> Parts:
    """What serves a sweep, with the number formats of its launch command.

    Args:
        case: the case.
        catalog: where models and GPUs are found.
        parallel: degrees of one replica.
    """
    parts = parts_of(case, catalog, parallel=parallel)
    set_weights(case, parts, catalog)
    cache = cache_of(case, parts, catalog)
    if cache:
        parts.precision["kv_cache"] = cache
        parts.flags.append(f"KV cache of {cache}: as the launch commands of InferenceMAX have it")
    return parts


def closed_loop(clients: int, prompt: int, output: int) -> dict[str, Any]:
    """The workload of a sweep's point."""
    return {
        "arrivals": {"process": "closed-loop", "concurrency": clients},
        "prompts": _lengths(prompt),
        "outputs": _lengths(output),
        "sampling": "greedy",
    }


def _lengths(nominal: int) -> dict[str, Any]:
    return {"distribution": "uniform", "min": max(1, round(SHORTEST * nominal)), "max": nominal}


def options_of(clients: int, prompt: int, output: int) -> dict[str, Any]:
    """The engine's options for a point: room for its clients and lengths, and no prefix cache."""
    return {
        "max_num_batched_tokens": BUDGET,
        "max_num_seqs": max(clients, 1),
        "max_model_len": prompt + output + 200,
        "prefix_caching": False,
    }


def point_of(case: Case, stage: str) -> tuple[int, int, int]:
    """Clients, prompt and output tokens of a point."""
    found = _POINT.fullmatch(stage)
    if found is None:
        raise case.error(
            "a point of a sweep is called conc_CLIENTS or islTOKENS_oslTOKENS_concCLIENTS", "measured", stage
        )
    if found["isl"]:
        return int(found["conc2"]), int(found["isl"]), int(found["osl"])
    return int(found["conc"]), int(case.number_at("workload", "isl")), int(case.number_at("workload", "osl"))


def _sweep_degrees(case: Case) -> dict[str, int]:
    """The degrees of a sweep's replica.

    ``tp_size`` are the GPUs that share attention, ``attention_dp_size`` the ranks with attention of their own, so a
    replica has their product; ``moe_ep_size`` is how many ways the experts are split.

    Raises:
        NotYet: experts are split both ways, which a scenario cannot say.
    """
    written = case.need("parallel")
    if isinstance(written, str):
        return _named(case, written)
    if not isinstance(written, Mapping):
        raise case.error("degrees of parallelism are expected", "parallel", found=written)
    return degrees_of(case, written)


def degrees_of(case: Case, written: Mapping[str, Any]) -> dict[str, int]:
    """The degrees that fields like ``tp_size`` give.

    Raises:
        NotYet: experts are split both ways, which a scenario cannot say.
    """
    sizes = {name: written.get(f"{name}_size") or 1 for name in ("tp", "pp", "attention_dp", "moe_ep")}
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise case.error("a degree is a whole number", "parallel", f"{name}_size", found=size)
    gpus = sizes["tp"] * sizes["attention_dp"]
    if sizes["moe_ep"] not in (1, gpus):
        raise NotYet(
            f"experts split {sizes['moe_ep']} ways over {gpus} GPUs, each of them over several GPUs again: a scenario "
            "has either tensor or expert parallelism"
        )
    return {
        "tensor": sizes["tp"], "pipeline": sizes["pp"], "data": sizes["attention_dp"], "expert": sizes["moe_ep"],
    }  # fmt: skip


def _named(case: Case, text: str) -> dict[str, int]:
    """``tp8``, ``tep8`` (tensor parallel attention, expert parallel experts) or ``dep8`` (attention data parallel)."""
    found = re.fullmatch(r"(tp|tep|dep)(\d+)", text.strip().lower())
    if found is None:
        raise case.error("degrees of parallelism are expected", "parallel", found=text, allowed="tpN, tepN, depN")
    degree = int(found[2])
    return {
        "tensor": 1 if found[1] == "dep" else degree,
        "data": degree if found[1] == "dep" else 1,
        "expert": 1 if found[1] == "tp" else degree,
    }
