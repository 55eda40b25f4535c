"""The replicas of one pool, and what prices their steps."""

from __future__ import annotations

from functools import reduce
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servetwin.acceptance.build import build_fates
from servetwin.acceptance.spec import Preset
from servetwin.catalog.find import Catalog
from servetwin.cluster.gateway import Gateway
from servetwin.cluster.pool import Pool as ClusterPool
from servetwin.cluster.replica import Replica
from servetwin.engine.draft_batch import DraftBatch
from servetwin.engine.draft_executor import DraftingExecutor
from servetwin.engine.executor import Executor
from servetwin.engine.forecast import Forecast
from servetwin.engine.pipeline import PipelinedExecutor
from servetwin.engine.process import EngineProcess
from servetwin.engine.protocols import EngineSettings, Fates, KVConnector
from servetwin.engine.steps import StepMaker
from servetwin.engine.verify_steps import VerifyMaker
from servetwin.physics.drafting import Drafting
from servetwin.physics.hand_off import HandOff
from servetwin.physics.jitter import BoundedStepTime, JitteredStepTime, StepNoise
from servetwin.physics.pipeline import PipelineStepTime
from servetwin.physics.protocols import StepTime
from servetwin.physics.speculative_step_time import SpeculativeStepTime
from servetwin.physics.step_time import RooflineStepTime
from servetwin.policies import PolicyContext
from servetwin.results.meta import PoolMeta
from servetwin.results.recorder import Recorder
from servetwin.scenario.draft_prices import price_drafts
from servetwin.scenario.engine_settings import engine_settings
from servetwin.scenario.links import Network
from servetwin.scenario.pools import PoolParts, pool_parts
from servetwin.scenario.prices import price_hand_offs, price_pipeline, price_steps
from servetwin.scenario.schema import Pool, Scenario
from servetwin.scenario.speculation import Speculation
from servetwin.scenario.stragglers import stage_health
from servetwin.scenario.traffic import Exchanges
from servetwin.specs import Span
from servetwin.specs.health import HEALTHY, Health

if TYPE_CHECKING:
    from servetwin.kernel import Environment


class Priced:
    """The prices of steps, for all replicas of a pool that are alike.

    Args:
        scenario: the resolved scenario.
        parts: what the pool is made of.
        speculation: how it drafts, or None.
        settings: the settings of its engines.
        span: how the GPUs of a replica lie; None = in one link domain.
        health: of the slowest GPU of each stage.
    """

    def __init__(
        self, scenario: Scenario, parts: PoolParts, speculation: Speculation | None, settings: EngineSettings,
        span: Span | None, health: tuple[Health, ...],
    ) -> None:  # fmt: skip
        noisy, stages = scenario.physics.jitter > 0, parts.stages
        worst = reduce(Health.worst, health)
        self.prices = price_steps(scenario, parts, span=span, health=worst)
        exact: BoundedStepTime = self.prices
        #: What prices the drafts.
        self.drafting: Drafting | None = None
        if speculation is not None:
            links = self.prices.links
            self.drafting = price_drafts(scenario, parts, speculation, settings.graph_sizes, links, span, worst)
            exact = SpeculativeStepTime(self.prices, self.drafting)
        self.step_time: StepTime = JitteredStepTime(exact) if noisy else exact
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
        if speculation is not None:
            self.steps = VerifyMaker(settings, self.step_time, speculation.k, speculation.nodes)
        self.forecast = Forecast(settings, self.step_time)


class PoolBuilder:
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
        self._priced: dict[tuple[Span | None, tuple[Health, ...]], Priced] = {}
        self._exchanges: dict[Priced, Exchanges] = {}

    def priced(self, span: Span | None = None, health: tuple[Health, ...] | None = None) -> Priced:
        """What prices the steps of replicas that are alike.

        Args:
            span: how their GPUs lie; None = in one link domain.
            health: of the slowest GPU of each stage; None = all as the data sheet says.
        """
        health = health or (HEALTHY,) * len(self.parts.stages)
        found = self._priced.get((span, health))
        if found is None:
            found = self._priced[span, health] = Priced(
                self._scenario, self.parts, self._pool.speculation, self._settings, span, health
            )
        return found

    @property
    def prices(self) -> list[RooflineStepTime]:
        """What has priced steps so far, on each stage of a pipeline."""
        return [prices for one in self._priced.values() for prices in one.staged or [one.prices]]

    def priced_for(self, index: int, network: Network) -> Priced:
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
                self._settings.graph_sizes, priced.drafting,
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
        connector: KVConnector | None = None,
    ) -> ClusterPool:
        """The pool, which makes a replica whenever the cluster wants one."""

        speculation = self._pool.speculation
        fates: Fates | None = None
        if speculation is not None:
            assert not isinstance(speculation.acceptance, Preset)
            fates = build_fates(speculation.acceptance, context.streams, Path())

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
                "connector": connector,
            }
            executor: EngineProcess
            if fates is not None:
                executor = DraftingExecutor(
                    env, index, priced.step_time, self._settings, scheduler, log, gateway.finished,
                    batch=self._draft_batch(priced, fates, context), **options,
                )  # fmt: skip
            elif priced.pipeline is None:
                executor = Executor(
                    env, index, priced.step_time, self._settings, scheduler, log, gateway.finished, **options
                )
            else:
                executor = PipelinedExecutor(
                    env, index, priced.pipeline, self._settings, scheduler, log, gateway.finished, **options
                )
            return Replica(index, self._index, executor, self._pool.role, priced.forecast)

        return ClusterPool(self._index, self._pool.name, self._pool.role, replica)

    def _draft_batch(self, priced: Priced, fates: Fates, context: PolicyContext) -> DraftBatch:
        """The batch of one replica that drafts."""
        speculation, drafter, settings = self._pool.speculation, self.parts.drafter, self._settings
        assert speculation is not None and drafter is not None and isinstance(priced.steps, VerifyMaker)
        policy = speculation.controller
        return DraftBatch(
            settings.block_size, priced.step_time.windows, speculation.k, speculation.nodes, drafter.lookahead,
            settings.max_num_batched_tokens, settings.depth, fates,
            None if getattr(policy, "constant", False) else policy.build(context), priced.steps.forecast,
            (policy.policy, f"cluster.pools.{self._index}.speculation.controller"),
        )  # fmt: skip

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
