"""Runs published with DistServe: Poisson arrivals of ShareGPT lengths at several rates, recorded per request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import recorded_options, tensor_of
from servetwin.studies.validation.kinds.workers import Workers, apart
from servetwin.studies.validation.recordings import Recorded, recording, replayed
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.trial import Point, Trial, metrics_of

_COLUMNS = ("config", "rate_rps", "issue_s", "prompt_tokens", "output_tokens", "latency_ms")


class Placement(NamedTuple):
    """Degrees of the two stages.

    Attributes:
        context: tensor and pipeline degree of the GPUs that prefill.
        decoding: of those that decode.
    """

    context: tuple[int, int]
    decoding: tuple[int, int]


THREE_GPUS, FOUR_GPUS = Placement((2, 1), (1, 1)), Placement((2, 1), (1, 2))
"""How the artifact of the paper starts OPT-13B (evaluation/2-benchmark-serving/2-start-api-server.py of
github.com/LLMServe/DistServe), and what the series runs on four GPUs."""

CONTEXT: Mapping[str, Any] = {"max_num_seqs": 128, "max_num_batched_tokens": 8192, "chunked_prefill": False}
DECODING: Mapping[str, Any] = {"max_num_seqs": 1024, "max_num_batched_tokens": 65_536, "chunked_prefill": False}
"""``--context-max-batch-size`` and so on (same place). Prompts are never cut."""

ROOM: Mapping[str, Mapping[int, int]] = {"opt-13b": {1: 66_144, 2: 163_008, 4: 356_736}}
"""KV room by model and GPUs [tokens] at ``--gpu-memory-utilization 0.95``: table
simdistserve/estimators/profile_data/max_num_tokens.csv of the same repository."""

WAITING = 0.05
"""Share of the decoding blocks that requests hold which were fetched and do not run yet
(``waiting_block_prop_threshold`` of distserve/config.py): a request is fetched whenever they hold less, so that under
load they are never free."""

_BLOCK_TOKENS = 16


def distserve_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """A run for each rate: the recorded requests, else Poisson ones of the mean lengths.

    Of DistServe itself with a context and a decoding stage: the first token is of the context stage, whose blocks are
    kept until the decoding stage has fetched them over NVLink. It swaps where blocks run out, and does not decode while
    it fetches; here it computes again, and decodes.
    """
    split = case.kind == "pd"
    parts = parts_of(case, catalog, parallel={} if split else {"tensor": tensor_of(case)[0]})
    parts.options = recorded_options(case)
    if split:
        parts.flags += [
            f"DistServe: the overheads of {parts.calibration}, but the loop of vLLM V1",
            "DistServe swaps and stops to fetch: recomputed, and fetched meanwhile",
        ]
    configuration = re.sub(r"^.*opt13b-", "", case.id) if split else case.id.rsplit("-", 1)[-1]
    recorded = recording(case, case.find("workload", "per_request_trace"), _COLUMNS)
    runs = _runs([row for row in recorded or () if row["config"] == configuration])
    trials = []
    for stage, measured in case.measured.items():
        rate, count = _stage(case, stage)
        point = Point(stage, metrics_of(measured))
        rows = runs.get((rate, count))
        if recorded is not None and rows is None:
            raise case.error("the recording has no run of this rate and length", "measured", stage)
        flags = list(parts.flags)
        placement = _placement(case, rate, flags) if split else None
        trials.append(
            _replayed(case, parts, placement, rows, point, flags)
            if rows
            else _synthetic(case, parts, placement, rate, count, point, flags)
        )
    return trials


def _placement(case: Case, rate: float, flags: list[str]) -> Placement:
    """The degrees that a case or the name of its files says, as ``c21d11``; else those of the artifact.

    Of the runs whose files do not say their placement most have the rates of three GPUs, multiples of 1.5 requests/s.
    Those at 4 and 8 requests/s have the rates of four, whole requests per second and GPU (total_gpu=4 and
    per_gpu_rate of OPT-13B in simdistserve/benchmarks/figure11-abalation), and at 8 three would be full, as they are
    at 7.5.
    """
    text = f"{case.id} {case.fields['engine']}"
    found = re.search(r"-c(\d)(\d)d(\d)(\d)|context TP(\d+)xPP(\d+), decode TP(\d+)xPP(\d+)", text)
    if found:
        degrees = [int(degree) for degree in found.groups() if degree]
        return Placement((degrees[0], degrees[1]), (degrees[2], degrees[3]))
    placement = FOUR_GPUS if rate % 1.5 and not rate % 4 else THREE_GPUS
    flags.append("placement not recorded: context TP2, decoding TP1, at 4 and 8 requests/s of two pipeline stages")
    return placement


def _scenario(
    parts: Parts, placement: Placement | None, name: str, workload: dict[str, Any], count: int | None = None
) -> dict[str, Any]:
    if placement is None:
        return parts.scenario(name, workload, count)
    return apart(
        parts, name, workload, count,
        prefill=_workers(parts, placement.context, CONTEXT, 1.0),
        decode=_workers(parts, placement.decoding, DECODING, 1.0 - WAITING),
        transfer={"mode": "pull", "first_token": "prefill"},
    )  # fmt: skip


def _workers(parts: Parts, degrees: tuple[int, int], options: Mapping[str, Any], share: float) -> Workers:
    tensor, pipeline = degrees
    room = ROOM.get(parts.model, {}).get(tensor * pipeline)
    found = {**options, **({"num_gpu_blocks_override": int(share * room) // _BLOCK_TOKENS} if room else {})}
    if pipeline > 1:
        # Each batch in the pipeline keeps its requests, and new ones join the batch whose turn it is.
        found["pipeline_batches"] = "balanced"
    return Workers(1, {"tensor": tensor, "pipeline": pipeline}, found)


def _stage(case: Case, stage: str) -> tuple[float, int]:
    found = re.fullmatch(r"rate_([\d.]+)_n(\d+)", stage)
    if found is None:
        raise case.error("a stage of DistServe is called rate_RATE_nREQUESTS", "measured", stage)
    return float(found[1]), int(found[2])


def _runs(recorded: list[Recorded]) -> dict[tuple[float, int], list[Recorded]]:
    """The runs one after the other: a new one begins where the rate changes or the clock starts again."""
    runs: list[list[Recorded]] = []
    for row in recorded:
        last = runs[-1][-1] if runs else None
        if last is None or row["rate_rps"] != last["rate_rps"] or row.number("issue_s") < last.number("issue_s"):
            runs.append([])
        runs[-1].append(row)
    return {(run[0].number("rate_rps"), len(run)): run for run in runs}


def _replayed(
    case: Case, parts: Parts, placement: Placement | None, recorded: list[Recorded], point: Point, flags: list[str]
) -> Trial:
    rows, measured = replayed(
        recorded, arrival="issue_s", prompt="prompt_tokens", output="output_tokens", took_ms=("latency_ms",)
    )
    scenario = _scenario(parts, placement, f"{case.id}-{point.stage}", {"sampling": "greedy"})
    return Trial(scenario, (point,), rows, measured, tuple(flags))


def _synthetic(
    case: Case, parts: Parts, placement: Placement | None, rate: float, count: int, point: Point, flags: list[str]
) -> Trial:
    workload: dict[str, Any] = {
        "arrivals": {"rate_per_s": rate},
        "prompts": round(case.number_at("measured", point.stage, "prompt_tokens_mean")),
        "outputs": round(case.number_at("measured", point.stage, "output_tokens_mean")),
        "sampling": "greedy",
    }
    flags.append("the recording is missing: Poisson arrivals of the mean lengths")
    scenario = _scenario(parts, placement, f"{case.id}-{point.stage}", workload, count)
    return Trial(scenario, (point,), flags=tuple(flags))
