"""What the results print beside their columns: who ran, on what, under which limits.

The results know no engine and no scenario; everything they need to say about them comes in a ``RunMeta``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Work = Callable[[int, int, int, int], tuple[float, float]]
"""``(tokens, rows of logits, context, attended) -> (arithmetic [FLOP], HBM traffic [B])`` of a replica's step."""


@dataclass(slots=True)
class PoolMeta:
    """A pool of equal replicas.

    Attributes:
        name: the pool's name in the scenario.
        role: ``both``, ``prefill`` or ``decode``.
        first_replica: index of its first replica; the others follow.
        replicas: how many replicas it has.
        gpus_per_replica: GPUs of one replica, all stages of its pipeline.
        hardware: name of the hardware profile.
        peak_flops: peak arithmetic of a replica, all its GPUs together [FLOP/s].
        peak_bytes_per_s: peak HBM bandwidth of a replica, all its GPUs together [B/s].
        kv_capacity_tokens: KV cache room of a replica [tokens].
        work: what a step of a replica needs at least.
        price_per_gpu_hour_usd: price [USD per GPU and hour]; None if the profile has none.
        tdp_watts: thermal design power of a GPU [W]; None if the profile has none.
        stages: stages of the pipeline of a replica.
    """

    name: str
    role: str
    first_replica: int
    replicas: int
    gpus_per_replica: int
    hardware: str
    peak_flops: float
    peak_bytes_per_s: float
    kv_capacity_tokens: int
    work: Work
    price_per_gpu_hour_usd: float | None = None
    tdp_watts: float | None = None
    stages: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of the whole pool."""
        return self.replicas * self.gpus_per_replica

    @property
    def ridge_flops_per_byte(self) -> float:
        """The intensity [FLOP/B] at which arithmetic and HBM bandwidth limit a step equally."""
        return self.peak_flops / self.peak_bytes_per_s


@dataclass(frozen=True, slots=True)
class HandOverMeta:
    """How requests get from replicas that prefill to replicas that decode.

    Attributes:
        first_token: ``prefill`` or ``decode``: which of the two yields the first token.
        rate: for the indices of two replicas, what a transfer from one to the other gets if it is alone on its way
            [B/s]; None if it takes no time.
    """

    first_token: str
    rate: Callable[[int, int], float | None]


@dataclass(slots=True)
class RunMeta:
    """One run.

    Attributes:
        name: the scenario's name.
        seed: the seed of all random streams.
        version: version of servetwin.
        engine: name of the modelled engine.
        engine_version: version of the modelled engine.
        config_hash: hash of the resolved scenario.
        pools: the pools, in order of their replicas.
        slo: limits as in the scenario: metric → percentile → limit [ms], and ``goodput``: metric → limit [ms].
        class_slo: limits on each request of a class: class → metric → limit [ms]; empty for a class without.
        warmup_requests: how many requests, in order of arrival, the latency metrics leave out.
        trace_block_hit_rate_infinite: hit rate (0–1) of the trace's blocks in an endless cache, where it has blocks.
        model: name of the model.
        hand_overs: how requests are handed over; None where no pool only prefills or decodes.
    """

    name: str
    seed: int
    version: str
    engine: str
    engine_version: str
    config_hash: str
    pools: list[PoolMeta]
    slo: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    class_slo: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    warmup_requests: int = 0
    trace_block_hit_rate_infinite: float | None = None
    model: str = ""
    hand_overs: HandOverMeta | None = None

    @property
    def first_token_of_prefill(self) -> bool:
        """Whether the first token of a request that is handed over comes from the replica that prefills it."""
        return self.hand_overs is not None and self.hand_overs.first_token == "prefill"

    @property
    def replicas(self) -> int:
        """Replicas of all pools."""
        return max((pool.first_replica + pool.replicas for pool in self.pools), default=0)

    @property
    def gpus(self) -> int:
        """GPUs of all pools."""
        return sum(pool.gpus for pool in self.pools)

    def stages_of(self) -> list[int]:
        """For each replica index, the stages of its pipeline."""
        return [self.pools[owner].stages for owner in self.pool_of()]

    def pool_of(self) -> list[int]:
        """For each replica index, the index of its pool."""
        owners = [0] * self.replicas
        for index, pool in enumerate(self.pools):
            owners[pool.first_replica : pool.first_replica + pool.replicas] = [index] * pool.replicas
        return owners
