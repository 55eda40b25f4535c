"""Who prices the steps of a pool."""

from __future__ import annotations

from functools import partial
from typing import Any

from servetwin.physics.aiconfigurator import open_database
from servetwin.physics.collectives import AllGather, Send, stage_span, tensor_span
from servetwin.physics.jitter import JitteredStepTime
from servetwin.physics.pipeline import PipelineStepTime, hand_off_s
from servetwin.physics.protocols import StepTime
from servetwin.physics.step_time import RooflineStepTime
from servetwin.physics.tables import TableStepTime
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.schema import Scenario
from servetwin.scenario.slowdown import slow_down, slow_span
from servetwin.specs import ModelSpec
from servetwin.specs.span import Span

TABLES = "tables"


def price_steps(
    scenario: Scenario, parts: PoolParts, model: ModelSpec | None = None, span: Span | None = None
) -> RooflineStepTime:
    """The step time of a pool, by the scenario's ``physics.backend``, slowed down by ``cluster.slowdown``.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of.
        model: the part of its model to price, a stage of a pipeline; None = all of it, as if there were one stage.
        span: how the GPUs of a replica lie; in one link domain if not given.

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
        "context": parts.context,
        "uneven_heads": parts.uneven_heads,
        "span": slow_span(span, slowdown),
    }
    if scenario.physics.backend == TABLES:
        database = open_database(parts.gpu, scenario.engine.name)
        return TableStepTime(model or parts.model, gpu, **common, database=database, slowdown=slowdown)
    return RooflineStepTime(model or parts.model, gpu, **common)


def price_pipeline(
    scenario: Scenario,
    parts: PoolParts,
    whole: RooflineStepTime,
    stages: list[RooflineStepTime],
    *,
    noisy: bool = False,
    span: Span | None = None,
) -> PipelineStepTime:
    """The step time of a pool with a pipeline; between all stages the links are those of the worst placed pair.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of.
        whole: prices the model on one stage.
        stages: prices each stage, slowed down like ``whole``.
        noisy: whether the stages take noise on the time of a step.
        span: how the GPUs of a replica lie; in one link domain if not given.
    """
    gpu, calibration = slow_down(parts.gpu, parts.calibration, scenario.cluster.slowdown)
    span = slow_span(span, scenario.cluster.slowdown)
    send = Send(gpu, calibration, stage_span(span, parts.tensor))
    gather = AllGather(gpu, parts.tensor, calibration, tensor_span(span, parts.tensor))
    hand_off = partial(
        hand_off_s, hidden=parts.model.hidden, tensor=parts.tensor, send=send.seconds, gather=gather.seconds
    )
    priced: list[StepTime] = [JitteredStepTime(stage) if noisy else stage for stage in stages]
    return PipelineStepTime(whole, priced, [hand_off] * (len(stages) - 1))
