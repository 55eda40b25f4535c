"""Who prices the steps of a pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
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
from servetwin.specs import Calibration, Gpu, ModelSpec
from servetwin.specs.health import HEALTHY, Health
from servetwin.specs.span import Span

TABLES = "tables"


def price_steps(
    scenario: Scenario, parts: PoolParts, model: ModelSpec | None = None, span: Span | None = None,
    health: Health = HEALTHY,
) -> RooflineStepTime:  # fmt: skip
    """The step time of a pool, by the scenario's ``physics.backend``, slowed down by ``cluster.slowdown``.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of.
        model: the part of its model to price, a stage of a pipeline; None = all of it, as if there were one stage.
        span: how the GPUs of a replica lie; in one link domain if not given.
        health: of the slowest GPU, for which the others wait.

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
        "span": _span(span, slowdown, gpu, parts, health),
    }
    if scenario.physics.backend == TABLES:
        database = open_database(parts.gpu, scenario.engine.name)
        return TableStepTime(model or parts.model, gpu, **common, database=database, slowdown=slowdown)
    return RooflineStepTime(model or parts.model, health.of(gpu), **common)


def price_pipeline(
    scenario: Scenario,
    parts: PoolParts,
    whole: RooflineStepTime,
    stages: list[RooflineStepTime],
    *,
    noisy: bool = False,
    span: Span | None = None,
    health: Sequence[Health] = (),
) -> PipelineStepTime:
    """The step time of a pool with a pipeline; between all stages the links are those of the worst placed pair.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of.
        whole: prices the model on one stage.
        stages: prices each stage, slowed down like ``whole``.
        noisy: whether the stages take noise on the time of a step.
        span: how the GPUs of a replica lie; in one link domain if not given.
        health: of the slowest GPU of each stage; all as the data sheet says if not given.
    """
    slowdown = scenario.cluster.slowdown
    gpu, calibration = slow_down(parts.gpu, parts.calibration, slowdown)

    def wires(health: Health) -> Span | None:
        return _span(span, slowdown, gpu, parts, health)

    priced: list[StepTime] = [JitteredStepTime(stage) if noisy else stage for stage in stages]
    hand_offs = [
        _hand_off(parts, gpu, calibration, wires(sender.worst(receiver)), wires(receiver))
        for sender, receiver in pairwise(health or [HEALTHY] * len(stages))
    ]
    return PipelineStepTime(whole, priced, hand_offs)


def _hand_off(
    parts: PoolParts, gpu: Gpu, calibration: Calibration, between: Span | None, inside: Span | None
) -> Callable[[int, float], float]:
    """Seconds until a step of so many tokens is handed on with a share of the links.

    Args:
        parts: what the pool is made of.
        gpu: its GPU, slowed down.
        calibration: its constants, slowed down.
        between: the wires between the two stages.
        inside: the wires inside the second.
    """
    send = Send(gpu, calibration, stage_span(between, parts.tensor))
    gather = AllGather(gpu, parts.tensor, calibration, tensor_span(inside, parts.tensor))
    return partial(hand_off_s, hidden=parts.model.hidden, tensor=parts.tensor, send=send.seconds, gather=gather.seconds)


def _span(span: Span | None, slowdown: float, gpu: Gpu, parts: PoolParts, health: Health) -> Span | None:
    """The wires of a replica, slowed down, with the share that is left of the links inside a domain."""
    span = slow_span(span, slowdown)
    if health.link == 1.0:
        return span
    span = span or Span(parts.gpus, 1, (parts.gpus,), gpu.link_bytes_per_s)
    return replace(span, inside_bytes_per_s=health.link * span.inside_bytes_per_s)
