"""What a pipeline adds to the explanation of a step: its stages, and the bubble at a given load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from servetwin.physics.communication import Exchange
from servetwin.physics.hand_off import HAND_OFF
from servetwin.physics.itemize import COLUMNS, Item, itemize
from servetwin.physics.memory import KvRoom
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.prices import price_hand_offs, price_pipeline, price_steps
from servetwin.scenario.schema import Pool, Scenario
from servetwin.specs import ModelSpec, Span
from servetwin.units import PS_PER_US


class StagedStep:
    """A step on every stage of a pool's pipeline.

    Args:
        scenario: the scenario, resolved.
        parts: what the pool is made of.
        whole: prices the model on one stage.
        shape: the step.
        span: how the GPUs of a replica lie; None = in one link domain.

    Attributes:
        prices: what prices each stage.
        items: the items of all stages, and the hand-offs between them.
    """

    def __init__(
        self, scenario: Scenario, parts: PoolParts, whole: RooflineStepTime, shape: StepShape, span: Span | None
    ) -> None:
        self._parts = parts
        self.prices = [price_steps(scenario, parts, stage, span) for stage in parts.stages]
        hand_offs = price_hand_offs(scenario, parts, span)
        pipeline = price_pipeline(whole, self.prices, hand_offs)
        self._hand_offs = pipeline.hand_offs(shape)
        self._stages = [itemize(prices, shape_on(prices, whole, shape), parts.gpu) for prices in self.prices]
        self.items = _merged(self._stages)
        sent = [one for hand_off in hand_offs for one in hand_off.sent(shape.padded_tokens)]
        floor_s = sum(one.bound_s for one in sent)
        item = Item(
            HAND_OFF, len(sent), wire_bytes=sum(one.wire_bytes for one in sent), wire_s=floor_s, floor_s=floor_s
        )
        item.ps[COLUMNS["link"]] = sum(self._hand_offs)
        self.items.append(item)

    def document(self, pool: Pool, rooms: Sequence[KvRoom]) -> dict[str, Any]:
        """The stages, and what micro-batches like this step lose to the bubble.

        With ``m`` of them going round, one comes back every ``max(latency, m · slowest stage) / m``: no schedule is
        faster, so that at least the rest of the stages' time is lost.

        Args:
            pool: the pool, resolved.
            rooms: the memory of a GPU of each stage; empty where the weights do not fit.
        """
        spans = [sum(item.total_ps for item in items) for items in self._stages]
        latency = sum(spans) + sum(self._hand_offs)
        slots = len(spans) + (1 if pool.engine.async_scheduling is True else 0)
        loads = []
        for number in range(1, slots + 1):
            turn = max(latency, number * max(spans))
            loads.append(
                {
                    "micro_batches": number,
                    "itl_us": turn / PS_PER_US,
                    "bubble_share": 1 - number * sum(spans) / (len(spans) * turn),
                }
            )
        return {
            "slots": slots,
            "batches": pool.engine.pipeline_batches,
            "latency_us": latency / PS_PER_US,
            "slowest_us": max(spans) / PS_PER_US,
            "stages": [self._stage(place, rooms[place] if rooms else None) for place in range(len(spans))],
            "loads": loads,
        }

    def _stage(self, place: int, room: KvRoom | None) -> dict[str, Any]:
        model, items = self._parts.stages[place], self._stages[place]
        columns = {column: sum(item.ps[column] for item in items) for column in COLUMNS.values()}
        last = place == len(self._stages) - 1
        return {
            "layers": model.num_layers,
            "holds": _holds(model),
            "total_us": sum(columns.values()) / PS_PER_US,
            **{f"{column}_us": ps / PS_PER_US for column, ps in columns.items()},
            "bound": max(columns, key=lambda column: columns[column]),
            "hand_off_us": 0.0 if last else self._hand_offs[place] / PS_PER_US,
            "weights_bytes": model.weight_bytes(self._parts.weights, self._parts.tensor),
            "kv_bytes": room.kv_bytes if room else None,
            "kv_blocks": room.num_blocks if room else None,
        }


def shape_on(prices: RooflineStepTime, whole: RooflineStepTime, shape: StepShape) -> StepShape:
    """The step as a stage sees it that may lack kinds of attention of the whole model."""
    if prices.windows == whole.windows:
        return shape
    kinds = (0, *(whole.windows.index(window) + 1 for window in prices.windows))
    return StepShape(
        shape.tokens, shape.padded_tokens, shape.graph, shape.requests, shape.decodes,
        tuple(shape.context[kind] for kind in kinds), tuple(shape.growing[kind] for kind in kinds), shape.chunks,
    )  # fmt: skip


def _holds(model: ModelSpec) -> str:
    """What a stage has besides layers."""
    return " and ".join(name for name, there in (("embedding", model.embeds), ("output", model.has_output)) if there)


def _together(one: Exchange | None, other: Exchange | None) -> Exchange | None:
    """Collectives of the same kind on two stages, which are of the same size."""
    if one is None or other is None:
        return one or other
    return one._replace(calls=one.calls + other.calls)


def _merged(stages: Sequence[Sequence[Item]]) -> list[Item]:
    """Items of the same name on several stages as one."""
    merged: dict[str, Item] = {}
    for items in stages:
        for item in items:
            into = merged.setdefault(item.name, Item(item.name, provenance=item.provenance))
            into.layers += item.layers
            for column, ps in item.ps.items():
                into.ps[column] += ps
            into.bytes_moved += item.bytes_moved
            into.flops += item.flops
            into.wire_bytes += item.wire_bytes
            into.wire_s += item.wire_s
            into.exchange = _together(into.exchange, item.exchange)
            into.arithmetic_s += item.arithmetic_s
            into.floor_s += item.floor_s
    # What only the last stage has, and what the engine adds, comes last, as in a model on one stage.
    return sorted(merged.values(), key=lambda item: item.name in ("logits", "sampling"))
