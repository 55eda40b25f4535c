"""A whole scenario on the naive engine, and the comparison with its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.oracle.plain_log import STAMPS
from tests.reference.naive_drafting import DraftingCluster, DraftingReplica, Drafts
from tests.reference.naive_engine import Cluster, NaiveResult
from tests.reference.naive_pipeline import PipelinedCluster
from tests.reference.naive_split import HandOvers, SplitCluster

from servetwin.acceptance.build import build_fates
from servetwin.request import Request
from servetwin.results.result import Result
from servetwin.scenario.build import Simulation, build
from servetwin.scenario.schema import Pool, Scenario
from servetwin.streams import Streams
from servetwin.units import seconds_to_ps
from servetwin.workload.build import build_stream

#: Of these, the columns of numbers.
COLUMNS = tuple(name for name in STAMPS if name != "outcome")


#: Methods whose drafter has a KV cache, which it writes ahead of what is verified.
AHEAD = ("draft-model", "parallel", "eagle", "eagle3", "mtp")


def naive(scenario: Scenario, wrap: Callable[[int, Any], Any] = lambda index, step_time: step_time) -> NaiveResult:
    """The scenario on the naive engine.

    Args:
        scenario: the scenario.
        wrap: makes another step time of that of the replica with an index.
    """
    # A second simulation, never run, gives away its parts: what it holds has not been touched.
    parts = build(scenario)
    context: Any = type("Context", (), {"streams": Streams(0), "replicas": 1, "seats": 1})
    engines = []
    pools = parts.scenario.cluster.pools
    for index, replica in enumerate(parts.cluster.replicas):
        executor = replica.executor
        scheduling = pools[replica.pool].engine.scheduling
        engines.append((executor.settings, wrap(index, executor._step_time), scheduling.build(context)))
    fresh = fresh_stream(parts)
    requests = list(fresh)

    def follow_up(request: Request, visible_ps: int) -> Sequence[Request]:
        if request.outcome == "unfinished":
            request.outcome = "completed"
        followers: Sequence[Request] = fresh.on_finished(request, visible_ps)
        return followers

    if parts.cluster.split is not None:
        return split_cluster(parts, engines, follow_up).run(requests)
    if any(pool.speculation is not None for pool in pools):
        drafts = [drafts_of(pools[replica.pool], scenario.run.seed, context) for replica in parts.cluster.replicas]
        return DraftingCluster(engines, drafts, scenario.router.name(), follow_up).run(requests)
    cluster = PipelinedCluster if any(settings.stages > 1 for settings, _, _ in engines) else Cluster
    return cluster(engines, scenario.router.name(), follow_up).run(requests)


def split_cluster(parts: Simulation, engines: Sequence[Any], follow_up: Any) -> SplitCluster:
    """The naive cluster of a scenario with prefilling and decoding pools."""
    cluster, options = parts.scenario.cluster, parts.scenario.cluster.transfer
    rules, ways, fabric = parts.cluster.split.rules, parts.network.ways, parts.network.fabric  # type: ignore[union-attr]
    assert options is not None and ways is not None and fabric is not None
    streams = Streams(parts.scenario.run.seed)

    def fails(request: int, attempt: int) -> bool:
        return float(streams.generator("transfer", request, attempt).random()) < options.failure_rate

    def plain(legs: Any) -> list[Any]:
        assert not any(leg.windows or leg.constant_bytes for leg in legs)
        return [(leg.path, leg.bytes_per_token, leg.efficiency) for leg in legs]

    hand_overs = HandOvers(
        options.mode, options.first_token == "decode", parts.scenario.disaggregation.order == "decode-first",  # type: ignore[union-attr]
        parts.scenario.disaggregation.model_dump(), rules.setup_ps, rules.block_ps, rules.lease_ps,  # type: ignore[union-attr]
        rules.retry_ps, rules.block_size, options.retries, fails, options.on_failure == "fail", rules.layers,
        lambda source, target: plain(ways.legs(source, target)), lambda target: plain(ways.onward(target)),
        {link.index: link.bytes_per_s for link in fabric.links}, {link.index: link.latency_ps for link in fabric.links},
    )  # fmt: skip
    roles = [replica.role for replica in parts.cluster.replicas]
    routers = {pool.role: (pool.router or parts.scenario.router).policy for pool in cluster.pools}
    context: Any = type("Context", (), {"streams": Streams(0), "replicas": 1, "seats": 1})
    owners = [cluster.pools[replica.pool] for replica in parts.cluster.replicas]
    drafts = [
        None if pool.speculation is None else drafts_of(pool, parts.scenario.run.seed, context) for pool in owners
    ]
    return SplitCluster(engines, roles, routers, hand_overs, follow_up, drafts)


def compare_hand_overs(result: Result, naive_result: NaiveResult) -> None:
    """The stamps of hand-overs, and what lies in the caches at every step."""
    expected = naive_result.replicas[0].cluster
    assert isinstance(expected, SplitCluster)
    table = result.hand_overs
    ways = sorted(expected.listed, key=lambda way: way.job.id)
    assert table.ids.tolist() == [way.job.id for way in ways]
    for column, attribute in (
        ("queued_ps", "queued_ps"), ("scheduled_ps", "scheduled_ps"), ("start_ps", "start_ps"), ("end_ps", "end_ps"),
        ("moved_bytes", "bytes"), ("attempts", "attempts"), ("found_tokens", "found"),
    ):  # fmt: skip
        found = table.column(column).tolist()
        wrong = [(way.job.id, got, getattr(way, attribute)) for way, got in zip(ways, found, strict=True)
                 if got != getattr(way, attribute)]  # fmt: skip
        assert not wrong, f"{column}: (request, found, naive) {wrong[:3]}"
    store = result.segments.store
    columns = [store.column(name).tolist() for name in store.names]
    rows = [dict(zip(store.names, row, strict=True)) for row in zip(*columns, strict=True)]
    for replica in expected.replicas:
        if replica.settings.stages > 1:
            # The naive pipeline does not count what lies in the cache.
            continue
        steps = {}
        for row in rows:
            if row["replica"] != replica.index:
                continue
            start = row["start_ps"]
            for j in range(row["count"]):
                steps[start] = row["held"] + j * row["decodes"]
                start += row["first_ps"] + j * row["growth_ps"]
        for step in replica.steps:
            assert steps[step.start_ps] == step.held, f"replica {replica.index}: held at {step.start_ps}"


def drafts_of(pool: Pool, seed: int, context: Any) -> Drafts:
    """How a replica of the pool drafts."""
    speculation = pool.speculation
    assert speculation is not None
    fates = build_fates(speculation.acceptance, Streams(seed), Path())  # type: ignore[arg-type]
    nodes = speculation.k if speculation.tree is None else speculation.tree.nodes
    lookahead = speculation.k if speculation.method in AHEAD else 0
    controller = speculation.controller.build(context)  # type: ignore[attr-defined]
    return Drafts(speculation.k, nodes, lookahead, fates, controller)


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
    compare_drafts(result, expected)
    gaps = result.segments.gaps()
    itl = sorted(expected.itl_ps)
    assert gaps.count == len(itl)
    if not itl:
        return
    assert (gaps.total_ps, gaps.maximum_ps) == (sum(itl), itl[-1])
    for share in (0.0, 0.1, 0.5, 0.9, 0.99):
        rank = int(share * (len(itl) - 1))
        assert gaps.order_statistic(rank) == itl[rank]


def compare_drafts(result: Result, expected: NaiveResult) -> None:
    """What became of drafts; nothing where nobody drafts."""
    jobs = [expected.jobs[number] for number in result.table.column("id").tolist()]
    for column in ("drafted_tokens", "accepted_tokens"):
        assert result.table.column(column).tolist() == [getattr(job, column) for job in jobs]
    drafting = [replica for replica in expected.replicas if isinstance(replica, DraftingReplica)]
    summary = result.summary()
    if not drafting:
        assert summary["spec_decode_num_drafts"] is None
        return
    steps = [step for replica in expected.steps for step in replica]
    drafts = sum(replica.verifying for replica in drafting)
    assert summary["spec_decode_num_drafts"] == drafts
    assert summary["spec_decode_num_draft_tokens"] == sum(step.drafted for step in steps)
    assert summary["spec_decode_num_accepted_tokens"] == sum(step.accepted for step in steps)
    stood = [sum(column) for column in zip(*(replica.by_position for replica in drafting), strict=True)]
    assert summary["acceptance_rate_per_position"] == ([one / drafts for one in stood] if drafts else None)
    store = result.segments.store
    for index, replica in enumerate(expected.replicas):
        mine = store.column("replica") == index
        for column, counted in (
            ("drafted", [step.drafted for step in replica.steps]),
            ("accepted", [step.accepted for step in replica.steps]),
            ("draft_ps", [step.price.draft_ps for step in replica.steps]),
            ("held", [step.held for step in replica.steps]),
        ):
            assert store.column(column)[mine].tolist() == counted, column
