"""Runs published with DistServe: Poisson arrivals of ShareGPT lengths at several rates, recorded per request."""

from __future__ import annotations

import re
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import recorded_options, tensor_of
from servetwin.studies.validation.recordings import Recorded, recording, replayed
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.trial import Point, Trial, metrics_of

_COLUMNS = ("config", "rate_rps", "issue_s", "prompt_tokens", "output_tokens", "latency_ms")


def distserve_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """A run for each rate of an aggregated engine: the recorded requests, else Poisson ones of the mean lengths."""
    tensor, _ = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    parts.options = recorded_options(case)
    configuration = case.id.rsplit("-", 1)[-1]
    recorded = recording(case, case.find("workload", "per_request_trace"), _COLUMNS)
    runs = _runs([row for row in recorded or () if row["config"] == configuration])
    trials = []
    for stage, measured in case.measured.items():
        rate, count = _stage(case, stage)
        point = Point(stage, metrics_of(measured))
        rows = runs.get((rate, count))
        if recorded is not None and rows is None:
            raise case.error("the recording has no run of this rate and length", "measured", stage)
        trials.append(_replayed(case, parts, rows, point) if rows else _synthetic(case, parts, rate, count, point))
    return trials


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


def _replayed(case: Case, parts: Parts, recorded: list[Recorded], point: Point) -> Trial:
    rows, measured = replayed(
        recorded, arrival="issue_s", prompt="prompt_tokens", output="output_tokens", took_ms=("latency_ms",)
    )
    scenario = parts.scenario(f"{case.id}-{point.stage}", {"sampling": "greedy"})
    return Trial(scenario, (point,), rows, measured, tuple(parts.flags))


def _synthetic(case: Case, parts: Parts, rate: float, count: int, point: Point) -> Trial:
    workload: dict[str, Any] = {
        "arrivals": {"rate_per_s": rate},
        "prompts": round(case.number_at("measured", point.stage, "prompt_tokens_mean")),
        "outputs": round(case.number_at("measured", point.stage, "output_tokens_mean")),
        "sampling": "greedy",
    }
    flags = (*parts.flags, "the recording is missing: Poisson arrivals of the mean lengths")
    return Trial(parts.scenario(f"{case.id}-{point.stage}", workload, count), (point,), flags=flags)
