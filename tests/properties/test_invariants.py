"""What holds in every run, whatever the scenario: nothing is lost, nothing is counted twice, nothing comes too early.

Everything is read from what a user gets: the summary, the ledger and the tables of a ``Result``. The hardware's bounds
are worked out here, from the shapes of the models and the data sheets, in lines of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import servetwin
from servetwin.records import LEDGER_BUCKETS
from servetwin.request import OUTCOMES
from servetwin.results.result import Result
from servetwin.scenario.build import Simulation, build
from servetwin.scenario.load import validate_mapping

QUICK = settings(
    max_examples=70, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)

#: Layers, hidden size, query heads, KV heads, head size, inner size of the MLP, vocabulary.
SHAPES = {
    "llama-3.1-8b": (32, 4096, 32, 8, 128, 14336, 128256),
    "qwen3-8b": (36, 4096, 32, 8, 128, 12288, 151936),
    "llama-2-7b": (32, 4096, 32, 32, 128, 11008, 32000),
}
#: FLOP/s in bf16 and B/s of the data sheets.
GPUS = {"h100-sxm": (989e12, 3.35e12), "a100-sxm-80gb": (312e12, 2.039e12), "l40s": (362e12, 864e9)}
MAX_MODEL_LEN = 1_000

LENGTHS = st.one_of(
    st.integers(1, 400),
    st.fixed_dictionaries(
        {"distribution": st.just("uniform"), "min": st.integers(1, 20), "max": st.integers(20, 400)}
    ),
    st.fixed_dictionaries(
        {"distribution": st.just("lognormal"), "mean": st.integers(5, 200), "std": st.integers(1, 400),
         "max": st.just(700)}
    ),
)  # fmt: skip
OUTPUTS = st.one_of(
    st.integers(1, 150),
    st.fixed_dictionaries({"distribution": st.just("uniform"), "min": st.just(1), "max": st.integers(2, 200)}),
)
ARRIVALS = st.one_of(
    st.fixed_dictionaries({"rate_per_s": st.sampled_from([2, 20, 100, 1_000, 1_000])}),
    st.fixed_dictionaries({"process": st.just("bursts"), "size": st.integers(1, 20), "interval_s": st.just(0.2)}),
    st.fixed_dictionaries(
        {
            "process": st.just("closed-loop"),
            "concurrency": st.integers(1, 15),
            "think_time_s": st.sampled_from([0, 0.1]),
        }
    ),
)
CLASSES = [
    {"name": "a", "share": 2, "priority": 0, "slo": {"ttft_ms": 200}},
    {"name": "b", "share": 1, "priority": 1},
]


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    workload: dict[str, Any] = {"arrivals": draw(ARRIVALS), "prompts": draw(LENGTHS), "outputs": draw(OUTPUTS)}
    if draw(st.booleans()):
        workload["prefixes"] = {"groups": draw(st.integers(1, 3)), "tokens": draw(st.sampled_from([15, 64, 200]))}
    if draw(st.integers(0, 3)) == 0:
        workload["sessions"] = {"turns": draw(st.integers(1, 4)), "think_time_s": draw(st.sampled_from([0, 0.05]))}
    if draw(st.booleans()):
        workload["classes"] = CLASSES
    return workload


@st.composite
def pools(draw: st.DrawFn, name: str, schedulings: list[str]) -> dict[str, Any]:
    engine: dict[str, Any] = {
        "max_model_len": MAX_MODEL_LEN,
        "max_num_batched_tokens": draw(st.sampled_from([256, 1024, 4096])),
        "max_num_seqs": draw(st.sampled_from([1, 4, 32, 32, 128])),
        "prefix_caching": draw(st.booleans()),
        "async_scheduling": draw(st.booleans()),
        "scheduling": draw(st.sampled_from(schedulings)),
    }
    if draw(st.integers(0, 3)):
        # From storms of preemptions to no shortage.
        engine["num_gpu_blocks_override"] = draw(st.sampled_from([25, 30, 40, 64, 300]))
    return {
        "name": name,
        "replicas": draw(st.integers(1, 2)),
        "hardware": draw(st.sampled_from(sorted(GPUS))),
        "engine": engine,
    }


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Small clusters of one or two pools, under anything from one request at a time to far too much."""
    names = ["one", "two"][: draw(st.integers(1, 2))]
    workload = draw(workloads())
    # Priorities and deadlines are a matter of classes.
    schedulings = ["fcfs", "fcfs", "sjf", *(["priority", "edf"] if "classes" in workload else [])]
    admission = draw(st.sampled_from([None, None, {"policy": "max-requests", "requests": 6}]))
    scenario = {
        "model": draw(st.sampled_from(sorted(SHAPES))),
        "cluster": {"pools": [draw(pools(name, schedulings)) for name in names]},
        "router": {"policy": draw(st.sampled_from(["round-robin", "least-requests", "least-tokens", "power-of-two"]))},
        "workload": workload,
        "run": {"requests": draw(st.sampled_from([40, 30, 40, 20, 10, 1])), "seed": draw(st.integers(0, 99))},
    }
    return scenario | ({"admission": admission} if admission else {})


def column(result: Result, name: str) -> np.ndarray:
    return result.table.column(name)


@QUICK
@given(scenarios(), st.booleans())
def test_invariants(scenario: dict[str, Any], strict: bool) -> None:
    simulation = build(validate_mapping(scenario), strict=strict)
    cluster = simulation.cluster
    end_ps = cluster.run()
    result = simulation.recorder.result(
        end_ps=end_ps, ledgers=cluster.ledger(end_ps), events=cluster.events, steps=cluster.steps
    )
    all_blocks_are_given_back(simulation, result)
    every_request_ends_exactly_once(scenario, result)
    tokens_are_conserved(scenario, result)
    gaps_are_as_many_as_the_tokens(result)
    every_gpu_second_is_in_one_bucket(scenario, result)
    nothing_comes_before_its_cause(scenario, result)
    no_replica_beats_the_roofline(scenario, result)


def every_request_ends_exactly_once(scenario: dict[str, Any], result: Result) -> None:
    summary, frame = result.summary(), result.requests()
    assert frame["request_id"].is_unique
    counts = Counter(frame["outcome"])
    assert {outcome: counts[outcome] for outcome in OUTCOMES} == {outcome: summary[outcome] for outcome in OUTCOMES}
    assert summary["requests"] == len(frame) == sum(summary[outcome] for outcome in OUTCOMES)
    assert summary["unfinished"] == summary["failed"] == summary["cancelled"] == 0
    assert sum(summary["rejected_reasons"].values()) == summary["rejected"]
    # Nobody is lost on the way to the time series either.
    series = result.timeseries()
    assert series["completed"].sum() == summary["completed"]
    assert series["arrivals"].sum() == frame["replica"].notna().sum()
    if "sessions" not in scenario["workload"] or summary["rejected"] == 0:
        assert len(frame) == scenario["run"]["requests"]


def tokens_are_conserved(scenario: dict[str, Any], result: Result) -> None:
    """Computed and found tokens are those scheduled; emitted ones are those asked for."""
    summary, series = result.summary(), result.timeseries()
    done = result.table.with_outcome("completed")
    prompts, outputs = column(result, "prompt_tokens")[done], column(result, "output_tokens")[done]
    assert summary["input_tokens"] == prompts.sum()
    assert summary["output_tokens"] == outputs.sum() == series["output_tokens"].sum()
    # The last output token is never read again. What was found at the first admission is not computed; what was
    # computed before a preemption and not found after it is computed again.
    computed = prompts.sum() + outputs.sum() - done.sum() - summary["prefix_hit_tokens"] + summary["recomputed_tokens"]
    scheduled = series["tokens"].sum()
    shared = "prefixes" in scenario["workload"] or "sessions" in scenario["workload"]
    if shared and summary["preemptions"]:
        # After a preemption more may be found than had been computed: somebody else did it meanwhile.
        assert scheduled <= computed
    else:
        assert scheduled == computed
    assert series["prefill_tokens"].sum() + outputs.sum() - done.sum() <= scheduled + summary["preemptions"] * 200
    assert (series["steps"].sum(), series["tokens"].sum()) == (summary["steps"], result.segments.totals.tokens)
    hits = column(result, "hit_tokens")[done]
    assert (hits < prompts).all()
    assert (hits % 16 == 0).all()
    if not any(pool["engine"]["prefix_caching"] for pool in scenario["cluster"]["pools"]):
        assert hits.sum() == 0


def gaps_are_as_many_as_the_tokens(result: Result) -> None:
    summary = result.summary()
    done = result.table.with_outcome("completed")
    outputs = column(result, "output_tokens")[done]
    decoding = int((column(result, "last_token_ps") - column(result, "first_token_ps"))[done].sum())
    gaps = result.segments.gaps()
    assert gaps.count == (outputs - 1).sum()
    assert gaps.total_ps == decoding
    if gaps.count:
        assert summary["itl_ms.mean"] == pytest.approx(decoding / gaps.count / 1e9, rel=1e-12)
        assert 0 <= summary["itl_ms.p50"] <= summary["itl_ms.p99"] <= summary["itl_ms.max"]
    else:
        assert summary["itl_ms.mean"] is None


def all_blocks_are_given_back(simulation: Simulation, result: Result) -> None:
    for replica in simulation.cluster.replicas:
        pool = replica.executor.rank.pool
        assert pool.free == pool.queued() == pool.total == replica.executor.settings.num_blocks - 1
        assert pool.overlap == replica.executor.rank.tokens_held == 0
    summary = result.summary()
    use = result.timeseries()["kv_use"]
    assert ((use >= 0) & (use <= 1)).all()
    if summary["steps"]:
        assert 0 < summary["kv_use_max"] <= 1
        assert use.max() <= summary["kv_use_max"] * (1 + 1e-9)


def every_gpu_second_is_in_one_bucket(scenario: dict[str, Any], result: Result) -> None:
    summary, ledger = result.summary(), result.ledger()
    gpus = sum(pool["replicas"] for pool in scenario["cluster"]["pools"])
    assert summary["gpus"] == ledger["gpus"] == gpus
    assert ledger["gpu_seconds"] == summary["gpu_seconds"] == pytest.approx(gpus * summary["simulated_s"])
    assert set(ledger["total"]["seconds"]) == set(LEDGER_BUCKETS)
    assert sum(ledger["total"]["seconds"].values()) == pytest.approx(gpus * summary["simulated_s"], rel=1e-12)
    assert all(seconds >= 0 for seconds in ledger["total"]["seconds"].values())
    for bucket in LEDGER_BUCKETS:
        parts = sum(pool["seconds"][bucket] for pool in ledger["pools"].values())
        assert parts == pytest.approx(ledger["total"]["seconds"][bucket], rel=1e-9, abs=1e-12)
    series = result.timeseries()
    busy = (series["utilisation"] * (series["end_s"] - series["start_s"])).sum()
    spent = ledger["total"]["seconds"]
    assert busy == pytest.approx(sum(spent.values()) - spent["idle"], rel=1e-9)
    assert (ledger["total"]["seconds"]["recompute"] > 0) <= (summary["recomputed_tokens"] > 0)


def nothing_comes_before_its_cause(scenario: dict[str, Any], result: Result) -> None:
    done = result.table.with_outcome("completed")
    order = [
        "arrival_ps", "routed_ps", "queued_ps", "scheduled_ps", "prefill_done_ps", "first_token_ps", "last_token_ps",
    ]  # fmt: skip
    stamps = [column(result, name)[done] for name in order]
    for name, earlier, later in zip(order[1:], stamps[:-1], stamps[1:], strict=True):
        strictly = name == "prefill_done_ps"
        assert ((earlier < later) if strictly else (earlier <= later)).all(), name
    several = column(result, "output_tokens")[done] > 1
    assert (stamps[-1] > stamps[-2])[several].all()
    assert (stamps[-1] == stamps[-2])[~several].all()
    assert result.end_ps >= max(
        (int(column(result, name).max()) for name in ("arrival_ps", "prefill_done_ps")), default=0
    )
    rejected = result.table.with_outcome("rejected")
    for name in order[2:]:
        assert (column(result, name)[rejected] == -1).all()
    arrivals = scenario["workload"]["arrivals"]
    if arrivals.get("process") == "closed-loop":
        # A client waits for its answer: never more in the system than clients.
        changes = sorted([(int(t), 1) for t in stamps[0]] + [(int(t), -1) for t in stamps[-1]])
        inside = np.cumsum([change for _, change in changes])
        assert inside.max(initial=0) <= arrivals["concurrency"]
    frame = result.requests()
    sessions = frame[frame["session_id"].notna()].sort_values("request_id")
    for _, turns in sessions.groupby("session_id"):
        # A turn follows the answer to the one before.
        assert (turns["arrival_s"].to_numpy()[1:] >= turns["last_token_s"].to_numpy()[:-1]).all()


def floor_s(model: str, gpu: str, rows: Any, requests: Any) -> tuple[float, float]:
    """The least time for arithmetic and for memory traffic of one replica's work [s].

    Every token goes through every matrix of every layer; every step reads all layers once; every decode reads what the
    prompt left in the KV cache.
    """
    layers, hidden, heads, kv_heads, head, inner, vocab = SHAPES[model]
    flops_per_s, bytes_per_s = GPUS[gpu]
    layer = hidden * head * (2 * heads + 2 * kv_heads) + 3 * hidden * inner
    flops = 2.0 * layers * layer * rows["tokens"].sum() + 2.0 * vocab * hidden * rows["output_tokens"].sum()
    kv_bytes = 2 * layers * 2 * kv_heads * head
    decodes = requests["output_tokens"] - 1
    moved = 2.0 * layers * layer * rows["steps"].sum() + kv_bytes * float((decodes * requests["prompt_tokens"]).sum())
    pairs = decodes * requests["prompt_tokens"] + (requests["prompt_tokens"] - requests["hit_tokens_hbm"]) ** 2 / 2
    flops += 4.0 * layers * heads * head * float(pairs.sum())
    return flops / flops_per_s, moved / bytes_per_s


def no_replica_beats_the_roofline(scenario: dict[str, Any], result: Result) -> None:
    frame, series = result.requests(), result.timeseries()
    hardware = [pool["hardware"] for pool in scenario["cluster"]["pools"] for _ in range(pool["replicas"])]
    for replica, gpu in enumerate(hardware):
        rows = series[series["replica"] == replica]
        mine = frame[(frame["replica"] == replica) & (frame["outcome"] == "completed")]
        busy = float((rows["utilisation"] * (rows["end_s"] - rows["start_s"])).sum())
        compute, memory = floor_s(scenario["model"], gpu, rows, mine)
        assert busy >= compute
        assert busy >= memory
        if busy:
            # And it is not a hundred times slower than the hardware either, or the floor would be no test.
            assert max(compute, memory) > busy / 100


FULL: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cluster": {"pools": [{"name": "one", "replicas": 1, "hardware": "h100-sxm"}]},
    "workload": {"arrivals": {"process": "bursts", "size": 32}, "prompts": 500, "outputs": 500},
    "run": {"requests": 32},
}


def test_the_floor_is_near_for_a_full_engine() -> None:
    """A large batch with short contexts comes close to what the memory allows: the floor is the right one."""
    result = servetwin.run(FULL)
    frame, series = result.requests(), result.timeseries()
    busy = float((series["utilisation"] * (series["end_s"] - series["start_s"])).sum())
    _, memory = floor_s("llama-3.1-8b", "h100-sxm", series, frame)
    assert memory < busy < 2 * memory
    # Nor does the throughput exceed what every step could yield at most: 7 billion weights of 2 bytes are read.
    assert result.summary()["output_throughput_tokens_per_s"] < 32 / (2 * 7.0e9 / 3.35e12)


def test_a_machine_that_is_too_fast_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an H100 does is too much for one with half its memory bandwidth."""
    result = servetwin.run(FULL)
    no_replica_beats_the_roofline(FULL, result)
    monkeypatch.setitem(GPUS, "h100-sxm", (989e12, 3.35e12 / 2))
    with pytest.raises(AssertionError):
        no_replica_beats_the_roofline(FULL, result)
