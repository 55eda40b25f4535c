"""The engine and the naive engine agree with ``==`` at all three stepping levels."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.oracle.pipeline_cases import pipelines, staged
from tests.oracle.plain_log import STAMPS, LoggedStep, PlainLog
from tests.oracle.small_cases import SMALL_CASES
from tests.oracle.strategies import Case, cases, random_case
from tests.reference.naive_engine import LEAST_REQUESTS, LEAST_TOKENS, ROUND_ROBIN, Cluster, NaiveResult, Step
from tests.reference.naive_pipeline import PipelinedCluster, PipelinedReplica

from servetwin.engine.audit import audit_rank
from servetwin.engine.executor import Executor
from servetwin.engine.pipeline import PipelinedExecutor
from servetwin.engine.protocols import EVERY_OPERATION, STEPPING
from servetwin.kernel import ARRIVAL, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import COMPLETED, Request

QUICK = settings(
    derandomize=True, deadline=None, database=None, max_examples=200, suppress_health_check=list(HealthCheck)
)


class Drive:
    """The real engines behind the simplest router there is, fed like the naive cluster."""

    def __init__(self, case: Case, stepping: str) -> None:
        self.env = new_environment()
        self.log = PlainLog()
        self.router = case.router
        self.follow_up = case.follow_up()
        self.routed = 0
        self.present = [0] * len(case.replicas)
        self.prompts = [0] * len(case.replicas)
        self.requests: dict[int, Request] = {}
        self.executors: list[Any] = [self.engine(index, *parts, stepping) for index, parts in enumerate(case.parts())]
        for request in case.requests():
            self.arrive(request)

    def engine(self, index: int, engine_settings: Any, price: Any, scheduler: Any, stepping: str) -> Any:
        kind = PipelinedExecutor if engine_settings.stages > 1 else Executor
        return kind(
            self.env, index, price, engine_settings, scheduler, self.log, self.on_finished, stepping=stepping, gpus=1,
            strict=stepping == EVERY_OPERATION,
        )  # fmt: skip

    def arrive(self, request: Request) -> None:
        self.requests[request.id] = request
        call_at(self.env, request.arrival_ps, priority(ARRIVAL, request.id), lambda: self.submit(request))

    def submit(self, request: Request) -> None:
        index = self.choose()
        self.routed += 1
        request.replica = index
        self.present[index] += 1
        self.prompts[index] += request.prompt_tokens
        self.executors[index].submit(request)

    def choose(self) -> int:
        everyone = range(len(self.executors))
        if self.router == ROUND_ROBIN:
            return self.routed % len(self.executors)
        if self.router == LEAST_REQUESTS:
            return min(everyone, key=lambda i: self.present[i])
        assert self.router == LEAST_TOKENS
        return min(everyone, key=lambda i: self.prompts[i] + self.executors[i].generated(self.env.now))

    def on_finished(self, request: Request, visible_ps: int) -> None:
        self.present[request.replica] -= 1
        self.prompts[request.replica] -= request.prompt_tokens
        if request.outcome == COMPLETED:
            for follower in self.follow_up(request, visible_ps):
                self.arrive(follower)

    def run(self) -> Drive:
        self.env.run()
        return self


def stamps(request: Any) -> dict[str, Any]:
    return {name: getattr(request, name) for name in STAMPS}


def as_logged(step: Step) -> LoggedStep:
    return LoggedStep(
        start_ps=step.start_ps,
        duration_ps=step.duration_ps,
        tokens=step.tokens,
        prefill_tokens=step.tokens - step.decodes - step.drafted,
        emitted=step.emitted,
        decodes=step.decodes,
        decode_context=-1 if step.chunks else step.context,
        compute_ps=step.price.compute_ps,
        memory_ps=step.price.memory_ps,
    )


def compare(naive: NaiveResult, real: Drive) -> None:
    for index, executor in enumerate(real.executors):
        steps = naive.steps[index]
        assert real.log.steps(index) == [as_logged(step) for step in steps]
        assert executor.accounts.steps == len(steps)
        assert executor.rank.pool.free == naive.blocks_free[index]
        # Work that was done twice is booked apart, so only the sum is the same.
        spent = real.log.spent(len(real.executors))[index]
        assert sum(spent.values()) == sum(step.duration_ps for step in steps)
        compare_books(naive, index, executor.ledger(spent, naive.end_ps))
        audit_rank(executor.rank, index)
    assert real.requests.keys() == naive.jobs.keys()
    for request_id, job in naive.jobs.items():
        assert stamps(real.requests[request_id]) == stamps(job), request_id
    assert real.log.itl_ps() == sorted(naive.itl_ps)
    assert all(count == 0 for count in real.present)


def compare_books(naive: NaiveResult, index: int, books: dict[str, int]) -> None:
    """The ledger of a replica, and what the naive engine counts stage by stage."""
    replica, steps = naive.replicas[index], naive.steps[index]
    host = sum(step.price.host_ps for step in steps)
    assert books["host"] == host
    if not isinstance(replica, PipelinedReplica):
        assert books["idle"] == naive.end_ps - sum(step.duration_ps for step in steps)
        return
    counted = replica.books(naive.end_ps)
    assert (books["bubble"], books["idle"], host) == (counted["bubble"], counted["idle"], counted["host"])
    worked = ("compute", "hbm", "exposed_communication", "recompute")
    assert sum(books[bucket] for bucket in worked) == sum(
        counted[part] for part in ("compute", "memory", "communication", "hand-off")
    )


def check(case: Case) -> None:
    cluster = PipelinedCluster if case.replicas[0][0].stages > 1 else Cluster
    naive = cluster(case.parts(), case.router, case.follow_up()).run(case.requests())
    for stepping in STEPPING:
        compare(naive, Drive(case, stepping).run())


@pytest.mark.parametrize("name", SMALL_CASES)
def test_small_cases(name: str) -> None:
    check(SMALL_CASES[name])


@QUICK
@given(cases())
def test_one_replica(case: Case) -> None:
    check(case)


@settings(QUICK, max_examples=60)
@given(cases(replicas=3))
def test_several_replicas(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("seed", range(80))
def test_storms(seed: int) -> None:
    """Tiny pools, many requests at once: evictions and preemptions all the time."""
    check(random_case(seed, requests=20 + seed % 40, tight=True))


@pytest.mark.parametrize("seed", range(20))
def test_larger_runs(seed: int) -> None:
    replicas = 1 + seed % 3
    check(random_case(1000 + seed, replicas))


@settings(QUICK, max_examples=300)
@given(pipelines())
def test_one_pipeline(case: Case) -> None:
    check(case)


@settings(QUICK, max_examples=60)
@given(pipelines(replicas=3))
def test_several_pipelines(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("name", SMALL_CASES)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_small_cases_on_pipelines(name: str, stages: int) -> None:
    check(staged(SMALL_CASES[name], random.Random(stages), stages))


@pytest.mark.parametrize("seed", range(80))
def test_storms_on_pipelines(seed: int) -> None:
    check(staged(random_case(seed, requests=20 + seed % 40, tight=True), random.Random(seed)))


@pytest.mark.parametrize("seed", range(20))
def test_larger_runs_on_pipelines(seed: int) -> None:
    check(staged(random_case(1000 + seed, 1 + seed % 3), random.Random(seed)))
