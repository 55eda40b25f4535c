"""Runs of inference-perf: staged Poisson arrivals, a hundred prompts in turn, fixed outputs."""

from __future__ import annotations

from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import recorded_options, tensor_of
from servetwin.studies.validation.recordings import Recorded, recording, replayed
from servetwin.studies.validation.serving import Parts, parts_of
from servetwin.studies.validation.trial import BLOCK_TOKENS, Point, Trial, metrics_of

PROMPT_GROWTH = 1.047
"""Prompt tokens as the engine counted them over those that the load generator was asked for. It draws random tokens,
and their text is tokenised once more. The mean of the ten runs that record both; stands for the runs that do not."""

QUESTION_STD = 7.0
"""Standard deviation of the prompt lengths in the same ten runs [tokens]."""

SAMPLES_TOP_P = ("llama-2", "llama-3", "qwen")
"""How the names of models begin that ship a generation_config.json with top-p or top-k, vLLM's default for them."""

_COLUMNS = ("arrival_s", "prompt_tokens", "prompt_id_guess", "e2e_ms")
_WARM_UP = 100
"""Requests until every prompt has come once."""


def inference_perf_trials(case: Case, catalog: Catalog) -> list[Trial]:
    """The run that stands for a case: its recorded requests, else arrivals and lengths like them."""
    tensor, _ = tensor_of(case)
    parts = parts_of(case, catalog, parallel={"tensor": tensor})
    parts.options = recorded_options(case)
    counts = [round(_rate(case, n) * _duration(case, n)) for n in range(len(case.need("workload", "stages")))]
    rows = recording(case, case.find("workload", "per_request_trace"), _COLUMNS)
    points = tuple(_points(case, counts))
    if rows is not None:
        return [_replayed(case, parts, rows, points)]
    if case.find("workload", "per_request_trace"):
        parts.flags.append("the recording is missing: arrivals and lengths like it")
    arrivals = {
        "process": "staged",
        "exact_counts": True,
        "stages": [{"rate_per_s": _rate(case, n), "duration_s": _duration(case, n)} for n in range(len(counts))],
    }
    system = int(case.number_at("workload", "system_prompt_tokens"))
    nominal = system + int(case.number_at("workload", "question_tokens"))
    total = float(case.find("measured", "summary", "prompt_tokens_mean") or PROMPT_GROWTH * nominal)
    workload = {
        "arrivals": arrivals,
        "prefixes": {
            "groups": int(case.number_at("workload", "prefix_groups_effective")),
            "tokens": system,
            "prompts_per_group": int(case.number_at("workload", "prompts_per_group_effective")),
            "order": "cycled",
        },
        "prompts": {"distribution": "normal", "mean": total - system, "std": QUESTION_STD},
        "outputs": int(case.number_at("workload", "output_tokens_configured")),
        "sampling": _sampling(case),
    }
    return [Trial(parts.scenario(case.id, workload), points, flags=tuple(parts.flags))]


def _replayed(case: Case, parts: Parts, recorded: tuple[Recorded, ...], points: tuple[Point, ...]) -> Trial:
    system = int(case.number_at("workload", "system_prompt_tokens"))
    groups = int(case.number_at("workload", "prefix_groups_effective"))
    outputs = int(case.number_at("workload", "output_tokens_configured"))
    rows, measured = replayed(
        recorded,
        arrival="arrival_s",
        prompt="prompt_tokens",
        output=outputs,
        took_ms=("e2e_ms",),
        blocks=lambda row: _blocks(row.whole("prompt_id_guess"), groups, system, row.whole("prompt_tokens")),
    )
    scenario = parts.scenario(case.id, {"sampling": _sampling(case)})
    return Trial(scenario, points, rows, measured, tuple(parts.flags))


def _blocks(prompt: int, groups: int, system_tokens: int, tokens: int) -> tuple[int, ...]:
    """Ids of the blocks of a prompt: those of its group's system prompt, then its own."""
    shared = system_tokens // BLOCK_TOKENS
    group = prompt % groups
    count = -(-tokens // BLOCK_TOKENS)
    own = (10_000_000 + prompt * 100_000 + place for place in range(shared, count))
    return (*(group * 100_000 + place for place in range(min(shared, count))), *own)


def _points(case: Case, counts: list[int]) -> list[Point]:
    """The whole run, its stages by their number of requests, and the requests that fill the cache apart."""
    places: dict[str, tuple[int, int | None]] = {"summary": (0, None)}
    first = 0
    for stage, count in enumerate(counts):
        places[f"stage_{stage}"] = (first, first + count)
        first += count
    if len(counts) == 1:
        # Of runs with more stages, these 300 are not the first 300 that arrived, and which ones is not recorded.
        places["summary_first300"] = (0, 300)
    places["warmup_first_100_requests"] = (0, _WARM_UP)
    places["after_first_100_requests"] = (_WARM_UP, None)
    found = []
    for name, (start, end) in places.items():
        measured = case.measured.get(name)
        if isinstance(measured, dict):
            metrics = metrics_of(measured)
            if name != "summary":
                # Where a stage's first and last completions lie, the run's own definition decides.
                metrics.pop("output_throughput", None)
            found.append(Point(name, metrics, start, end))
    return found


def _rate(case: Case, stage: int) -> float:
    return _stage_number(case, stage, "rate_rps")


def _duration(case: Case, stage: int) -> float:
    return _stage_number(case, stage, "duration_s")


def _stage_number(case: Case, stage: int, name: str) -> float:
    stages: Any = case.need("workload", "stages")
    value = stages[stage].get(name) if isinstance(stages, list) and isinstance(stages[stage], dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise case.error("a number above 0 is expected", "workload", "stages", str(stage), name, found=value)
    return float(value)


def _sampling(case: Case) -> str:
    name = case.fields["model"].split("/")[-1].lower()
    return "top-p" if name.startswith(SAMPLES_TOP_P) else "greedy"
