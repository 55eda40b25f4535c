"""The summary of a run: every metric under a stable, flat key; what is undefined is None.

Definitions follow ``vllm bench serve``. Latencies are those of completed requests without the warm-up; inter-token
gaps are pooled over requests, and those of steps that start before the first measured request arrives are left out.
Throughputs are rates over (last completion − first arrival) of everything completed in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servetwin.request import COMPLETED, OUTCOMES, REJECTED, UNFINISHED
from servetwin.results import slo
from servetwin.results.alerts import alerts
from servetwin.results.classes import by_class
from servetwin.results.drafts import DraftTable
from servetwin.results.exact import Bools, Ints, exact_sum
from servetwin.results.hand_over_summary import hand_over_summary
from servetwin.results.hand_overs import HandOverTable
from servetwin.results.ledger import Ledger
from servetwin.results.links import LinkTable
from servetwin.results.meta import RunMeta
from servetwin.results.percentiles import PERCENTS, STATISTICS, statistics
from servetwin.results.pools import ADVICE_KEYS, advice, by_pool, stranded
from servetwin.results.requests import Latencies, RequestTable
from servetwin.results.segments import RunSegments
from servetwin.results.timeseries import TimeSeries
from servetwin.units import PS_PER_S

HOST_KEYS = ("wall_s", "cpu_s", "started_at", "out")
"""The only keys that may differ between two runs of the same scenario."""

_ENERGY_METHOD = "approximation: TDP x busy share of the GPUs; idle power is left out"
_SECONDS_PER_HOUR = 3600
_MOST_IDS = 100


@dataclass(slots=True)
class SummaryInputs:
    """What a summary is made from.

    Attributes:
        meta: the run.
        requests: its requests.
        segments: its steps.
        series: its time series.
        ledger: where its GPU time went.
        end_ps: when it ended [ps].
        events: events that SimPy popped.
        drafts: what became of its drafts.
        hand_overs: how its requests got from replicas that prefill to replicas that decode.
        warnings: what the run itself had to say.
        interrupted: whether the user stopped it.
        links: what the links of the network carried; None without a topology.
    """

    meta: RunMeta
    requests: RequestTable
    segments: RunSegments
    series: TimeSeries
    ledger: Ledger
    end_ps: int
    events: int
    drafts: DraftTable
    hand_overs: HandOverTable
    warnings: list[str]
    interrupted: bool
    links: LinkTable | None = None


def summarise(run: SummaryInputs) -> dict[str, Any]:
    """All metrics of a run; those of ``HOST_KEYS`` are None."""
    arrival = run.requests.column("arrival_ps")
    measured = run.requests.measured(run.meta.warmup_requests)
    summary: dict[str, Any] = _identity(run)
    summary |= _outcomes(run, measured)
    summary |= _latencies(run)
    summary |= _throughput(run, arrival)
    summary |= _steady(run, arrival, measured)
    summary |= _per_unit(run, summary)
    everybody = np.ones(len(run.requests), bool)
    limits_ms = slo.request_limits(run.meta.slo)
    summary |= slo.attainment(run.requests, limits_ms, everybody, measured, summary["duration_s"])
    summary |= _cache(run)
    summary |= run.drafts.summary()
    summary |= _drafting(run)
    summary |= hand_over_summary(run.meta, run.requests, run.hand_overs, run.end_ps)
    summary |= _resources(run, summary["output_tokens"])
    summary |= _division(run)
    summary["links"] = {} if run.links is None else run.links.by_kind()
    summary["slo"] = slo.verdicts(summary, run.meta.slo)
    summary["classes"] = by_class(run.requests, run.meta, measured, summary["duration_s"])
    horizon = run.series.horizon_ps
    found = alerts(summary, run.requests, run.hand_overs, horizon, run.interrupted)
    summary["warnings"] = [*run.warnings, *found]
    return summary | dict.fromkeys(HOST_KEYS)


def _identity(run: SummaryInputs) -> dict[str, Any]:
    meta = run.meta
    return {
        "name": meta.name,
        "model": meta.model,
        "engine": meta.engine,
        "engine_version": meta.engine_version,
        "version": meta.version,
        "seed": meta.seed,
        "config_hash": meta.config_hash,
        "gpus": meta.gpus,
        "replicas": meta.replicas,
        "simulated_s": run.end_ps / PS_PER_S,
        "interrupted": run.interrupted,
        "events": run.events,
        "steps": run.segments.totals.steps,
    }


def _outcomes(run: SummaryInputs, measured: Bools) -> dict[str, Any]:
    table = run.requests
    found: dict[str, Any] = {"requests": len(table)}
    for outcome in OUTCOMES:
        found[outcome] = int(table.with_outcome(outcome).sum())
    unfinished = table.with_outcome(UNFINISHED)
    return found | {
        "rejected_reasons": table.reasons(REJECTED),
        "unfinished_requests": table.column("id")[unfinished][:_MOST_IDS].tolist(),
        "warmup_requests": int((~measured).sum()),
        "latency_requests": int((table.with_outcome(COMPLETED) & measured).sum()),
    }


def _latencies(run: SummaryInputs) -> dict[str, Any]:
    warmup = run.meta.warmup_requests
    times = Latencies(run.requests, warmup)
    gaps = run.segments.gaps(run.requests.measured_from_ps(warmup))
    middle = gaps.percentiles_ms(PERCENTS)
    itl = [gaps.mean_ms(), *middle, gaps.maximum_ms()]
    return {
        **statistics("ttft_ms", times.ttft_ms(), exact_sum(times.ttft_ps)),
        **statistics("tpot_ms", times.tpot_ms()),
        **{f"itl_ms.{statistic}": value for statistic, value in zip(STATISTICS, itl, strict=True)},
        **statistics("e2e_ms", times.e2e_ms(), exact_sum(times.e2e_ps)),
        **statistics("normalised_latency_ms", times.normalised_ms()),
        **statistics("queue_ms", times.queue_ms(), exact_sum(times.queue_ps)),
    }


def _rates(name: str, requests: int, read: int, written: int, seconds: float) -> dict[str, float | None]:
    def rate(number: int) -> float | None:
        return number / seconds if seconds > 0 else None

    return {
        f"{name}request_throughput_per_s": rate(requests),
        f"{name}input_throughput_tokens_per_s": rate(read),
        f"{name}output_throughput_tokens_per_s": rate(written),
        f"{name}total_throughput_tokens_per_s": rate(read + written),
    }


def _throughput(run: SummaryInputs, arrival: Ints) -> dict[str, Any]:
    table = run.requests
    done = table.with_outcome(COMPLETED)
    read = exact_sum(table.column("prompt_tokens")[done])
    written = exact_sum(table.column("output_tokens")[done])
    seconds = 0.0
    if done.any():
        seconds = (int(table.column("last_token_ps")[done].max()) - int(arrival.min())) / PS_PER_S
    return {
        "duration_s": seconds if done.any() else None,
        "input_tokens": read,
        "output_tokens": written,
        **_rates("", int(done.sum()), read, written, seconds),
    }


def _steady(run: SummaryInputs, arrival: Ints, measured: Bools) -> dict[str, Any]:
    """Rates between the first measured and the last arrival: what ended, was read, was emitted."""
    table = run.requests
    if not measured.any():
        return {"steady.duration_s": None, **_rates("steady.", 0, 0, 0, 0.0)}
    begin, end = int(arrival[measured].min()), int(arrival.max())

    def within(stamps: Ints) -> Bools:
        return (stamps > begin) & (stamps <= end)

    ended = table.with_outcome(COMPLETED) & within(table.column("last_token_ps"))
    read = exact_sum(table.column("prompt_tokens")[within(table.column("prefill_done_ps"))])
    written = run.segments.emitted_until(end) - run.segments.emitted_until(begin)
    seconds = (end - begin) / PS_PER_S
    return {"steady.duration_s": seconds, **_rates("steady.", int(ended.sum()), read, written, seconds)}


def _per_unit(run: SummaryInputs, summary: Mapping[str, Any]) -> dict[str, float | None]:
    def per_gpu(key: str) -> float | None:
        rate = summary[key]
        return rate / run.meta.gpus if rate is not None and run.meta.gpus else None

    tpot = summary["tpot_ms.mean"]
    return {
        "output_tokens_per_s_per_gpu": per_gpu("output_throughput_tokens_per_s"),
        "total_tokens_per_s_per_gpu": per_gpu("total_throughput_tokens_per_s"),
        "output_tokens_per_s_per_user": 1000 / tpot if tpot else None,
    }


def _cache(run: SummaryInputs) -> dict[str, Any]:
    table = run.requests
    started = table.column("scheduled_ps") >= 0
    prompts = exact_sum(table.column("prompt_tokens")[started])
    hits = exact_sum(table.column("hit_tokens")[started])
    preemptions = table.column("preemptions")
    return {
        "preemptions": exact_sum(preemptions),
        "preempted_requests": int((preemptions > 0).sum()),
        "recomputed_tokens": exact_sum(table.column("recomputed_tokens")),
        "prefix_hit_tokens": hits,
        "prefix_hit_rate": hits / prompts if prompts else None,
        "trace_block_hit_rate_infinite": run.meta.trace_block_hit_rate_infinite,
    }


def _drafting(run: SummaryInputs) -> dict[str, Any]:
    """What the ledger says of drafts [GPU·s]; None without speculation."""
    spent = run.ledger.total_ps if run.drafts.any else None
    return {
        f"{bucket}_gpu_seconds": None if spent is None else spent[bucket] / PS_PER_S
        for bucket in ("draft", "wasted_verify")
    }


def _resources(run: SummaryInputs, output_tokens: int) -> dict[str, Any]:
    meta, totals = run.meta, run.segments.totals
    owners = meta.pool_of()
    capacity = [meta.pools[owner].kv_capacity_tokens for owner in owners]
    horizon = run.series.horizon_ps
    held = sum(run.series.held_token_ps(replica) for replica in range(meta.replicas))
    fullest = [most / room for most, room in zip(totals.held_most, capacity, strict=True) if room]
    busy = sum(totals.busy_ps)
    gpu_seconds = meta.gpus * run.end_ps / PS_PER_S
    cost = _cost(run)
    energy = _energy(run)
    return {
        "kv_use_mean": held / (sum(capacity) * horizon) if sum(capacity) else None,
        "kv_use_max": max(fullest, default=None),
        "utilisation": busy / (horizon * meta.replicas) if meta.replicas else None,
        "compute_bound_share": totals.compute_ps / totals.computing_ps if busy else None,
        "memory_bound_share": totals.memory_ps / totals.computing_ps if busy else None,
        "gpu_seconds": gpu_seconds,
        "cost_usd": cost,
        "cost_per_million_output_tokens": None if cost is None or not output_tokens else cost / output_tokens * 1e6,
        "energy_j": energy,
        "energy_per_output_token_j": None if energy is None or not output_tokens else energy / output_tokens,
        "energy_method": None if energy is None else _ENERGY_METHOD,
    }


def _division(run: SummaryInputs) -> dict[str, Any]:
    """How the work was divided between pools."""
    meta, series, hand_overs = run.meta, run.series, run.hand_overs
    advised = advice(meta.pools, run.segments.totals.busy_ps) if len(hand_overs) else dict.fromkeys(ADVICE_KEYS)
    return {
        **stranded(meta, hand_overs, series),
        **advised,
        "pools": by_pool(meta, run.requests, hand_overs, run.segments, series),
    }


def _cost(run: SummaryInputs) -> float | None:
    """GPU-hours times price [USD]; None if the profile of any pool has no price."""
    hours = run.end_ps / PS_PER_S / _SECONDS_PER_HOUR
    cost = 0.0
    for pool in run.meta.pools:
        if pool.price_per_gpu_hour_usd is None:
            return None
        cost += pool.gpus * hours * pool.price_per_gpu_hour_usd
    return cost


def _energy(run: SummaryInputs) -> float | None:
    """TDP times the time in which GPUs worked [J]; None if the profile of any pool has no power."""
    energy = 0.0
    for index, pool in enumerate(run.meta.pools):
        if pool.tdp_watts is None:
            return None
        energy += run.ledger.busy_ps(index) / PS_PER_S * pool.tdp_watts
    return energy
