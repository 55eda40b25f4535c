"""Who prices the steps of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from servetwin.physics.aiconfigurator import open_database
from servetwin.physics.collectives import AllGather, Send, stage_span, tensor_span
from servetwin.physics.hand_off import HandOff
from servetwin.physics.jitter import JitteredStepTime
from servetwin.physics.pipeline import PipelineStepTime
from servetwin.physics.protocols import StepTime
from servetwin.physics.step_time import RooflineStepTime
from servetwin.physics.tables import TableStepTime
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.schema import Scenario
from servetwin.scenario.slowdown import slow_down, slow_span
from servetwin.specs import Gpu, ModelSpec
from servetwin.specs.health import HEALTHY, Health
from servetwin.specs.span import Span

TABLES = "tables"


def price_steps(
    scenario: Scenario, parts: PoolParts, model: ModelSpec | None = None, span: Span | None = None,
    health: Health = HEALTHY, sampling: str | None = None,
) -> RooflineStepTime:  # fmt: skip
    """The step time of a pool, by the scenario's ``physics.backend``, slowed down by ``cluster.slowdown``.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of.
        model: the part of its model to price, a stage of a pipeline; None = all of it, as if there were one stage.
        span: how the GPUs of a replica lie; in one link domain if not given.
        health: of the slowest GPU, for which the others wait.
        sampling: how tokens are chosen; None = as the workload says.

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
        "sampling": sampling or scenario.workload.sampling,
        "calibration": calibration,
        "context": parts.context,
        "uneven_heads": parts.uneven_heads,
        "synchronous": parts.synchronous,
        "span": _span(span, slowdown, gpu, parts, health),
    }
    if scenario.physics.backend == TABLES:
        database = open_database(parts.gpu, scenario.engine.name)
        return TableStepTime(model or parts.model, gpu, **common, database=database, slowdown=slowdown)
    return RooflineStepTime(model or parts.model, health.of(gpu), **common)


def price_pipeline(
    whole: RooflineStepTime, stages: list[RooflineStepTime], hand_offs: Sequence[HandOff], *, noisy: bool = False
) -> PipelineStepTime:
    """The step time of a pool with a pipeline.

    Args:
        whole: prices the model on one stage.
        stages: prices each stage, slowed down like ``whole``.
        hand_offs: from each stage but the last to the next.
        noisy: whether the stages take noise on the time of a step.
    """
    priced: list[StepTime] = [JitteredStepTime(stage) if noisy else stage for stage in stages]
    return PipelineStepTime(whole, priced, [hand_off.seconds for hand_off in hand_offs])


def price_hand_offs(
    scenario: Scenario, parts: PoolParts, span: Span | None = None, health: Sequence[Health] = ()
) -> list[HandOff]:
    """The hand-offs between the stages of a pool's pipeline; between all of them the links are the worst pair's.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of.
        span: how the GPUs of a replica lie; in one link domain if not given.
        health: of the slowest GPU of each stage; all as the data sheet says if not given.
    """
    slowdown = scenario.cluster.slowdown
    gpu, calibration = slow_down(parts.gpu, parts.calibration, slowdown)

    def wires(health: Health) -> Span | None:
        return _span(span, slowdown, gpu, parts, health)

    def hand_off(between: Span | None, inside: Span | None) -> HandOff:
        """With the wires between two stages and inside the second."""
        send = Send(gpu, calibration, stage_span(between, parts.tensor))
        gather = AllGather(gpu, parts.tensor, calibration, tensor_span(inside, parts.tensor))
        return HandOff(parts.model.hidden, parts.tensor, send, gather)

    return [
        hand_off(wires(sender.worst(receiver)), wires(receiver))
        for sender, receiver in pairwise(health or [HEALTHY] * len(parts.stages))
    ]


def _span(span: Span | None, slowdown: float, gpu: Gpu, parts: PoolParts, health: Health) -> Span | None:
    """The wires of a replica, slowed down, with the share that is left of the links inside a domain."""
    span = slow_span(span, slowdown)
    if health.link == 1.0:
        return span
    span = span or Span(parts.gpus, 1, (parts.gpus,), gpu.link_bytes_per_s)
    return replace(span, inside_bytes_per_s=health.link * span.inside_bytes_per_s)
