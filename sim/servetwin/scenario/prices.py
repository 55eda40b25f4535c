"""Who prices the steps of a pool."""

from __future__ import annotations

from typing import Any

from servetwin.physics.aiconfigurator import open_database
from servetwin.physics.step_time import RooflineStepTime
from servetwin.physics.tables import TableStepTime
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.schema import Scenario
from servetwin.scenario.slowdown import slow_down

TABLES = "tables"


def price_steps(scenario: Scenario, parts: PoolParts) -> RooflineStepTime:
    """The step time of a pool, by the scenario's ``physics.backend``, slowed down by ``cluster.slowdown``.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of.

    Raises:
        ScenarioError, CatalogError: the tables are not installed, or have nothing for the GPU.
        CapacityError: the model cannot be split over the GPUs.
    """
    slowdown = scenario.cluster.slowdown
    gpu, calibration = slow_down(parts.gpu, parts.calibration, slowdown)
    common: dict[str, Any] = {
        "tensor": parts.tensor,
        "weights": parts.weights,
        "kv_cache": parts.kv_cache,
        "sampling": scenario.workload.sampling,
        "calibration": calibration,
    }
    if scenario.physics.backend == TABLES:
        database = open_database(parts.gpu, scenario.engine.name)
        return TableStepTime(parts.model, gpu, **common, database=database, slowdown=slowdown)
    return RooflineStepTime(parts.model, gpu, **common)
