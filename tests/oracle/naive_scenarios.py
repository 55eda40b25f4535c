"""A whole scenario on the naive engine, and the comparison with its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.oracle.plain_log import STAMPS
from tests.reference.naive_engine import Cluster, NaiveResult
from tests.reference.naive_pipeline import PipelinedCluster

from servetwin.request import Request
from servetwin.results.result import Result
from servetwin.scenario.build import Simulation, build
from servetwin.scenario.schema import Scenario
from servetwin.streams import Streams
from servetwin.units import seconds_to_ps
from servetwin.workload.build import build_stream

#: Of these, the columns of numbers.
COLUMNS = tuple(name for name in STAMPS if name != "outcome")


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

    def follow_up(request: Request, visible_ps: int) -> Sequence[Request]:
        request.outcome = "completed"
        followers: Sequence[Request] = fresh.on_finished(request, visible_ps)
        return followers

    cluster = PipelinedCluster if any(settings.stages > 1 for settings, _, _ in engines) else Cluster
    return cluster(engines, scenario.router.name(), follow_up).run(requests)


def fresh_stream(simulation: Simulation) -> Any:
    """The requests from the start; the source of the simulation has taken the first one already."""
    run = simulation.scenario.run
    duration_ps = None if run.duration_s is None else seconds_to_ps(run.duration_s)
    streams = Streams(run.seed)
    return build_stream(
        simulation.scenario.workload, streams, requests=run.requests, duration_ps=duration_ps, base=Path()
    )


def compare(result: Result, expected: NaiveResult) -> None:
    jobs = [expected.jobs[number] for number in result.table.column("id").tolist()]
    assert len(jobs) == len(expected.jobs)
    for column in COLUMNS:
        found = result.table.column(column).tolist()
        wrong = [(job.id, got, getattr(job, column)) for job, got in zip(jobs, found, strict=True)
                 if got != getattr(job, column)]  # fmt: skip
        assert not wrong, f"{column}: (request, found, naive) {wrong[:3]}"
    assert result.table.with_outcome("completed").tolist() == [job.outcome == "completed" for job in jobs]
    steps = [step for replica in expected.steps for step in replica]
    totals = result.segments.totals
    assert totals.steps == len(steps)
    assert totals.tokens == sum(step.tokens for step in steps)
    assert totals.prefill_tokens == sum(step.tokens - step.decodes - step.drafted for step in steps)
    assert totals.emitted == sum(step.emitted for step in steps)
    assert totals.busy_ps == [sum(step.duration_ps for step in replica) for replica in expected.steps]
    gaps = result.segments.gaps()
    itl = sorted(expected.itl_ps)
    assert (gaps.count, gaps.total_ps, gaps.maximum_ps) == (len(itl), sum(itl), itl[-1])
    for share in (0.0, 0.1, 0.5, 0.9, 0.99):
        rank = int(share * (len(itl) - 1))
        assert gaps.order_statistic(rank) == itl[rank]
