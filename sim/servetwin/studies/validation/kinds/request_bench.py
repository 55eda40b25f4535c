"""Benches that record every request: LLMServingSim's, of real vLLM."""

from __future__ import annotations

import re

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import recorded_options, tensor_of
from servetwin.studies.validation.recordings import recording, replayed
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.trial import Point, Trial, metrics_of

_COLUMNS = ("actual_arrival_s", "input_tokens", "output_tokens", "latency_ms")


def request_bench_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """The run that stands for a case: its recorded arrivals and lengths.

    Latencies count from the moment at which the engine has queued a request, as the bench measured them. What prompts
    share is not in the recording: nothing is shared.
    """
    tensor, _ = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    parts.options = recorded_options(case)
    point = Point("summary", metrics_of(case.need("measured", "summary")), since="engine")
    recorded = recording(case, case.find("workload", "per_request_csv"), _COLUMNS)
    if recorded is None:
        return [_without_recording(case, parts, point)]
    rows, measured = replayed(
        recorded, arrival="actual_arrival_s", prompt="input_tokens", output="output_tokens", took_ms=("latency_ms",)
    )
    return [Trial(parts.scenario(case.id, {"sampling": "greedy"}), (point,), rows, measured, tuple(parts.flags))]


def _without_recording(case: Case, parts: Parts, point: Point) -> Trial:
    requests = int(case.number_at("workload", "n_requests"))
    found = re.search(r"([\d.]+)\s*req", str(case.need("workload", "arrival")))
    if found is None:
        raise case.error("a rate is expected, for the recording is missing", "workload", "arrival")
    parts.flags.append("the recording is missing: Poisson arrivals and lengths by their percentiles")
    workload = {
        "arrivals": {"rate_per_s": float(found[1])},
        "prompts": _lengths(case, "prompt_tokens"),
        "outputs": _lengths(case, "output_tokens"),
        "sampling": "greedy",
    }
    return Trial(parts.scenario(case.id, workload, requests), (point,), flags=tuple(parts.flags))


def _lengths(case: Case, field: str) -> dict[str, object]:
    """Lengths between the recorded percentiles; below the median down to 1 token."""
    p50, p90, p99 = (round(case.number_at("workload", field, name)) for name in ("p50", "p90", "p99"))
    # The shortest is unknown: what makes the mean of the lower half come out near half the median's.
    return {
        "distribution": "percentiles",
        "points": [[0, max(1, p50 // 4)], [50, p50], [90, p90], [99, p99], [100, p99]],
    }
