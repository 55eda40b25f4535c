"""The measured vLLM 0.15.1 runs beside the repository, and how far servetwin's answers are off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from servetwin.catalog import Catalog
from servetwin.studies.validation import Case, Settings, read_case_file
from servetwin.studies.validation.kinds.inference_perf import inference_perf_trials
from servetwin.studies.validation.one_run import run_trial

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / "shared" / "validation" / "cases.json"
SCORED_SET = "vllm-0.15.1"

METRICS = ("tpot_ms.mean", "ttft_ms.mean", "ttft_ms.p99", "e2e_ms.mean")

CATALOG = Catalog()


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
        per_request: median over requests of the absolute error of E2E [%], where a recording was replayed.
    """

    case: str
    hardware: str
    summary: Stage
    stages: list[Stage] = field(default_factory=list)
    per_request: float | None = None


def read_cases(path: Path = CASES) -> list[Case]:
    """The public cases with thresholds, in the file's order.

    Raises:
        InputError: the file cannot be read.
        ValueError: it holds none.
    """
    cases = [case for case in read_case_file(path).cases if case.set_name == SCORED_SET and case.usable]
    if not cases:
        raise ValueError(f"{path} has no case of the set {SCORED_SET}")
    return cases


def score(case: Case, *, part: float = 1.0, seed: int = 0) -> Score:
    """Simulate a case and compare.

    Args:
        case: the case.
        part: share of each stage's length that is simulated, 0 to 1; all of it for the summary's p99 to mean anything.
        seed: of the random streams.
    """
    (trial,) = inference_perf_trials(case, CATALOG, part=part)
    outcome = run_trial(trial, Settings(seed=seed), CATALOG)
    if outcome.missing or any("did not complete" in text for text in outcome.warnings):
        raise ValueError(f"{case.id}: {outcome.missing or outcome.warnings}")
    stages = {
        point.stage: Stage(point.stage, outcome.predicted[point.stage], dict(point.measured))
        for point in trial.points
        if all(metric in point.measured for metric in METRICS)
    }
    summary = stages.pop("summary")
    stages.pop("summary_first300", None)
    return Score(case.id, str(case.fields["hardware"]), summary, list(stages.values()), outcome.per_request_error_pct)


def mean_score(scores: Sequence[Score]) -> Score:
    """The mean of several runs of one case."""
    first = scores[0]
    stages = [_mean_stage([item.stages[number] for item in scores]) for number in range(len(first.stages))]
    return Score(first.case, first.hardware, _mean_stage([item.summary for item in scores]), stages)


def _mean_stage(stages: Sequence[Stage]) -> Stage:
    predicted = {metric: sum(stage.predicted[metric] for stage in stages) / len(stages) for metric in METRICS}
    return Stage(stages[0].name, predicted, stages[0].measured)


def mean_absolute_error(scores: Sequence[Score], metric: str) -> float:
    """Mean of the absolute relative errors of the runs [%]."""
    return sum(abs(item.summary.error(metric)) for item in scores) / len(scores)
