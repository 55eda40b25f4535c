"""What a case becomes: runs of the simulator, and the measured points that each of them predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "transfer_ms")
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


class NotYet(Exception):
    """This version cannot simulate the case.

    Args:
        reason: what it would need, in one sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Row(NamedTuple):
    """A request of a recording.

    Attributes:
        arrival_s: when it came, from the first one on [s].
        prompt_tokens: tokens of its prompt.
        output_tokens: tokens of its answer.
        blocks: an id for every 16 tokens of the prompt; prompts share as far as these agree. Empty: nothing is shared.
    """

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


BLOCK_TOKENS = 16
"""Tokens that an id of ``Row.blocks`` stands for."""


@dataclass(frozen=True, slots=True)
class Point:
    """Measured figures of one stage, and the requests of a run that predict them.

    Attributes:
        stage: its name in the case.
        measured: by metric, such as ``ttft_ms.mean``; in the unit of the metric.
        first: the first of its requests, in order of arrival.
        last: the one behind its last; None = to the end.
        gpus: what tokens per second are divided by.
        since: where a request's time starts: at the router, or when the engine has it queued.
        whole_batch: whether TTFT and E2E are those of the last request of the batch, not of each.
        scored: whether it counts: not where a figure of it went into the prediction.
        deployment: what serves, in a case that compares deployments under the same load; empty in all others.
    """

    stage: str
    measured: Mapping[str, float]
    first: int = 0
    last: int | None = None
    gpus: int = 1
    since: Literal["arrival", "engine"] = "arrival"
    whole_batch: bool = False
    scored: bool = True
    deployment: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the simulator, or several that differ in their random numbers.

    Attributes:
        scenario: as a file would hold it.
        points: what it predicts.
        rows: a recording to replay, in order of arrival; empty = the scenario's own workload.
        measured_e2e_ms: what each request of the recording took [ms], for errors per request; empty = not known.
        flags: what was assumed, a word or two each.
        full_length_seats: seats are as many requests of this prompt and output [tokens] as the KV cache holds; None =
            the scenario says how many.
        acceptance: whether the acceptance of drafts was ``measured`` or is ``inferred``; empty = nobody drafts.
        draws: runs over which predictions are averaged, each with the seed after the last: where few requests are drawn
            at random, one run of them says little of the next.
    """

    scenario: Mapping[str, Any]
    points: tuple[Point, ...]
    rows: tuple[Row, ...] = ()
    measured_e2e_ms: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()
    full_length_seats: int | None = None
    acceptance: str = ""
    draws: int = 1


@dataclass(slots=True)
class Outcome:
    """What came of a trial.

    Attributes:
        predicted: by stage and metric.
        missing: why a stage has no prediction, by stage.
        per_request_error_pct: median over requests of the absolute error of E2E [%]; None = not known.
        per_request_n: requests that it rests on.
        warnings: what the run says about itself.
        inferred: acceptance that was inferred, by what it is of.
    """

    predicted: dict[str, dict[str, float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    per_request_error_pct: float | None = None
    per_request_n: int = 0
    warnings: tuple[str, ...] = ()
    inferred: dict[str, float] = field(default_factory=dict)


def metrics_of(measured: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a stage under the names that are scored.

    ``mean_or_median`` and a time of transfers that is a plain number count as the mean, output tokens per second and
    per GPU as ``output_throughput``. What has no such name (counts, rates of arrival, figures of other definitions) is
    left out.

    >>> metrics_of({"tpot_ms": {"mean_or_median": 7.0}, "output_tok_s_per_gpu": 90, "n_runs": 1})
    {'tpot_ms.mean': 7.0, 'output_throughput': 90.0}
    """
    found: dict[str, float] = {}
    for name in LATENCIES:
        values = measured.get(name)
        if name == "transfer_ms" and _positive(values):
            values = {"mean": values}
        if not isinstance(values, Mapping):
            continue
        for key, value in values.items():
            statistic = "mean" if key == "mean_or_median" else key
            if statistic in STATISTICS and _positive(value):
                found[f"{name}.{statistic}"] = float(value)
    for name in ("output_throughput_tok_s", "output_throughput_tok_s_true", "output_tok_s_per_gpu"):
        value = measured.get(name)
        if _positive(value):
            assert value is not None
            found["output_throughput"] = float(value)
    return found


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
