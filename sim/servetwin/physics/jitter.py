"""Noise on the times of steps: the same for the same replica and step, whatever else happens."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from servetwin.physics.protocols import DRAFT, Phase, StepPrice, StepShape, StepTime

_BLOCK = 1024


class StepNoise:
    """Factors for the steps of one replica, one after the other: lognormal with mean 1.

    Args:
        variation: coefficient of variation of a factor, dimensionless.
        generator: the replica's own random stream; numbers are drawn in blocks.
    """

    def __init__(self, variation: float, generator: np.random.Generator) -> None:
        variance = math.log1p(variation * variation)
        self._mean, self._sigma = -variance / 2, math.sqrt(variance)
        self._generator = generator
        self._block: list[float] = []

    def __call__(self) -> float:
        """The factor of the next step that is planned."""
        block = self._block
        if not block:
            block.extend(self._generator.lognormal(self._mean, self._sigma, _BLOCK).tolist())
            block.reverse()
        return block.pop()


class BoundedStepTime(StepTime, Protocol):
    """A step time that knows the hardware's bound."""

    def floor(self, shape: StepShape) -> tuple[int, int]:
        """The least time of the step's arithmetic and HBM traffic, and of its collectives on the wire [ps].

        Neither is more than the price has for them.
        """


class JitteredStepTime:
    """Stretches the steps of another step time by ``StepShape.stretch``; implements ``StepTime``.

    Every part of a step is multiplied by the same factor, but compute and memory together are never shorter than the
    hardware's bound, nor communication than its bytes on the wire: a step whose price is near the bound can hardly
    become shorter, so that the mean of very noisy steps is a little above their price. Drafting takes its price.

    Args:
        exact: prices the steps without noise.
    """

    def __init__(self, exact: BoundedStepTime) -> None:
        self._exact = exact
        self.windows: tuple[int, ...] = exact.windows

    def price(self, shape: StepShape) -> StepPrice:
        """What the step takes, in whole picoseconds [ps]."""
        price = self._exact.price(shape)
        stretch = shape.stretch
        if stretch == 1.0:
            return price
        busy, wire = price.compute_ps + price.memory_ps, price.communication_ps
        new_busy, new_wire = math.ceil(busy * stretch), math.ceil(wire * stretch)
        if stretch < 1.0:
            least_busy, least_wire = self._exact.floor(shape)
            new_busy, new_wire = max(new_busy, least_busy), max(new_wire, least_wire)
        compute = new_busy * price.compute_ps // busy if busy else 0
        return StepPrice(
            compute, new_busy - compute, new_wire, math.ceil(price.host_ps * stretch),
            price.compute_growth_ps, price.memory_growth_ps, price.draft_ps, price.draft_growth_ps,
        )  # fmt: skip

    def phases(self, shape: StepShape) -> list[Phase]:
        """The step in order, each resource stretched as in the price; the sum is exactly the price."""
        phases = self._exact.phases(shape)
        if shape.stretch == 1.0:
            return phases
        price = self.price(shape)
        left = {
            "sm": price.compute_ps, "hbm": price.memory_ps, "link": price.communication_ps, "host": price.host_ps
        }  # fmt: skip
        old = dict.fromkeys(left, 0)
        for phase in phases:
            if phase.kind != DRAFT:
                old[phase.resource] += phase.ps
        stretched = []
        for phase in phases:
            resource = phase.resource
            if phase.kind == DRAFT:
                stretched.append(phase)
                continue
            ps = left[resource] * phase.ps // old[resource] if old[resource] else 0
            old[resource] -= phase.ps
            left[resource] -= ps
            stretched.append(phase._replace(ps=ps))
        return [phase for phase in stretched if phase.ps]

    def work(self, tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
        """See ``StepTime``."""
        return self._exact.work(tokens, requests, context, attended)
