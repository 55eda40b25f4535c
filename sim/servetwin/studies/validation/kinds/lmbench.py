"""Runs of LMBenchmark: conversations replayed at several request rates, with recorded launch times."""

from __future__ import annotations

import re
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import tensor_of
from servetwin.studies.validation.recordings import Recorded, recording, replayed
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.trial import BLOCK_TOKENS, Point, Trial, metrics_of

_COLUMNS = ("scenario", "qps", "launch_s", "user_id", "prompt_tokens", "output_tokens", "ttft_ms", "generation_time_ms")

LONGEST, MEMORY_SHARE = 20_000, 0.95
"""``max_model_len`` and ``gpu_memory_utilization`` of the one run of the series whose remark says them."""


def lmbench_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """A run for each request rate: the recorded requests, else evenly spaced ones of the mean lengths.

    Where the recording names users, a user's prompts share all that they have in common in length; where it does not
    (the ShareGPT scenario), nothing is known of what prompts share, and nothing is shared. Several replicas take turns.
    """
    tensor, assumed = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    if assumed:
        parts.flags.append("degree of tensor parallelism not recorded: 2, as in the other runs of the series")
    replicas = case.need("replicas")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise case.error("a number of replicas is expected", "replicas", found=replicas)
    parts.replicas = replicas
    parts.options = _options(str(case.find("engine_config", "note") or ""), parts.flags)
    recorded = recording(case, case.find("workload", "per_request_trace"), _COLUMNS)
    name = next((row["scenario"] for row in recorded or () if case.id.endswith(row["scenario"])), None)
    trials = []
    for stage, measured in case.measured.items():
        point = Point(stage, metrics_of(measured))
        rate = _rate(case, stage)
        chosen = [row for row in recorded or () if row["scenario"] == name and row.number("qps") == rate]
        if recorded is not None and not chosen:
            raise case.error("the recording has no request at this rate", "measured", stage)
        trials.append(_replayed(case, parts, chosen, point) if chosen else _even(case, parts, rate, measured, point))
    return trials


def _options(note: str, flags: list[str]) -> dict[str, Any]:
    """The engine's settings, as far as a remark such as ``max_model_len 20000, gpu_mem_util 0.95`` gives them.

    The same stand for the runs without a remark: with less memory, some models of the series would not have started.
    """
    length, share = re.search(r"max_model_len (\d+)", note), re.search(r"gpu_mem_util ([\d.]+)", note)
    if not (length and share):
        flags.append(
            f"max_model_len or gpu_memory_utilization not recorded: {LONGEST:,} and {MEMORY_SHARE}, as in the run of "
            "the series that says them"
        )
    return {
        "max_model_len": int(length[1]) if length else LONGEST,
        "gpu_memory_utilization": float(share[1]) if share else MEMORY_SHARE,
    }


def _rate(case: Case, stage: str) -> float:
    name, _, rate = stage.partition("_")
    try:
        value = float(rate) if name == "qps" else 0.0
    except ValueError:
        value = 0.0
    if not value > 0:
        raise case.error("a stage of LMBenchmark is called qps_RATE", "measured", stage)
    return value


def _replayed(case: Case, parts: Parts, chosen: list[Recorded], point: Point) -> Trial:
    rows, measured = replayed(
        chosen,
        arrival="launch_s",
        prompt="prompt_tokens",
        output="output_tokens",
        took_ms=("ttft_ms", "generation_time_ms"),
        blocks=_history,
    )
    shared = any(row.blocks for row in rows)
    flags = parts.flags if shared else [*parts.flags, "what prompts share is not recorded: nothing is shared"]
    scenario = parts.scenario(f"{case.id}-{point.stage}", {"sampling": "greedy"})
    return Trial(scenario, (point,), rows, measured, tuple(flags))


def _history(row: Recorded) -> tuple[int, ...]:
    """Ids of the blocks of a user's prompt, which begins with that user's earlier ones."""
    if not row["user_id"]:
        return ()
    user = row.whole("user_id")
    return tuple(user * 10_000 + place for place in range(-(-row.whole("prompt_tokens") // BLOCK_TOKENS)))


def _even(case: Case, parts: Parts, rate: float, measured: dict[str, Any], point: Point) -> Trial:
    workload = {
        "arrivals": {"process": "constant", "rate_per_s": rate},
        "prompts": round(case.number_at("measured", point.stage, "prompt_tokens_mean")),
        "outputs": round(case.number_at("measured", point.stage, "output_tokens_mean")),
        "sampling": "greedy",
    }
    flags = (*parts.flags, "the recording is missing: evenly spaced requests of the mean lengths")
    return Trial(
        parts.scenario(f"{case.id}-{point.stage}", workload, int(measured["n_requests"])), (point,), flags=flags
    )
