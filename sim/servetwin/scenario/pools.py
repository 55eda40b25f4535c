"""What a pool is made of: its model, GPU and calibration, and the checks that need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError, ScenarioError
from servetwin.physics.memory import KvRoom, check_context, check_tensor
from servetwin.physics.stages import check_pipeline, smallest_pipeline, stage_models, stage_rooms
from servetwin.scenario.advice import DEGREE, MostGpus, most_gpus, placed_in
from servetwin.scenario.drafters import PoolDrafter, pool_drafter
from servetwin.scenario.engines import CALIBRATIONS
from servetwin.scenario.other_names import meant_value
from servetwin.scenario.schema import ModelReference, Parallel, Pool, Scenario
from servetwin.specs import Calibration, Gpu, ModelSpec
from servetwin.specs.dtypes import KV_DTYPES, WEIGHT_DTYPES


def gpus_per_replica(parallel: Parallel) -> int:
    """GPUs of a replica."""
    return parallel.tensor * parallel.context * parallel.pipeline


@dataclass(frozen=True, slots=True)
class PoolParts:
    """What a pool is made of.

    Attributes:
        reference: how the scenario names the model.
        model: the model.
        gpu: the GPU.
        calibration: the constants of the engine.
        tensor: GPUs that share each layer.
        stages: the model cut into the stages of a pipeline; the model itself where there is one.
        weights: precision of the weights.
        kv_cache: precision of the KV cache.
        context: groups of ``tensor`` GPUs that share out prompts.
        uneven_heads: whether ``tensor`` need not divide the query heads.
        drafter: who drafts, or None.
        synchronous: whether the engine schedules a step when it knows the tokens of the one before.
        most: how many GPUs a replica can have.
    """

    reference: ModelReference
    model: ModelSpec
    gpu: Gpu
    calibration: Calibration
    tensor: int
    stages: tuple[ModelSpec, ...]
    weights: str
    kv_cache: str
    most: MostGpus
    context: int = 1
    uneven_heads: bool = False
    drafter: PoolDrafter | None = None
    synchronous: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of a replica."""
        return self.tensor * self.context * len(self.stages)

    def room(self, pool: Pool, place: str) -> KvRoom:
        """The room of the GPU with the fewest KV blocks, which decides how many the replica has; see ``rooms``."""
        return min(self.rooms(pool, place), key=lambda room: room.num_blocks)

    def rooms(self, pool: Pool, place: str) -> list[KvRoom]:
        """The room of a GPU of each stage of ``pool``, whose memory settings are filled in.

        Args:
            pool: the pool.
            place: its path, for messages.

        Raises:
            CapacityError: the weights do not fit, or nothing is left for the KV cache.
        """
        engine = pool.engine
        assert engine.gpu_memory_utilization is not None and engine.max_num_batched_tokens is not None
        assert engine.max_num_seqs is not None
        settings = {
            "gpu": self.gpu,
            "weights": self.weights,
            "kv_cache": self.kv_cache,
            "gpu_memory_utilization": engine.gpu_memory_utilization,
            "max_num_batched_tokens": engine.max_num_batched_tokens,
            "block_size": engine.block_size,
            "calibration": self.calibration,
            "max_num_seqs": engine.max_num_seqs,
            "uneven_heads": self.uneven_heads,
        }
        if self.drafter is not None:
            settings["drafter_bytes"] = self.drafter.weight_bytes
            settings["drafter_kv_bytes"] = self.drafter.kv_bytes
            settings["drafter"] = self.drafter.spec.name
        with placed_in(place, self.most, len(self.stages) * self.context):
            try:
                return stage_rooms(self.stages, self.tensor, **settings)
            except CapacityError as error:
                self._advise(error, settings)
                raise

    def _advise(self, error: CapacityError, settings: dict[str, Any]) -> None:
        """Name the smallest pipeline where no tensor degree of a node makes the weights fit."""
        tensor = DEGREE.search(error.hint or "")
        most = self.gpu.link_domain // (len(self.stages) * self.context)
        if error.path != "parallel.tensor" or (tensor is not None and int(tensor[1]) <= most) or self.context > 1:
            return
        degree = smallest_pipeline(self.model, self.tensor, **settings)
        if degree is not None and degree * self.tensor <= self.most.gpus:
            error.hint = f"pipeline: {degree} is the smallest degree that fits"

    def whole_room(self, pool: Pool, place: str) -> KvRoom | None:
        """As ``room``, with all of the GPU's memory in use; None where the weights do not even fit then."""
        rooms = self.whole_rooms(pool, place)
        return min(rooms, key=lambda room: room.num_blocks) if rooms else None

    def whole_rooms(self, pool: Pool, place: str) -> list[KvRoom] | None:
        """As ``rooms``, with all of the GPU's memory in use; None where the weights do not even fit then."""
        engine = pool.engine.model_copy(update={"gpu_memory_utilization": 1.0})
        try:
            return self.rooms(pool.model_copy(update={"engine": engine}), place)
        except CapacityError:
            return None


def pool_parts(scenario: Scenario, pool: Pool, place: str, catalog: Catalog) -> PoolParts:
    """Look up what a pool is made of.

    Args:
        scenario: the scenario.
        pool: one of its pools, with what stands under ``cluster`` merged in.
        place: the path of the pool, for messages.
        catalog: where to look.

    Raises:
        ScenarioError: no model or no hardware is named, or a precision is unknown.
        CatalogError: the catalog does not have what is named.
        CapacityError: the model cannot be split over the GPUs.
    """
    reference = pool.model if pool.model is not None else scenario.model
    if reference is None:
        raise ScenarioError(
            "the field 'model' is missing",
            path="model",
            allowed="the name of a model, or the path of a config.json",
        )
    if pool.hardware is None:
        raise ScenarioError(
            "the field 'hardware' is missing", path="cluster.hardware", allowed=catalog.names("hardware")
        )
    model = catalog.model(reference, "model" if pool.model is None else f"{place}.model")
    weights = pool.precision.weights or "auto"
    kv_cache = pool.precision.kv_cache or "auto"
    _check_precision(weights, WEIGHT_DTYPES, f"{place}.precision.weights")
    _check_precision(kv_cache, KV_DTYPES, f"{place}.precision.kv_cache")
    gpu = catalog.gpu(pool.hardware)
    most = most_gpus(scenario.cluster.topology, str(pool.hardware), gpu, catalog)
    _check_parallel(scenario, pool, place, model, gpu, most)
    weights = model.running(weights)
    # vLLM's kv_cache_dtype auto is what the checkpoint asks for, else the dtype of the activations.
    kv_cache = model.native_kv_cache if kv_cache == "auto" else kv_cache
    return PoolParts(
        reference=reference,
        model=model,
        gpu=gpu,
        calibration=catalog.calibration(scenario.physics.calibration or CALIBRATIONS[scenario.engine.name]),
        tensor=pool.parallel.tensor,
        stages=stage_models(model, pool.parallel.pipeline),
        weights=weights,
        kv_cache=kv_cache,
        most=most,
        context=pool.parallel.context,
        uneven_heads=pool.parallel.uneven_heads,
        synchronous=is_synchronous(pool),
        drafter=pool_drafter(pool, model, weights, kv_cache, place, catalog),
    )


def is_synchronous(pool: Pool) -> bool:
    """Whether the engines of a pool schedule a step when they know the tokens of the one before."""
    return pool.engine.async_scheduling is False and pool.parallel.pipeline == 1


def _check_parallel(
    scenario: Scenario, pool: Pool, place: str, model: ModelSpec, gpu: Gpu, most: MostGpus
) -> None:  # fmt: skip
    """Refuse what the GPUs of a replica cannot share out."""
    parallel = pool.parallel
    if scenario.cluster.topology is None:
        _check_node(parallel, gpu, place)
    if parallel.context > 1 and parallel.pipeline > 1:
        raise CapacityError(
            "context groups and a pipeline cannot be combined in this version", path=f"{place}.parallel.context",
            found=parallel.context, allowed="1, or parallel.pipeline: 1",
        )  # fmt: skip
    budget = pool.engine.max_num_batched_tokens
    if budget is not None and parallel.context > budget:
        raise CapacityError(
            "a step has fewer tokens than there are groups to share out a prompt",
            path=f"{place}.parallel.context",
            found=parallel.context,
            allowed=f"at most max_num_batched_tokens = {budget:,}",
        )
    with placed_in(place, most, parallel.pipeline * parallel.context):
        check_tensor(model, parallel.tensor, parallel.uneven_heads)
        check_context(model, parallel.context)
        check_pipeline(model, parallel.pipeline)


def _check_node(parallel: Parallel, gpu: Gpu, place: str) -> None:
    """Refuse a replica that is larger than a link domain where nothing says how its servers are joined."""
    most, taken, beside = gpu.link_domain, 1, ""
    for field in ("tensor", "context", "pipeline"):
        degree = getattr(parallel, field)
        if taken * degree > most:
            raise CapacityError(
                f"a node of {gpu.name} has {most} GPUs, and nothing says how nodes are joined",
                path=f"{place}.parallel.{field}",
                found=degree,
                allowed=f"at most {most // taken}{beside}",
                hint="cluster.topology: {} joins as many servers as it takes by their NICs",
            )
        taken *= degree
        if degree > 1:
            beside += f"{' and' if beside else ' beside'} {field}: {degree}"


def _check_precision(value: str, known: tuple[str, ...], path: str) -> None:
    if value != "auto" and value not in known:
        allowed = ["auto", *known]
        raise ScenarioError(
            "unknown precision", path=path, found=value, allowed=allowed, nearest=meant_value(value, allowed)
        )
