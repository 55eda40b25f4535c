"""All-reduce: every GPU ends with the sum of what all of them had."""

from __future__ import annotations

import math

from servetwin.physics.collectives.bounds import reduce_bound, ring_time, wire_bound
from servetwin.physics.collectives.gather import GatherInside
from servetwin.physics.collectives.measured import FORMULA, MEASURED, Latencies
from servetwin.physics.collectives.traffic import RING, SHARDED_RING, SHARDED_TREE, SWITCH, TREE
from servetwin.physics.collectives.wires import LOW_LATENCY, Wires, one_domain
from servetwin.specs import Calibration, Gpu
from servetwin.specs.span import Span

HIERARCHICAL = "hierarchical"


class AllReduce:
    """Latency of an all-reduce over the GPUs of a span.

    **Inside a domain** the latency is a power of the size between the measured sizes of the profile, above the largest
    it is linear in the size; it is never below ``wire_bound``. Where the profile has no measurement for the number of
    GPUs: ``log2(n) · latency + ring_time / efficiency``.

    **Across d domains** of g GPUs each, whose g NICs of effective bandwidth B work side by side, the cheapest of what
    NCCL has, by size; a is the latency of a step to another domain, i that of a doubling inside::

        ring          2 (n − 1) · a + 2 (n − 1)/n · bytes / (g · B)
        tree          2 log2(d) · a + log2(g) · i + 4 · bytes / (g · B)
        hierarchical  reduce-scatter and all-gather inside + the cheaper of ring and tree of bytes / g over d NICs

    Every step of the ring waits for its slowest edge. Down and up the tree go two times the bytes, each with a flag
    (``LOW_LATENCY``). The hierarchical one takes a switch that adds up (``Gpu.switch_reduces``; NCCL's NVLSTree);
    without one NCCL does not have it. Nothing is cheaper than the same all-reduce in one domain. The size alone
    decides, for NCCL does not know who else uses the links.

    Source: Patarasuk and Yuan 2009 for the ring; the model of ``ncclTopoTuneModel`` in NCCL's ``src/graph/tuning.cc``
        for tree and ring; constants from the measurements of Vidur's cluster (docs, Parallelism).

    Args:
        gpu: its links and its measured latencies.
        gpus: number of GPUs; 1 costs nothing.
        calibration: latencies and efficiencies.
        span: how they lie; one domain of the profile's bandwidth if not given.
    """

    def __init__(self, gpu: Gpu, gpus: int, calibration: Calibration, span: Span | None = None) -> None:
        self._gpus = gpus
        self._span = span or one_domain(gpu, gpus)
        self._link = self._span.inside_bytes_per_s
        self._table = Latencies(dict(gpu.all_reduce).get(gpus, ()))
        # Measured on the links of the profile; slower ones are as if the message were larger.
        self._stretch = gpu.link_bytes_per_s / self._link
        self._latency_s = calibration.link_latency_s
        self._efficiency = calibration.link_efficiency
        self._wires = Wires.of(self._span, calibration) if self._span.domains > 1 else None
        together = min(self._span.per_domain)
        self._inside = (
            GatherInside(gpu, together, calibration, self._link) if gpu.switch_reduces and together > 1 else None
        )

    def seconds(self, message_bytes: float, share: float = 1.0) -> float:
        """Latency [s] of reducing ``message_bytes`` [B] with ``share`` of the links' bandwidth."""
        if self._gpus == 1 or message_bytes <= 0:
            return 0.0
        size = message_bytes / share
        if self._wires is None:
            return self._in_one_domain(size)
        took_s = self._ways(self._wires, size)[self.route(message_bytes)]
        return max(took_s, self._in_one_domain(size), reduce_bound(size, self._span))

    def algorithm(self, message_bytes: float) -> str:
        """How ``message_bytes`` [B] are reduced: ``measured`` or ``formula`` inside a domain, else NCCL's algorithm."""
        if self._wires is None:
            return MEASURED if self._table else FORMULA
        route = self.route(message_bytes)
        return HIERARCHICAL if route in (SHARDED_RING, SHARDED_TREE) else route

    def route(self, message_bytes: float) -> str:
        """Which links ``message_bytes`` [B] load how much, one of the routes of ``collectives.traffic``.

        Inside a domain GPUs add up, except where the latency is shorter than that can take.
        """
        if self._wires is not None:
            ways = self._ways(self._wires, message_bytes)
            return min(ways, key=lambda route: (ways[route], route))
        added_s = ring_time(message_bytes, self._gpus, self._link)
        return RING if self.seconds(message_bytes) >= added_s else SWITCH

    def bound(self, message_bytes: float) -> float:
        """The least time [s] that the wires allow for ``message_bytes`` [B]."""
        return reduce_bound(message_bytes, self._span) if self._gpus > 1 else 0.0

    def _in_one_domain(self, size: float) -> float:
        if not self._table:
            ring_s = ring_time(size, self._gpus, self._link)
            return math.log2(self._gpus) * self._latency_s + ring_s / self._efficiency
        return max(wire_bound(size, self._gpus, self._link), self._table.at(size * self._stretch))

    def _ways(self, wires: Wires, size: float) -> dict[str, float]:
        """What each algorithm over several domains takes [s], by route."""
        n, d, g = wires.gpus, wires.domains, wires.abreast
        piece_s = size / (g * wires.bytes_per_s)
        down_and_up_s = 2.0 * math.log2(d) * wires.step_s
        found = {
            RING: 2.0 * (n - 1) * (wires.step_s + piece_s / n),
            TREE: down_and_up_s + math.log2(n / d) * wires.inside_s + 2.0 * LOW_LATENCY * piece_s,
        }
        if self._inside is not None:
            inside_s = 2.0 * self._inside.seconds(size)
            found[SHARDED_RING] = inside_s + 2.0 * (d - 1) * (wires.step_s + piece_s / d)
            found[SHARDED_TREE] = inside_s + down_and_up_s + 2.0 * LOW_LATENCY * piece_s
        return found
