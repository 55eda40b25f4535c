"""All-gather: every GPU ends with the parts of all of them; and reduce-scatter, the same backwards."""

from __future__ import annotations

import math

from servetwin.physics.collectives.bounds import gather_bound, gathered_bound
from servetwin.physics.collectives.measured import FORMULA, MEASURED, Latencies
from servetwin.physics.collectives.traffic import RING, SHORT_RING
from servetwin.physics.collectives.wires import LOW_LATENCY, Wires, one_domain
from servetwin.specs import Calibration, Gpu
from servetwin.specs.span import Span


class GatherInside:
    """Latency of an all-gather, or of a reduce-scatter, between GPUs of one domain.

    A power of the size between the measured sizes of the profile, never below ``gather_bound``; where the profile has
    none for the number of GPUs ``log2(n) · latency + gather_bound / efficiency``. A reduce-scatter moves the same
    bytes the other way, and NCCL takes as long for it within 12 % in the median (docs, Kernels).

    Args:
        gpu: its links and its measured latencies.
        gpus: number of GPUs.
        calibration: latency and efficiency for the formula.
        link_bytes_per_s: bandwidth of a GPU's links here, one direction [B/s].
    """

    def __init__(self, gpu: Gpu, gpus: int, calibration: Calibration, link_bytes_per_s: float) -> None:
        self._gpus = gpus
        self._link = link_bytes_per_s
        self._table = Latencies(dict(gpu.all_gather).get(gpus, ()))
        self._stretch = gpu.link_bytes_per_s / link_bytes_per_s
        self._latency_s = calibration.link_latency_s
        self._efficiency = calibration.link_efficiency
        self.algorithm = MEASURED if self._table else FORMULA

    def seconds(self, size: float) -> float:
        """Latency [s] of gathering ``size`` [B], all parts together."""
        bound_s = gather_bound(size, self._gpus, self._link)
        if not self._table:
            return math.log2(self._gpus) * self._latency_s + bound_s / self._efficiency
        return max(bound_s, self._table.at(size * self._stretch))


class AllGather:
    """Latency of an all-gather over the GPUs of a span.

    **Inside a domain** see ``GatherInside``. **Across d domains** of g GPUs each, with the symbols of ``AllReduce``,
    the cheaper of the ring's two protocols::

        ring     (n − 1) · a + (n − 1)/n · bytes / (g · B)
        ring-ll  (d − 1) · a + log2(g) · i + 2 (n − 1)/n · bytes / (g · B)

    In the second, for small messages, a part does not wait at each GPU but runs through, and twice the bytes go over
    the wire. Nobody published measurements of it across nodes; its constants are those of the all-reduce.

    Args:
        gpu: its links and its measured latencies.
        gpus: number of GPUs; 1 costs nothing.
        calibration: latencies and efficiencies.
        span: how they lie; one domain of the profile's bandwidth if not given.
    """

    def __init__(self, gpu: Gpu, gpus: int, calibration: Calibration, span: Span | None = None) -> None:
        self._gpus = gpus
        self._span = span or one_domain(gpu, gpus)
        self._inside = GatherInside(gpu, gpus, calibration, self._span.inside_bytes_per_s)
        self._wires = Wires.of(self._span, calibration) if self._span.domains > 1 else None

    def seconds(self, message_bytes: float, share: float = 1.0) -> float:
        """Latency [s] until every GPU has all ``message_bytes`` [B], with ``share`` of the links' bandwidth."""
        if self._gpus == 1 or message_bytes <= 0:
            return 0.0
        size = message_bytes / share
        if self._wires is None:
            return self._inside.seconds(size)
        took_s = self._ways(self._wires, size)[self.route(message_bytes)]
        return max(took_s, self._inside.seconds(size), gathered_bound(size, self._span))

    def algorithm(self, message_bytes: float) -> str:
        """How ``message_bytes`` [B] are gathered."""
        return self._inside.algorithm if self._wires is None else self.route(message_bytes)

    def route(self, message_bytes: float) -> str:
        """Which links ``message_bytes`` [B] load how much, one of the routes of ``collectives.traffic``."""
        if self._wires is None:
            return RING
        ways = self._ways(self._wires, message_bytes)
        return min(ways, key=lambda route: (ways[route], route))

    def bound(self, message_bytes: float) -> float:
        """The least time [s] that the wires allow for ``message_bytes`` [B]."""
        return gathered_bound(message_bytes, self._span) if self._gpus > 1 else 0.0

    def _ways(self, wires: Wires, size: float) -> dict[str, float]:
        """What either protocol over several domains takes [s], by route."""
        n, d, g = wires.gpus, wires.domains, wires.abreast
        moved_s = (n - 1) / n * size / (g * wires.bytes_per_s)
        through_s = (d - 1) * wires.step_s + math.log2(n / d) * wires.inside_s
        return {RING: (n - 1) * wires.step_s + moved_s, SHORT_RING: through_s + LOW_LATENCY * moved_s}
