"""Where the time of a replica's steps went."""

from __future__ import annotations

from servetwin.engine.plan import PlannedStep
from servetwin.physics.protocols import StepPrice


class StepLedger:
    """Sums of what steps were bound by [ps].

    A step is first split by tokens into useful and recomputed ones; only the useful part counts as compute, HBM or
    communication. Time that the GPU waits for the CPU is host time, whoever's tokens it serves.
    """

    __slots__ = ("communication_ps", "compute_ps", "host_ps", "memory_ps", "recompute_ps")

    def __init__(self) -> None:
        self.compute_ps = 0
        self.memory_ps = 0
        self.communication_ps = 0
        self.host_ps = 0
        self.recompute_ps = 0

    @property
    def busy_ps(self) -> int:
        """All time in which the replica had a step under way [ps]."""
        return self.compute_ps + self.memory_ps + self.communication_ps + self.host_ps + self.recompute_ps

    def add(self, step: PlannedStep, offset: int, count: int) -> None:
        """``count`` steps of the series of ``step``, from its step number ``offset`` on."""
        price = step.price
        # Sum of offset, offset + 1, …, offset + count − 1: how many growths there are in all.
        growths = offset * count + count * (count - 1) // 2
        compute = price.compute_ps * count + price.compute_growth_ps * growths
        memory = price.memory_ps * count + price.memory_growth_ps * growths
        communication = price.communication_ps * count
        self.host_ps += price.host_ps * count
        if step.recomputed:
            tokens = step.shape.tokens
            again = [part * step.recomputed // tokens for part in (compute, memory, communication)]
            compute -= again[0]
            memory -= again[1]
            communication -= again[2]
            self.recompute_ps += sum(again)
        self.compute_ps += compute
        self.memory_ps += memory
        self.communication_ps += communication

    def add_partial(self, price: StepPrice, offset: int, elapsed_ps: int) -> None:
        """``elapsed_ps`` [ps] of a step that was under way at the end of the run, split like the whole step."""
        total = price.total_ps + offset * price.growth_ps
        compute = elapsed_ps * (price.compute_ps + offset * price.compute_growth_ps) // total
        communication = elapsed_ps * price.communication_ps // total
        host = elapsed_ps * price.host_ps // total
        self.compute_ps += compute
        self.communication_ps += communication
        self.host_ps += host
        self.memory_ps += elapsed_ps - compute - communication - host
