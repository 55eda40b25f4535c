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

    def add_step(self, step: PlannedStep) -> None:
        """A step that stands alone."""
        price = step.price
        self.host_ps += price.host_ps
        if step.recomputed:
            self._add_recomputing(step)
            return
        self.compute_ps += price.compute_ps
        self.memory_ps += price.memory_ps
        self.communication_ps += price.communication_ps

    def add_series(self, price: StepPrice, count: int) -> None:
        """``count`` steps of a series whose first has ``price``; nothing is computed again in a series."""
        growths = count * (count - 1) >> 1
        self.host_ps += price.host_ps * count
        self.compute_ps += price.compute_ps * count + price.compute_growth_ps * growths
        self.memory_ps += price.memory_ps * count + price.memory_growth_ps * growths
        self.communication_ps += price.communication_ps * count

    def _add_recomputing(self, step: PlannedStep) -> None:
        price = step.price
        tokens = step.shape.tokens
        parts = (price.compute_ps, price.memory_ps, price.communication_ps)
        again = [part * step.recomputed // tokens for part in parts]
        self.compute_ps += parts[0] - again[0]
        self.memory_ps += parts[1] - again[1]
        self.communication_ps += parts[2] - again[2]
        self.recompute_ps += sum(again)

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
