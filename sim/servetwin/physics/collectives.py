"""Collectives between the GPUs of a node."""

from __future__ import annotations

import math
from bisect import bisect_left

from servetwin.specs import Calibration, Gpu


def wire_bound(message_bytes: float, gpus: int, link_bytes_per_s: float) -> float:
    """The least time of an all-reduce, even where the switch adds up.

    ``bytes / bandwidth``: each GPU sends its own tensor once, and receives the sum once.

    Args:
        message_bytes: size of the tensor on each GPU [B].
        gpus: number of GPUs.
        link_bytes_per_s: bandwidth of a GPU's links, one direction [B/s].

    Returns:
        time [s].
    """
    return message_bytes / link_bytes_per_s if gpus > 1 else 0.0


def ring_time(message_bytes: float, gpus: int, link_bytes_per_s: float) -> float:
    """The least time of an all-reduce in which the GPUs add up.

    ``2 (n − 1)/n · bytes / bandwidth``. Reduction in the NVLink switch beats it: eight H100 reduce 1 GiB in
    96 % of it.

    Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
        J. Parallel Distrib. Comput. 69(2), 2009.

    Args:
        message_bytes: size of the tensor on each GPU [B].
        gpus: number of GPUs.
        link_bytes_per_s: bandwidth of a GPU's links, one direction [B/s].

    Returns:
        time [s].
    """
    return 2.0 * (gpus - 1) / gpus * message_bytes / link_bytes_per_s


class AllReduce:
    """Latency of an all-reduce over ``gpus`` GPUs of one node.

    Between measured message sizes the latency is a power of the size, above the largest it is linear in the size; it is
    never below ``wire_bound``. Where the profile has no measurement
    for the number of GPUs: ``log2(n) · latency + ring_time / efficiency``.

    Args:
        gpu: its links and its measured latencies.
        gpus: number of GPUs; 1 costs nothing.
        calibration: latency and efficiency for the formula.
    """

    def __init__(self, gpu: Gpu, gpus: int, calibration: Calibration) -> None:
        self._gpus = gpus
        self._link = gpu.link_bytes_per_s
        table = dict(gpu.all_reduce).get(gpus, ())
        self._sizes = [size for size, _ in table]
        self._seconds = [seconds for _, seconds in table]
        self._latency_s = calibration.link_latency_s
        self._efficiency = calibration.link_efficiency

    def seconds(self, message_bytes: float, share: float = 1.0) -> float:
        """Latency [s] of reducing ``message_bytes`` [B] with ``share`` of the links' bandwidth."""
        if self._gpus == 1 or message_bytes <= 0:
            return 0.0
        size = message_bytes / share
        if not self._sizes:
            ring_s = ring_time(size, self._gpus, self._link)
            return math.log2(self._gpus) * self._latency_s + ring_s / self._efficiency
        return max(wire_bound(size, self._gpus, self._link), self._measured(size))

    def _measured(self, size: float) -> float:
        sizes, seconds = self._sizes, self._seconds
        right = bisect_left(sizes, size)
        if right == 0:
            return seconds[0]
        if right == len(sizes):
            slope = (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2])
            return seconds[-1] + slope * (size - sizes[-1])
        part = math.log(size / sizes[right - 1]) / math.log(sizes[right] / sizes[right - 1])
        latency: float = seconds[right - 1] * (seconds[right] / seconds[right - 1]) ** part
        return latency
