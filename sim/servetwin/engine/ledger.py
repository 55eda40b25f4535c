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

    def add(self, step: PlannedStep, count: int) -> None:
        """``count`` steps of the series that starts with ``step``.

        A step that computes tokens again has a prefill chunk, so it stands alone.
        """
        price = step.price
        compute = price.compute_ps * count
        memory = price.memory_ps * count
        communication = price.communication_ps * count
        self.host_ps += price.host_ps * count
        if step.recomputed:
            tokens = step.shape.tokens
            again = [part * step.recomputed // tokens for part in (compute, memory, communication)]
            compute -= again[0]
            memory -= again[1]
            communication -= again[2]
            self.recompute_ps += sum(again)
        elif price.growth_ps:
            growths = count * (count - 1) >> 1
            compute += price.compute_growth_ps * growths
            memory += price.memory_growth_ps * growths
        self.compute_ps += compute
        self.memory_ps += memory
        self.communication_ps += communication

    def add_partial(self, price: StepPrice, done: int, elapsed_ps: int) -> None:
        """``elapsed_ps`` [ps] of a step that was under way when the run ended, split like the whole step.

        Args:
            price: of the first step of the series.
            done: steps of the series before it.
            elapsed_ps: for how long it has run [ps].
        """
        total = price.total_ps + done * price.growth_ps
        compute = elapsed_ps * (price.compute_ps + done * price.compute_growth_ps) // total
        communication = elapsed_ps * price.communication_ps // total
        host = elapsed_ps * price.host_ps // total
        self.compute_ps += compute
        self.communication_ps += communication
        self.host_ps += host
        self.memory_ps += elapsed_ps - compute - communication - host
