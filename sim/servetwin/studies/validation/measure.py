"""The figures of a run as a case has them: latencies of a range of requests, tokens per second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servetwin.studies.validation.trial import Outcome, Point, Trial

if TYPE_CHECKING:
    import pandas as pd

    from servetwin.results.result import Result

_QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def measure(trial: Trial, result: Result) -> Outcome:
    """What a run predicts of the points of its trial.

    TPOT is (E2E − TTFT)/(output tokens − 1) per request, percentiles are over requests, and output tokens per second
    count from the first arrival to the last token.

    Args:
        trial: the trial.
        result: its run.
    """
    requests = result.requests().sort_values("arrival_s", kind="stable", ignore_index=True)
    outcome = Outcome()
    incomplete = int((requests["outcome"] != "completed").sum())
    named = [text for text in result.warnings if "(check " in text]
    if incomplete:
        named.append(f"{incomplete:,} of {len(requests):,} requests did not complete and are left out")
    outcome.warnings = tuple(named)
    for point in trial.points:
        chosen = requests.iloc[point.first : point.last]
        chosen = chosen[chosen["outcome"] == "completed"]
        if chosen.empty:
            outcome.missing[point.stage] = "no request of it completed"
        else:
            outcome.predicted[point.stage] = predicted(chosen, point, result)
    if trial.measured_e2e_ms and len(trial.measured_e2e_ms) == len(requests):
        _per_request(outcome, requests, trial.measured_e2e_ms, trial.points[0].since)
    return outcome


def predicted(requests: pd.DataFrame, point: Point, result: Result) -> dict[str, float]:
    """The figures of a point that have a value.

    Args:
        requests: the completed requests of the point.
        point: the point.
        result: the run, for gaps between tokens, which are pooled over all of it.
    """
    times = _times(requests, point.since)
    found: dict[str, float] = {}
    for metric in point.measured:
        name, _, statistic = metric.partition(".")
        if metric == "output_throughput":
            span_s = float(requests["last_token_s"].max() - requests["arrival_s"].min())
            value = float(requests["output_tokens"].sum()) / span_s / point.gpus if span_s > 0 else None
        elif metric == "input_throughput":
            span_s = float(requests["last_token_s"].max() - requests["arrival_s"].min())
            value = float(requests["prompt_tokens"].sum()) / span_s / point.gpus if span_s > 0 else None
        elif name == "itl_ms":
            value = result.summary().get(metric) if point.first == 0 and point.last is None else None
        elif point.whole_batch and name != "tpot_ms":
            value = float(times[name].max())
        else:
            values = times[name].dropna()
            quantile = _QUANTILES.get(statistic)
            value = None if values.empty else float(values.mean() if quantile is None else values.quantile(quantile))
        if value is not None:
            found[metric] = value
    return found


def _times(requests: pd.DataFrame, since: str) -> dict[str, pd.Series[float]]:
    """TTFT, TPOT, E2E and the transfer of its KV cache of each request [ms]."""
    ttft, e2e = requests["ttft_ms"], requests["e2e_ms"]
    if since == "engine":
        before = (requests["queued_s"] - requests["arrival_s"]) * 1000.0
        ttft, e2e = ttft - before, e2e - before
    transfer = (requests["transfer_end_s"] - requests["transfer_start_s"]) * 1000.0
    return {"ttft_ms": ttft, "tpot_ms": requests["tpot_ms"], "e2e_ms": e2e, "transfer_ms": transfer}


def _per_request(outcome: Outcome, requests: pd.DataFrame, measured: tuple[float, ...], since: str) -> None:
    """The median over requests of the absolute error of E2E; requests that were not measured are left out."""
    import numpy as np

    simulated = _times(requests, since)["e2e_ms"].to_numpy()
    truth = np.asarray(measured)
    good = (requests["outcome"] == "completed").to_numpy() & (truth > 0) & np.isfinite(truth)
    if good.any():
        errors = np.abs(simulated[good] / truth[good] - 1.0)
        outcome.per_request_error_pct = float(100.0 * np.median(errors))
        outcome.per_request_n = int(good.sum())
