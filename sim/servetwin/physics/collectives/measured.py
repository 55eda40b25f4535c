"""Latencies between measured message sizes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

MEASURED, FORMULA = "measured", "formula"
"""Where the latency inside a domain comes from."""


class Latencies:
    """Latency by message size: a power of the size between two measured ones, beyond the largest linear.

    Args:
        table: ascending sizes [B] and latencies [s]; empty = nothing was measured.
    """

    def __init__(self, table: Sequence[tuple[int, float]]) -> None:
        self._sizes = [size for size, _ in table]
        self._seconds = [seconds for _, seconds in table]

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def at(self, size: float) -> float:
        """Latency [s] of a message of ``size`` [B]."""
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
