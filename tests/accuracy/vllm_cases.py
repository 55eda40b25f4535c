"""The measured vLLM 0.15.1 runs beside the repository, as scenarios of servetwin, and how far its answers are off."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import servetwin

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / "shared" / "validation" / "cases.json"
SCORED_SET = "vllm-0.15.1"

PROMPT_GROWTH = 1.047
"""Prompt tokens as the engine counted them over those that the load generator was asked for. It draws random tokens,
and their text is tokenised once more. The mean of the ten runs that record both; stands for the runs that do not."""
QUESTION_STD = 7.0
"""Standard deviation of the prompt lengths in the same ten runs [tokens]."""

SAMPLES_TOP_P = ("llama-2", "llama-3", "qwen")
"""How the names of models begin that ship a generation_config.json with top-p or top-k, vLLM's default for them."""

METRICS = ("tpot mean", "ttft mean", "ttft p99", "e2e mean")


@dataclass(frozen=True)
class Stage:
    """One line of the score: a stage of a run, or all of it.

    Attributes:
        name: ``summary``, ``stage_0``, …
        predicted: by metric [ms].
        measured: by metric [ms].
    """

    name: str
    predicted: dict[str, float]
    measured: dict[str, float]

    def error(self, metric: str) -> float:
        """Signed relative error [%]."""
        return 100.0 * (self.predicted[metric] / self.measured[metric] - 1.0)


@dataclass(frozen=True)
class Score:
    """How far a run is off.

    Attributes:
        case: the case's id.
        hardware: its GPU, as the case names it.
        summary: the whole run.
        stages: its stages.
    """

    case: str
    hardware: str
    summary: Stage
    stages: list[Stage] = field(default_factory=list)


def read_cases(path: Path = CASES) -> list[dict[str, Any]]:
    """The public cases with thresholds, by id.

    Raises:
        OSError, ValueError, KeyError: the file cannot be read, or holds none.
    """
    cases = [case for case in json.loads(path.read_text(encoding="utf-8"))["cases"] if scored(case)]
    if not cases:
        raise ValueError(f"{path} has no case of the set {SCORED_SET}")
    return cases


def scored(case: Mapping[str, Any]) -> bool:
    """Whether the case belongs to the set with thresholds."""
    return case.get("scored_set") == SCORED_SET and bool(case["usable_for_scoring"])


def scenario_of(case: Mapping[str, Any], *, part: float = 1.0, seed: int = 0) -> dict[str, Any]:
    """The scenario that stands for a case.

    Args:
        case: the case.
        part: share of each stage's length that is simulated, 0 to 1.
        seed: of the random streams.
    """
    work, engine = case["workload"], case["engine_config"]
    options: dict[str, Any] = {
        name: engine[name]
        for name in (
            "max_num_batched_tokens", "max_num_seqs", "max_model_len", "block_size", "prefix_caching",
            "chunked_prefill",
        )
        if engine.get(name) is not None
    }  # fmt: skip
    if engine.get("gpu_kv_blocks"):
        options["num_gpu_blocks_override"] = engine["gpu_kv_blocks"]
    else:
        options["gpu_memory_utilization"] = engine["gpu_memory_utilization"]
    system, nominal = work["system_prompt_tokens"], work["system_prompt_tokens"] + work["question_tokens"]
    total = case["measured"]["summary"].get("prompt_tokens_mean") or PROMPT_GROWTH * nominal
    return {
        "name": case["id"],
        "model": case["model"],
        "engine": {"name": "vllm", "version": case["engine"].split()[-1]},
        "cluster": {
            "replicas": 1,
            "hardware": case["hardware"],
            "parallel": {"tensor": case["tp"]},
            "engine": options,
        },
        "workload": {
            "arrivals": {
                "process": "staged",
                "exact_counts": True,
                "stages": [
                    {"rate_per_s": float(stage["rate_rps"]), "duration_s": stage["duration_s"] * part}
                    for stage in work["stages"]
                ],
            },
            "prefixes": {
                "groups": work["prefix_groups_effective"],
                "tokens": system,
                "prompts_per_group": work["prompts_per_group_effective"],
                "order": "cycled",
            },
            "prompts": {"distribution": "normal", "mean": total - system, "std": QUESTION_STD},
            "outputs": work["output_tokens_configured"],
            "sampling": "top-p" if case["model"].split("/")[-1].lower().startswith(SAMPLES_TOP_P) else "greedy",
        },
        "run": {"seed": seed},
    }


def score(case: Mapping[str, Any], *, part: float = 1.0, seed: int = 0, skip: int = 0) -> Score:
    """Simulate a case and compare.

    Args:
        case: the case.
        part: share of each stage's length that is simulated, 0 to 1; all of it for the summary's p99 to mean anything.
        seed: of the random streams.
        skip: how many of the first requests, which fill the cache, are left out of every stage.
    """
    scenario = scenario_of(case, part=part, seed=seed)
    requests = servetwin.run(scenario).requests()
    if (requests["outcome"] != "completed").any():
        raise ValueError(f"{case['id']}: {(requests['outcome'] != 'completed').sum()} requests did not complete")
    requests = requests.iloc[skip:]
    stages, start = [], 0.0
    for number, stage in enumerate(scenario["workload"]["arrivals"]["stages"]):
        end = start + stage["duration_s"]
        inside = (requests["arrival_s"] >= start) & (requests["arrival_s"] < end)
        stages.append(_stage(f"stage_{number}", requests[inside], case["measured"]))
        start = end
    return Score(case["id"], case["hardware"], _stage("summary", requests, case["measured"]), stages)


def mean_score(scores: Sequence[Score]) -> Score:
    """The mean of what several seeds predict for one case."""
    first = scores[0]
    stages = [_mean_stage([item.stages[number] for item in scores]) for number in range(len(first.stages))]
    return Score(first.case, first.hardware, _mean_stage([item.summary for item in scores]), stages)


def _mean_stage(stages: Sequence[Stage]) -> Stage:
    predicted = {metric: sum(stage.predicted[metric] for stage in stages) / len(stages) for metric in METRICS}
    return Stage(stages[0].name, predicted, stages[0].measured)


def _stage(name: str, requests: Any, measured: Mapping[str, Any]) -> Stage:
    """Means and the 99th percentile over requests, as the cases define them: TPOT is (E2E − TTFT)/(outputs − 1)."""
    ttft, e2e = requests["ttft_ms"], requests["e2e_ms"]
    tpot = (e2e - ttft) / (requests["output_tokens"] - 1)
    truth = measured[name]
    return Stage(
        name,
        {
            "tpot mean": float(tpot.mean()),
            "ttft mean": float(ttft.mean()),
            "ttft p99": float(ttft.quantile(0.99)),
            "e2e mean": float(e2e.mean()),
        },
        {metric: float(truth[f"{metric.split()[0]}_ms"][metric.split()[1]]) for metric in METRICS},
    )


def mean_absolute_error(scores: Sequence[Score], metric: str) -> float:
    """Mean of the absolute relative errors of the runs [%]."""
    return sum(abs(item.summary.error(metric)) for item in scores) / len(scores)
