"""From a scenario to a simulation that is ready to run: the only place that puts the objects together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servetwin import __version__
from servetwin.catalog.find import Catalog
from servetwin.cluster.cluster import Cluster
from servetwin.cluster.connectors import HandOverConnector
from servetwin.cluster.departures import Leave, schedule_departure
from servetwin.cluster.gateway import Gateway
from servetwin.cluster.protocols import Router
from servetwin.cluster.rules import PULL
from servetwin.kernel import new_environment
from servetwin.physics.step_time import RooflineStepTime
from servetwin.policies import PolicyContext
from servetwin.request import Request
from servetwin.results.meta import HandOverMeta, PoolMeta, RunMeta
from servetwin.results.recorder import Recorder
from servetwin.scenario.links import Network
from servetwin.scenario.pool_builder import PoolBuilder
from servetwin.scenario.remarks import remarks
from servetwin.scenario.resolve import resolve
from servetwin.scenario.schema import Scenario
from servetwin.scenario.split import split_up
from servetwin.scenario.store import config_hash
from servetwin.scenario.traffic import Exchanges
from servetwin.streams import Streams
from servetwin.units import seconds_to_ps
from servetwin.workload.build import build_stream
from servetwin.workload.source import Source
from servetwin.workload.stream import RequestStream

if TYPE_CHECKING:
    from servetwin.kernel import Environment

Progress = Callable[[int, int | None, int], None]
"""``(requests ended, requests expected or None, simulated time [ps])``, called now and then."""

_PROGRESS_EVERY = 256


@dataclass(slots=True)
class Simulation:
    """Everything that takes part in a run.

    Attributes:
        scenario: the resolved scenario.
        env: the environment.
        cluster: the replicas behind their gateway.
        stream: the requests.
        source: lets them arrive.
        recorder: keeps what happens.
        remarks: what the user should know before trusting the results.
        prices: what prices the steps of each pool, on each stage of its pipeline.
        network: the links between the GPUs.
        exchanges: what each replica exchanges in a step; None where it has one GPU.
    """

    scenario: Scenario
    env: Environment
    cluster: Cluster
    stream: RequestStream
    source: Source
    recorder: Recorder
    remarks: list[str]
    prices: list[RooflineStepTime]
    network: Network
    exchanges: list[Exchanges | None]


def build(
    scenario: Scenario,
    *,
    catalog: Catalog | None = None,
    timeline: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
) -> Simulation:
    """Build the simulation of a scenario.

    Args:
        scenario: what to simulate; resolved if it is not.
        catalog: where models, GPUs and calibrations are.
        timeline: whether the phases of steps are kept.
        strict: whether every account is counted again after each plan (slow).
        progress: told now and then how far the run is.

    Raises:
        InputError: the scenario cannot exist, or a file that it names is wrong.
    """
    catalog = catalog or Catalog()
    scenario, _ = resolve(scenario, catalog)
    streams = Streams(scenario.run.seed)
    run = scenario.run
    stream = build_stream(
        scenario.workload,
        streams,
        requests=run.requests,
        duration_ps=None if run.duration_s is None else seconds_to_ps(run.duration_s),
        base=Path(),
    )
    builders = [PoolBuilder(scenario, index, catalog) for index in range(len(scenario.cluster.pools))]
    meshed = any(builder.parts.gpus > 1 for builder in builders)
    recorder = Recorder(_meta(scenario, builders), timeline=timeline, chunks=meshed)
    env = new_environment()
    pools = scenario.cluster.pools
    context = PolicyContext(
        streams=streams,
        replicas=sum(pool.replicas or 1 for pool in pools),
        seats=sum((pool.replicas or 1) * (pool.engine.max_num_seqs or 0) for pool in pools),
    )
    gateway = Gateway(env, scenario.admission.build(context), recorder)
    source = Source(env, stream, gateway.submit)
    network = Network(scenario, catalog, env, lambda: not source.exhausted or bool(gateway.in_flight))
    split = connector = None
    if scenario.cluster.transfer is not None:
        assert network.ways is not None and scenario.cluster.transfer.first_token is not None
        recorder.meta.hand_overs = HandOverMeta(scenario.cluster.transfer.first_token, network.ways.rate)
        split = split_up(scenario, env, context, network, recorder)
        connector = HandOverConnector(split, scenario.cluster.transfer.mode != PULL)
    parts = [
        (builder.pool(env, gateway, recorder, context, network, strict, connector), builder.size)
        for builder in builders
    ]
    routers: dict[str, Router] = {
        pool.role: (pool.router or scenario.router).build(context) for pool in reversed(pools)
    }
    cluster = Cluster(env, gateway, parts, recorder, routers, split)
    for one in scenario.cluster.departures:
        schedule_departure(env, cluster, Leave(one.replica, seconds_to_ps(one.at_s), one.drain))
    if stream.reacts:
        gateway.on_finished = source.finished
    if progress is not None:
        gateway.on_finished = _counting(gateway.on_finished, progress, stream.expected, env)
    found = [*remarks(scenario, [builder.parts for builder in builders]), *network.remarks]
    prices = [prices for builder in builders for prices in builder.prices]
    owners = [builder for builder in builders for _ in range(builder.size)]
    traffic = [owner.exchanges(index, network) for index, owner in enumerate(owners)] if meshed else []
    return Simulation(scenario, env, cluster, stream, source, recorder, found, prices, network, traffic)


def _meta(scenario: Scenario, builders: list[PoolBuilder]) -> RunMeta:
    pools: list[PoolMeta] = []
    for builder in builders:
        pools.append(builder.meta(sum(pool.replicas for pool in pools)))
    models = list(dict.fromkeys(builder.parts.model.name for builder in builders))
    return RunMeta(
        name=scenario.name,
        seed=scenario.run.seed,
        version=__version__,
        engine=scenario.engine.name,
        engine_version=scenario.engine.version,
        config_hash=config_hash(scenario),
        pools=pools,
        slo=scenario.slo.model_dump(exclude_none=True),
        class_slo={
            entry.name: {} if entry.slo is None else entry.slo.model_dump(exclude_none=True)
            for entry in scenario.workload.classes
        },
        warmup_requests=scenario.run.warmup_requests,
        model=", ".join(models),
    )


def _counting(
    finished: Callable[[Request, int], None],
    progress: Progress,
    expected: int | None,
    env: Environment,
) -> Callable[[Request, int], None]:
    """``finished``, which also tells ``progress`` of every 256th request."""
    ended = 0

    def count(request: Request, visible_ps: int) -> None:
        nonlocal ended
        ended += 1
        if ended % _PROGRESS_EVERY == 0:
            progress(ended, expected, int(env.now))
        finished(request, visible_ps)

    return count
