"""What a pool is made of: its model, GPU and calibration, and the checks that need them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from servetwin.catalog.find import Catalog
from servetwin.errors import CapacityError, ScenarioError
from servetwin.physics.memory import KvRoom, check_tensor, kv_room
from servetwin.scenario.engines import CALIBRATIONS
from servetwin.scenario.other_names import meant_value
from servetwin.scenario.schema import ModelReference, Parallel, Pool, Scenario
from servetwin.specs import Calibration, Gpu, ModelSpec
from servetwin.specs.dtypes import KV_DTYPES, WEIGHT_DTYPES

_PLACES = {
    "parallel.tensor": "parallel.tensor",
    "gpu_memory_utilization": "engine.gpu_memory_utilization",
    "max_num_seqs": "engine.max_num_seqs",
    "max_num_batched_tokens": "engine.max_num_batched_tokens",
    "block_size": "engine.block_size",
}
"""Where a pool has what physics names."""


_DEGREE = re.compile(r"tensor: (\d+) is the smallest degree that fits")


@contextmanager
def placed_in(place: str, gpu: Gpu) -> Iterator[None]:
    """Give errors of physics, which knows no scenario, the path of the pool, and no advice beyond a node."""
    try:
        yield
    except CapacityError as error:
        degree = _DEGREE.search(error.hint or "")
        if degree is not None and int(degree[1]) > gpu.link_domain:
            error.hint = (
                f"it would need {degree[1]} GPUs, more than the {gpu.link_domain} inside one node of {gpu.name}: "
                "use a GPU with more memory, or weights of lower precision"
            )
        elif degree is not None and error.hint is not None:
            error.hint = error.hint.replace("tensor:", f"{place}.parallel.tensor:")
        elif error.hint is not None:
            error.hint = error.hint.replace("gpu_memory_utilization", f"{place}.engine.gpu_memory_utilization")
        if isinstance(error.allowed, list) and error.path == "parallel.tensor":
            error.allowed = [degree for degree in error.allowed if int(degree) <= gpu.link_domain]
        if error.path in _PLACES:
            error.path = f"{place}.{_PLACES[error.path]}"
        raise


def gpus_per_replica(parallel: Parallel) -> int:
    """GPUs of a replica."""
    return parallel.tensor


@dataclass(frozen=True, slots=True)
class PoolParts:
    """What a pool is made of.

    Attributes:
        reference: how the scenario names the model.
        model: the model.
        gpu: the GPU.
        calibration: the constants of the engine.
        tensor: GPUs of a replica.
        weights: precision of the weights.
        kv_cache: precision of the KV cache.
    """

    reference: ModelReference
    model: ModelSpec
    gpu: Gpu
    calibration: Calibration
    tensor: int
    weights: str
    kv_cache: str

    def room(self, pool: Pool, place: str) -> KvRoom:
        """The KV blocks of a replica of ``pool``, whose memory settings are filled in.

        Args:
            pool: the pool.
            place: its path, for messages.

        Raises:
            CapacityError: the weights do not fit, or nothing is left for the KV cache.
        """
        engine = pool.engine
        assert engine.gpu_memory_utilization is not None and engine.max_num_batched_tokens is not None
        assert engine.max_num_seqs is not None
        with placed_in(place, self.gpu):
            return kv_room(
                self.model,
                self.gpu,
                tensor=self.tensor,
                weights=self.weights,
                kv_cache=self.kv_cache,
                gpu_memory_utilization=engine.gpu_memory_utilization,
                max_num_batched_tokens=engine.max_num_batched_tokens,
                block_size=engine.block_size,
                calibration=self.calibration,
                max_num_seqs=engine.max_num_seqs,
            )

    def whole_room(self, pool: Pool, place: str) -> KvRoom | None:
        """The same with all of the GPU's memory in use; None where the weights do not even fit then."""
        engine = pool.engine.model_copy(update={"gpu_memory_utilization": 1.0})
        try:
            return self.room(pool.model_copy(update={"engine": engine}), place)
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
    model = catalog.model(reference)
    weights = pool.precision.weights or "auto"
    kv_cache = pool.precision.kv_cache or "auto"
    _check_precision(weights, WEIGHT_DTYPES, f"{place}.precision.weights")
    _check_precision(kv_cache, KV_DTYPES, f"{place}.precision.kv_cache")
    gpu = catalog.gpu(pool.hardware)
    if pool.parallel.tensor > gpu.link_domain:
        raise CapacityError(
            f"the GPUs of a replica must lie inside one node, and a node of {gpu.name} has {gpu.link_domain}",
            path=f"{place}.parallel.tensor",
            found=pool.parallel.tensor,
            allowed=f"at most {gpu.link_domain}",
        )
    with placed_in(place, gpu):
        check_tensor(model, pool.parallel.tensor)
    return PoolParts(
        reference=reference,
        model=model,
        gpu=gpu,
        calibration=catalog.calibration(scenario.physics.calibration or CALIBRATIONS[scenario.engine.name]),
        tensor=pool.parallel.tensor,
        weights=model.running(weights),
        # vLLM's kv_cache_dtype auto is what the checkpoint asks for, else the dtype of the activations.
        kv_cache=model.native_kv_cache if kv_cache == "auto" else kv_cache,
    )


def _check_precision(value: str, known: tuple[str, ...], path: str) -> None:
    if value != "auto" and value not in known:
        allowed = ["auto", *known]
        raise ScenarioError(
            "unknown precision", path=path, found=value, allowed=allowed, nearest=meant_value(value, allowed)
        )
