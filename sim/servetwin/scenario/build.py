"""From a scenario to a simulation that is ready to run: the only place that puts the objects together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servetwin import __version__
from servetwin.catalog.find import Catalog
from servetwin.cluster.cluster import Cluster
from servetwin.cluster.gateway import Gateway
from servetwin.cluster.pool import Pool as ClusterPool
from servetwin.cluster.replica import Replica
from servetwin.engine.executor import Executor
from servetwin.engine.pipeline import PipelinedExecutor
from servetwin.engine.process import EngineProcess
from servetwin.engine.protocols import EngineSettings
from servetwin.engine.steps import StepMaker
from servetwin.kernel import new_environment
from servetwin.physics.hand_off import HandOff
from servetwin.physics.jitter import JitteredStepTime, StepNoise
from servetwin.physics.pipeline import PipelineStepTime
from servetwin.physics.protocols import StepTime
from servetwin.physics.step_time import RooflineStepTime
from servetwin.policies import PolicyContext
from servetwin.request import Request
from servetwin.results.meta import PoolMeta, RunMeta
from servetwin.results.recorder import Recorder
from servetwin.scenario.engines import graph_sizes
from servetwin.scenario.links import Network
from servetwin.scenario.pools import PoolParts, pool_parts
from servetwin.scenario.prices import price_hand_offs, price_pipeline, price_steps
from servetwin.scenario.remarks import remarks
from servetwin.scenario.resolve import resolve
from servetwin.scenario.schema import Pool, Scenario
from servetwin.scenario.store import config_hash
from servetwin.scenario.stragglers import stage_health
from servetwin.scenario.traffic import Exchanges
from servetwin.specs import Span
from servetwin.specs.health import HEALTHY, Health
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
        exchanges: what each replica exchanges in a step, where the network has links and it has several GPUs.
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
    builders = [_PoolBuilder(scenario, index, catalog) for index in range(len(scenario.cluster.pools))]
    meshed = scenario.cluster.topology is not None and any(builder.parts.gpus > 1 for builder in builders)
    recorder = Recorder(_meta(scenario, builders), timeline=timeline, chunks=meshed)
    env = new_environment()
    pools = scenario.cluster.pools
    context = PolicyContext(
        streams=streams,
        replicas=sum(pool.replicas or 1 for pool in pools),
        seats=sum((pool.replicas or 1) * (pool.engine.max_num_seqs or 0) for pool in pools),
    )
    gateway = Gateway(env, scenario.admission.build(context), scenario.router.build(context), recorder)
    source = Source(env, stream, gateway.submit)
    network = Network(scenario, catalog, env, lambda: not source.exhausted or bool(gateway.in_flight))
    parts = [(builder.pool(env, gateway, recorder, context, network, strict), builder.size) for builder in builders]
    cluster = Cluster(env, gateway, parts, recorder)
    if stream.reacts:
        gateway.on_finished = source.finished
    if progress is not None:
        gateway.on_finished = _counting(gateway.on_finished, progress, stream.expected, env)
    found = [*remarks(scenario, [builder.parts for builder in builders]), *network.remarks]
    prices = [prices for builder in builders for prices in builder.prices]
    owners = [builder for builder in builders for _ in range(builder.size)]
    traffic = [owner.exchanges(index, network) for index, owner in enumerate(owners)] if meshed else []
    return Simulation(scenario, env, cluster, stream, source, recorder, found, prices, network, traffic)


class _Priced:
    """The prices of steps, for all replicas of a pool that are alike.

    Args:
        scenario: the resolved scenario.
        parts: what the pool is made of.
        settings: the settings of its engines.
        span: how the GPUs of a replica lie; None = in one link domain.
        health: of the slowest GPU of each stage.
    """

    def __init__(
        self, scenario: Scenario, parts: PoolParts, settings: EngineSettings, span: Span | None,
        health: tuple[Health, ...],
    ) -> None:  # fmt: skip
        noisy, stages = scenario.physics.jitter > 0, parts.stages
        self.prices = price_steps(scenario, parts, span=span, health=reduce(Health.worst, health))
        self.step_time: StepTime = JitteredStepTime(self.prices) if noisy else self.prices
        #: By stage of a pipeline.
        self.staged: list[RooflineStepTime] = []
        self.pipeline: PipelineStepTime | None = None
        self.hand_offs: list[HandOff] = []
        if len(stages) > 1:
            self.staged = [price_steps(scenario, parts, *of_stage) for of_stage in zip(stages, repeat(span), health)]
            self.hand_offs = price_hand_offs(scenario, parts, span, health)
            self.pipeline = price_pipeline(self.prices, self.staged, self.hand_offs, noisy=noisy)
            self.step_time = self.pipeline
        self.steps = StepMaker(settings, self.step_time)


class _PoolBuilder:
    """Makes the replicas of one pool, and says in the results what they are."""

    def __init__(self, scenario: Scenario, index: int, catalog: Catalog) -> None:
        self._pool: Pool = scenario.cluster.pools[index]
        self._index = index
        self._stepping = scenario.run.stepping
        place = f"cluster.pools.{index}"
        self.parts: PoolParts = pool_parts(scenario, self._pool, place, catalog)
        self.size = self._pool.replicas or 1
        self._scenario = scenario
        self._jitter = scenario.physics.jitter
        override = self._pool.engine.num_gpu_blocks_override
        blocks = override if override is not None else self.parts.room(self._pool, place).num_blocks
        self._settings = engine_settings(self._pool, self.parts, blocks)
        self._priced: dict[tuple[Span | None, tuple[Health, ...]], _Priced] = {}
        self._exchanges: dict[_Priced, Exchanges] = {}

    def priced(self, span: Span | None = None, health: tuple[Health, ...] | None = None) -> _Priced:
        """What prices the steps of replicas that are alike.

        Args:
            span: how their GPUs lie; None = in one link domain.
            health: of the slowest GPU of each stage; None = all as the data sheet says.
        """
        health = health or (HEALTHY,) * len(self.parts.stages)
        found = self._priced.get((span, health))
        if found is None:
            found = self._priced[span, health] = _Priced(self._scenario, self.parts, self._settings, span, health)
        return found

    @property
    def prices(self) -> list[RooflineStepTime]:
        """What has priced steps so far, on each stage of a pipeline."""
        return [prices for one in self._priced.values() for prices in one.staged or [one.prices]]

    def priced_for(self, index: int, network: Network) -> _Priced:
        """What prices the steps of the replica with this index."""
        health = stage_health(self._scenario.cluster.stragglers, index, self._pool.parallel)
        return self.priced(network.span_of(index), health)

    def exchanges(self, index: int, network: Network) -> Exchanges | None:
        """What the replica with this index exchanges in a step; None where it has one GPU."""
        if self.parts.gpus == 1:
            return None
        priced = self.priced_for(index, network)
        found = self._exchanges.get(priced)
        if found is None:
            found = self._exchanges[priced] = Exchanges(
                priced.staged or [priced.prices], priced.hand_offs, self.parts.tensor, self.parts.context,
                self._settings.graph_sizes,
            )  # fmt: skip
        return found

    def pool(
        self,
        env: Environment,
        gateway: Gateway,
        log: Recorder,
        context: PolicyContext,
        network: Network,
        strict: bool,
    ) -> ClusterPool:
        """The pool, which makes a replica whenever the cluster wants one."""

        def noise(index: int) -> StepNoise | None:
            return StepNoise(self._jitter, context.streams.generator("jitter", index)) if self._jitter else None

        def replica(index: int) -> Replica:
            priced = self.priced_for(index, network)
            scheduler = self._pool.engine.scheduling.build(context)
            options: dict[str, Any] = {
                "stepping": self._stepping,
                "gpus": self.parts.tensor * self.parts.context,
                "strict": strict,
                "steps": priced.steps,
                "noise": noise(index),
                "links": network.links_of(index),
            }
            executor: EngineProcess
            if priced.pipeline is None:
                executor = Executor(
                    env, index, priced.step_time, self._settings, scheduler, log, gateway.finished, **options
                )
            else:
                executor = PipelinedExecutor(
                    env, index, priced.pipeline, self._settings, scheduler, log, gateway.finished, **options
                )
            return Replica(index, self._index, executor)

        return ClusterPool(self._index, self._pool.name, self._pool.role, replica)

    def meta(self, first_replica: int) -> PoolMeta:
        """What the results say about the pool."""
        parts = self.parts
        return PoolMeta(
            name=self._pool.name,
            role=self._pool.role,
            first_replica=first_replica,
            replicas=self.size,
            gpus_per_replica=parts.gpus,
            hardware=parts.gpu.name,
            peak_flops=parts.gpu.peak(parts.weights) * parts.gpus,
            peak_bytes_per_s=parts.gpu.hbm_bytes_per_s * parts.gpus,
            kv_capacity_tokens=(self._settings.num_blocks - 1) * self._settings.block_size,
            work=self.priced().step_time.work,
            price_per_gpu_hour_usd=parts.gpu.price_per_hour_usd or None,
            tdp_watts=parts.gpu.tdp_watts or None,
            stages=len(parts.stages),
        )


def captured(pool: Pool) -> tuple[int, ...]:
    """The batch sizes of the CUDA graphs of a resolved pool [tokens]; no step is above its token budget."""
    engine = pool.engine
    return graph_sizes(min(engine.max_cudagraph_capture_size or 0, engine.max_num_batched_tokens or 0))


def engine_settings(pool: Pool, parts: PoolParts, num_blocks: int) -> EngineSettings:
    """The settings of the engines of a resolved pool.

    Args:
        pool: the pool, resolved.
        parts: what it is made of.
        num_blocks: KV blocks of a rank, the null block included.
    """
    engine, calibration = pool.engine, parts.calibration
    assert engine.max_num_batched_tokens is not None and engine.max_num_seqs is not None
    assert isinstance(engine.max_model_len, int)
    return EngineSettings(
        max_num_batched_tokens=engine.max_num_batched_tokens,
        max_num_seqs=engine.max_num_seqs,
        max_model_len=engine.max_model_len,
        block_size=engine.block_size,
        num_blocks=num_blocks,
        prefix_caching=engine.prefix_caching,
        chunked_prefill=engine.chunked_prefill,
        long_prefill_token_threshold=engine.long_prefill_token_threshold,
        reserve_full_prompt=engine.scheduler_reserve_full_isl,
        # Rounded down, as in vLLM's kv_cache_manager.
        watermark_blocks=int(engine.watermark * num_blocks),
        depth=1 if engine.async_scheduling is True else 0,
        graph_sizes=captured(pool),
        front_end_ps=seconds_to_ps(calibration.front_end_s),
        front_end_per_token_ps=seconds_to_ps(calibration.front_end_s_per_token),
        output_ps_per_request=seconds_to_ps(calibration.output_s_per_request),
        stages=len(parts.stages),
        balanced=engine.pipeline_batches == "balanced",
    )


def _meta(scenario: Scenario, builders: list[_PoolBuilder]) -> RunMeta:
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
