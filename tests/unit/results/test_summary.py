import json
import random

import numpy as np
import pytest
from tests.unit.results.building import Run, Step, finish, meta, random_request, random_runs, record, toy_run

from servetwin.request import COMPLETED, OUTCOMES, REJECTED, UNFINISHED, Request
from servetwin.results import Recorder
from servetwin.results.summary import HOST_KEYS, STATISTICS
from servetwin.units import PS_PER_MS, PS_PER_S

PROMISED = {
    *(f"{metric}.{statistic}" for metric in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms") for statistic in STATISTICS),
    "request_throughput_per_s", "output_throughput_tokens_per_s", "total_throughput_tokens_per_s",
    "output_tokens_per_s_per_gpu", "goodput_per_s", "slo_attainment", "completed", "rejected", "failed", "cancelled",
    "unfinished", "preemptions", "prefix_hit_rate", "trace_block_hit_rate_infinite", "gpu_seconds",
    "cost_per_million_output_tokens", "simulated_s", "wall_s", "cpu_s", "events", "steps", "engine", "gpus",
    "config_hash", "seed", "version", "warnings", "slo", "steady.request_throughput_per_s",
}  # fmt: skip


def ended(identity, arrival, first, last, prompt=100, output=11, **more):
    """A completed request; times in ms."""
    request = Request(identity, arrival * PS_PER_MS, prompt, output)
    request.replica = request.pool = 0
    request.routed_ps = request.queued_ps = request.scheduled_ps = request.arrival_ps
    request.first_token_ps = request.prefill_done_ps = first * PS_PER_MS
    request.last_token_ps, request.outcome = last * PS_PER_MS, COMPLETED
    for name, value in more.items():
        setattr(request, name, value)
    return request


def summary_of(requests, end=20 * PS_PER_S, runs=(), replicas=1, **changes):
    recorder = Recorder(meta(replicas, **changes))
    record(recorder, runs)
    for request in requests:
        recorder.finished(request)
    return finish(recorder, end).summary()


def test_worked_by_hand():
    found = summary_of(
        [
            ended(0, 1000, 1200, 2200, prompt=100, output=11, hit_tokens=32),
            ended(1, 2000, 2400, 2400, prompt=300, output=1),
            ended(2, 3000, 3300, 6000, prompt=600, output=28, scheduled_ps=3100 * PS_PER_MS),
        ]
    )
    assert found["ttft_ms.mean"] == 300.0 and found["ttft_ms.p50"] == 300.0 and found["ttft_ms.max"] == 400.0
    assert found["ttft_ms.p90"] == pytest.approx(380.0)
    # 1000 ms / 10 and 2700 ms / 27; one token has no TPOT.
    assert found["tpot_ms.mean"] == 100.0 and found["tpot_ms.max"] == 100.0
    assert found["e2e_ms.mean"] == pytest.approx((1200 + 400 + 3000) / 3)
    assert found["queue_ms.max"] == 100.0
    assert found["normalised_latency_ms.max"] == 400.0
    # From the first arrival (1 s) to the last completion (6 s).
    assert found["duration_s"] == 5.0
    assert found["request_throughput_per_s"] == 3 / 5
    assert found["input_throughput_tokens_per_s"] == 1000 / 5
    assert found["output_throughput_tokens_per_s"] == 40 / 5
    assert found["total_throughput_tokens_per_s"] == 1040 / 5
    assert found["output_tokens_per_s_per_gpu"] == 40 / 5 / 2
    assert found["output_tokens_per_s_per_user"] == 10.0
    assert found["prefix_hit_rate"] == 32 / 1000
    assert found["gpu_seconds"] == 40.0
    assert found["cost_usd"] == pytest.approx(40 / 3600 * 3)
    assert found["cost_per_million_output_tokens"] == pytest.approx(40 / 3600 * 3 / 40 * 1e6)
    assert (found["engine"], found["gpus"], found["seed"], found["config_hash"]) == ("vllm", 2, 7, "abc")


def test_every_promised_key_is_there_even_for_a_run_without_requests():
    found = summary_of([], end=PS_PER_S)
    assert set(found) >= PROMISED
    assert set(found) == set(summary_of([ended(0, 0, 10, 20)]))
    for key in ("ttft_ms.mean", "itl_ms.p99", "request_throughput_per_s", "goodput_per_s", "prefix_hit_rate"):
        assert found[key] is None, key
    assert found["requests"] == found["completed"] == found["steps"] == 0
    json.dumps(found, allow_nan=False)


def test_percentiles_are_those_of_numpy():
    rng = random.Random(4)
    requests = [random_request(rng, identity, 1) for identity in range(501)]
    found = summary_of(requests)
    ttft = np.array([one.first_token_ps - one.arrival_ps for one in requests]) / PS_PER_MS
    e2e = np.array([one.last_token_ps - one.arrival_ps for one in requests]) / PS_PER_MS
    several = [one for one in requests if one.output_tokens > 1]
    tpot = np.array([(one.last_token_ps - one.first_token_ps) / PS_PER_MS / (one.output_tokens - 1) for one in several])
    for name, values in (("ttft_ms", ttft), ("e2e_ms", e2e), ("tpot_ms", tpot)):
        for percent in (50, 90, 95, 99):
            assert found[f"{name}.p{percent}"] == np.percentile(values, percent)
        assert found[f"{name}.max"] == values.max()
        assert found[f"{name}.mean"] == pytest.approx(values.mean(), rel=1e-13)


def test_outcomes_are_counted_and_named():
    rng = random.Random(8)
    outcomes = [COMPLETED] * 5 + [REJECTED] * 4 + [UNFINISHED] * 3 + ["failed"] * 2 + ["cancelled"]
    found = summary_of([random_request(rng, 10 + place, 1, outcome) for place, outcome in enumerate(outcomes)])
    assert [found[outcome] for outcome in OUTCOMES] == [5, 4, 2, 1, 3]
    assert found["requests"] == 15
    assert sum(found["rejected_reasons"].values()) == 4
    assert found["unfinished_requests"] == [19, 20, 21]
    assert found["latency_requests"] == 5
    assert any("4 of 15 requests were rejected" in warning for warning in found["warnings"])
    assert any("3 of 15 requests were unfinished (ids 19, 20, 21)" in warning for warning in found["warnings"])


def test_warm_up_is_left_out_of_latencies_and_kept_in_throughput():
    slow = [ended(place, 100 * place, 100 * place + 9000, 100 * place + 9500) for place in range(5)]
    usual = [ended(place, 100 * place, 100 * place + 50, 100 * place + 150) for place in range(5, 20)]
    found = summary_of([*usual, *slow], warmup_requests=5)
    assert found["warmup_requests"] == 5 and found["latency_requests"] == 15
    assert found["ttft_ms.max"] == 50.0
    assert found["completed"] == 20
    assert found["request_throughput_per_s"] == 20 / found["duration_s"]


def test_warm_up_gaps_end_with_the_first_measured_arrival():
    runs = [
        Run(Step(0, 0, 100 * PS_PER_MS, 100 * PS_PER_MS), count=10),
        Run(Step(0, 1000 * PS_PER_MS, 7 * PS_PER_MS, 8 * PS_PER_MS), count=3),
    ]
    requests = [ended(0, 0, 100, 900), ended(1, 1000, 1007, 1021)]
    assert summary_of(requests, runs=runs, warmup_requests=1)["itl_ms.max"] == 8.0
    assert summary_of(requests, runs=runs)["itl_ms.max"] == 100.0


def test_more_warm_up_than_requests_leaves_no_latencies_and_says_so():
    found = summary_of([ended(0, 0, 10, 20)], warmup_requests=5, slo={"goodput": {"ttft_ms": 1}})
    assert found["ttft_ms.mean"] is None and found["slo_attainment"] is None
    assert found["warmup_requests"] == 1
    assert any("no request completed after the warm-up" in warning for warning in found["warnings"])


def test_steady_window_counts_what_ended_in_it():
    runs = [Run(Step(0, 0, 100 * PS_PER_MS, 100 * PS_PER_MS, emitted=2, weight=2), count=60)]
    requests = [
        ended(0, 0, 500, 1500),
        ended(1, 500, 1000, 1000, output=1),
        ended(2, 1000, 1500, 2500),
        ended(3, 4050, 5000, 6000),
    ]
    found = summary_of(requests, runs=runs, warmup_requests=2)
    # From the arrival of the third request (1 s, when the second ends) to the last arrival (4.05 s): steps 11 to 40.
    assert found["steady.duration_s"] == 3.05
    assert found["steady.request_throughput_per_s"] == 2 / 3.05
    assert found["steady.input_throughput_tokens_per_s"] == 100 / 3.05
    assert found["steady.output_throughput_tokens_per_s"] == 60 / 3.05
    assert found["steady.total_throughput_tokens_per_s"] == 160 / 3.05


def test_shares_of_time_and_memory():
    step = Step(0, PS_PER_S, 100 * PS_PER_MS, 0, decodes=2, held=86_000, compute=30 * PS_PER_MS, memory=60 * PS_PER_MS)
    found = summary_of([], end=4 * PS_PER_S, runs=[Run(step, count=10)], replicas=2)
    assert found["utilisation"] == 1 / 8
    assert found["compute_bound_share"] == 0.3 and found["memory_bound_share"] == 0.6
    assert found["kv_use_max"] == (86_000 + 18) / 430_000
    assert found["kv_use_mean"] == pytest.approx((86_000 + 9) / 430_000 / 8)
    assert found["steps"] == 10
    # 1 s of two GPUs at 700 W.
    assert found["energy_j"] == pytest.approx(1400.0)
    assert "approximation" in found["energy_method"]


def test_profiles_without_price_or_power_leave_null():
    run = meta()
    run.pools[0].price_per_gpu_hour_usd = run.pools[0].tdp_watts = None
    recorder = Recorder(run)
    recorder.finished(ended(0, 0, 10, 20))
    found = finish(recorder, PS_PER_S).summary()
    for key in ("cost_usd", "cost_per_million_output_tokens", "energy_j", "energy_per_output_token_j", "energy_method"):
        assert found[key] is None, key


def test_only_host_keys_change_when_the_host_is_set():
    result = toy_run(50)
    before = result.summary()
    assert [before[key] for key in HOST_KEYS] == [None] * 4
    result.set_host(wall_s=1.5, cpu_s=1.25, started_at="2026-11-29T12:00:00", out="runs/x")
    after = result.summary()
    assert {key for key in after if after[key] != before[key]} == set(HOST_KEYS)
    with pytest.raises(TypeError, match="steps"):
        result.set_host(steps=3)


def test_throughput_and_itl_agree_with_the_requests_of_a_whole_run():
    result = toy_run(300)
    found, table = result.summary(), result.table
    assert result.segments.totals.emitted == found["output_tokens"]
    assert result.segments.totals.prefill_tokens == found["input_tokens"]
    # Pooled gaps are the time between the first and the last token of every request, cut at its tokens.
    decode = (table.column("last_token_ps") - table.column("first_token_ps")).tolist()
    gaps = (table.column("output_tokens") - 1).tolist()
    assert result.segments.gaps().total_ps == sum(decode)
    assert result.segments.gaps().count == sum(gaps)
    assert found["itl_ms.mean"] == sum(decode) / (sum(gaps) * PS_PER_MS)


def test_latencies_of_months_do_not_overflow_the_mean():
    requests = [ended(place, 0, 9 * 10**9, 9 * 10**9) for place in range(2000)]
    assert summary_of(requests, end=9_200_000 * PS_PER_S)["ttft_ms.mean"] == 9e9


def test_rates_of_random_runs_are_finite_or_null():
    rng = random.Random(1)
    runs = random_runs(rng, 2, 50)
    found = summary_of([random_request(rng, 0, 2)], 10**6 * PS_PER_S, runs, replicas=2)
    json.dumps(found, allow_nan=False)
