"""The naive engine agrees with the files of whole scenarios: real models, real prices, real workloads.

The naive engine takes settings, prices and requests from the build path, and computes everything else by itself.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.oracle.levels import resolved, simulate
from tests.oracle.test_scenarios_cut import CLOSED, SESSIONS, TIGHT
from tests.reference.naive_engine import Cluster, NaiveResult

from servetwin.catalog.find import Catalog
from servetwin.request import Request
from servetwin.results.result import Result
from servetwin.scenario.build import Simulation, build
from servetwin.scenario.schema import Scenario
from servetwin.streams import Streams

COLUMNS = {
    "replica": "replica",
    "queued_ps": "queued_ps",
    "scheduled_ps": "scheduled_ps",
    "prefill_done_ps": "prefill_done_ps",
    "first_token_ps": "first_token_ps",
    "last_token_ps": "last_token_ps",
    "hit_tokens": "hit_tokens",
    "recomputed_tokens": "recomputed_tokens",
    "preemptions": "preemptions",
}
FEW_BLOCKS = "num_gpu_blocks_override=700"


def naive(scenario: Scenario) -> NaiveResult:
    """The scenario on the naive engine."""
    # A second simulation, never run, gives away its parts: what it holds has not been touched.
    parts = build(scenario)
    context: Any = type("Context", (), {"streams": Streams(0), "replicas": 1, "seats": 1})
    engines = []
    for replica in parts.cluster.replicas:
        executor = replica.executor
        scheduling = parts.scenario.cluster.pools[replica.pool].engine.scheduling
        engines.append((executor.settings, executor._step_time, scheduling.build(context)))
    fresh = fresh_stream(parts)
    requests = list(fresh)
    cluster: Cluster

    def follow_up(request: Request, visible_ps: int) -> Request | None:
        request.outcome = "completed"
        return fresh.on_finished(request, visible_ps)

    cluster = Cluster(engines, scenario.router.name(), follow_up)
    return cluster.run(requests)


def fresh_stream(simulation: Simulation) -> Any:
    """The requests from the start; the source of the simulation has taken the first one already."""
    from pathlib import Path

    from servetwin.units import seconds_to_ps
    from servetwin.workload.spec import build_stream

    run = simulation.scenario.run
    duration_ps = None if run.duration_s is None else seconds_to_ps(run.duration_s)
    streams = Streams(run.seed)
    return build_stream(
        simulation.scenario.workload, streams, requests=run.requests, duration_ps=duration_ps, base=Path()
    )


def compare(result: Result, expected: NaiveResult) -> None:
    jobs = [expected.jobs[number] for number in result.table.column("id").tolist()]
    assert len(jobs) == len(expected.jobs)
    for column, attribute in COLUMNS.items():
        found = result.table.column(column).tolist()
        wrong = [(job.id, got, getattr(job, attribute)) for job, got in zip(jobs, found, strict=True)
                 if got != getattr(job, attribute)]  # fmt: skip
        assert not wrong, f"{column}: (request, found, naive) {wrong[:3]}"
    assert result.table.with_outcome("completed").tolist() == [job.outcome == "completed" for job in jobs]
    steps = [step for replica in expected.steps for step in replica]
    totals = result.segments.totals
    assert totals.steps == len(steps)
    assert totals.tokens == sum(step.tokens for step in steps)
    assert totals.prefill_tokens == sum(step.tokens - step.decodes for step in steps)
    assert totals.emitted == sum(step.emitted for step in steps)
    assert totals.busy_ps == [sum(step.duration_ps for step in replica) for replica in expected.steps]
    gaps = result.segments.gaps()
    itl = sorted(expected.itl_ps)
    assert (gaps.count, gaps.total_ps, gaps.maximum_ps) == (len(itl), sum(itl), itl[-1])
    for share in (0.0, 0.1, 0.5, 0.9, 0.99):
        rank = int(share * (len(itl) - 1))
        assert gaps.order_statistic(rank) == itl[rank]


@pytest.mark.parametrize("name", [name for name in Catalog().names("scenarios") if name != "bench-8b-256r"])
def test_bundled_scenario(name: str) -> None:
    """With fewer blocks than the GPU has: the naive engine has an object for each, and some are evicted."""
    pools = len(resolved(name).cluster.pools)
    changes = [f"cluster.pools.{pool}.engine.{FEW_BLOCKS}" for pool in range(pools)]
    changes += [f"cluster.pools.{pool}.engine.max_model_len=8192" for pool in range(pools)]
    scenario = resolved(name, "run.requests=100", *changes)
    _, result = simulate(scenario)
    compare(result, naive(scenario))


TIGHT_CASES: dict[str, dict[str, Any]] = {
    "open": TIGHT,
    "closed loop": CLOSED | {"workload": CLOSED["workload"] | {"arrivals": {"process": "closed-loop", "concurrency": 14}}},
    "sessions": SESSIONS,
    "windows": TIGHT | {"model": "gpt-oss-20b"},
    "latent attention": TIGHT
    | {"model": "deepseek-r1", "cluster": TIGHT["cluster"] | {"hardware": "h200-sxm", "parallel": {"tensor": 8}}},
}


@pytest.mark.parametrize("name", TIGHT_CASES)
@pytest.mark.parametrize("router", ["round-robin", "least-requests", "least-tokens"])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_short_of_blocks(name: str, router: str, asynchronous: bool) -> None:
    case = TIGHT_CASES[name]
    engine = case["cluster"]["engine"] | {"async_scheduling": asynchronous}
    scenario = resolved(
        case | {"router": {"policy": router}, "cluster": case["cluster"] | {"engine": engine}, "run": {"requests": 70}}
    )
    _, result = simulate(scenario)
    assert result.summary()["preemptions"] > 0
    compare(result, naive(scenario))
