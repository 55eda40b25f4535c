"""Runs published with DistServe: Poisson arrivals of ShareGPT lengths at several rates, recorded per request."""

from __future__ import annotations

import re
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import recorded_options, tensor_of
from servetwin.studies.validation.recordings import Cells, from_first, number, recording
from servetwin.studies.validation.settings import Parts, parts_of
from servetwin.studies.validation.trial import Point, Row, Trial, metrics_of

_COLUMNS = ("config", "rate_rps", "issue_s", "prompt_tokens", "output_tokens", "latency_ms")


def distserve_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """A run for each rate of an aggregated engine: the recorded requests, else Poisson ones of the mean lengths."""
    tensor, _ = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    parts.options = recorded_options(case)
    configuration = case.id.rsplit("-", 1)[-1]
    recorded = recording(case, case.find("workload", "per_request_trace"), _COLUMNS)
    runs = _runs([cells for cells in recorded or () if cells["config"] == configuration])
    trials = []
    for stage, measured in case.measured.items():
        rate, count = _stage(case, stage)
        point = Point(stage, metrics_of(measured))
        rows = runs.get((rate, count))
        if recorded is not None and rows is None:
            raise case.error("the recording has no run of this rate and length", "measured", stage)
        trials.append(
            _replayed(case, parts, rows, point) if rows else _synthetic(case, parts, rate, count, point)
        )  # fmt: skip
    return trials


def _stage(case: Case, stage: str) -> tuple[float, int]:
    found = re.fullmatch(r"rate_([\d.]+)_n(\d+)", stage)
    if found is None:
        raise case.error("a stage of DistServe is called rate_RATE_nREQUESTS", "measured", stage)
    return float(found[1]), int(found[2])


def _runs(recorded: list[Cells]) -> dict[tuple[float, int], list[Cells]]:
    """The runs one after the other: a new one begins where the rate changes or the clock starts again."""
    runs: list[list[Cells]] = []
    for cells in recorded:
        last = runs[-1][-1] if runs else None
        if last is None or cells["rate_rps"] != last["rate_rps"] or number(cells, "issue_s") < number(last, "issue_s"):
            runs.append([])
        runs[-1].append(cells)
    return {(number(run[0], "rate_rps"), len(run)): run for run in runs}


def _replayed(case: Case, parts: Parts, recorded: list[Cells], point: Point) -> Trial:
    rows = from_first(
        Row(number(cells, "issue_s"), int(number(cells, "prompt_tokens")), int(number(cells, "output_tokens")))
        for cells in recorded
    )
    measured = tuple(number(cells, "latency_ms") for cells in sorted(recorded, key=lambda c: number(c, "issue_s")))
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
