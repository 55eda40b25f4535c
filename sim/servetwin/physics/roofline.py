"""The roofline: an operator takes at least as long as its bytes and as its arithmetic do."""

from __future__ import annotations

import math
from typing import NamedTuple

from servetwin.units import PS_PER_S


class Cost(NamedTuple):
    """What an operator takes: ``seconds`` [s], and whether arithmetic is the larger of its two bounds."""

    seconds: float
    compute_bound: bool


def rounded_max(memory_s: float, compute_s: float, power: float) -> float:
    """The larger of two times, rounded where they are close.

    ``(memory^p + compute^p)^(1/p)``. Bytes and arithmetic overlap in a kernel, but not perfectly where both are needed
    in equal measure: measured matrix products of 128 to 1,024 rows lie 8 to 14 % above the plain maximum, and within
    2 % of p = 3.

    Source: S. Williams, A. Waterman, D. Patterson, "Roofline", Communications of the ACM 52(4), 2009 (the plain
        maximum).

    Args:
        memory_s: time that moving the bytes takes [s].
        compute_s: time that the arithmetic takes [s].
        power: p, dimensionless; infinity is the plain maximum.

    Returns:
        time of the operator [s], never below either argument.
    """
    larger, smaller = (memory_s, compute_s) if memory_s >= compute_s else (compute_s, memory_s)
    if smaller <= 0.0:
        return larger
    factor: float = (1.0 + (smaller / larger) ** power) ** (1.0 / power)
    return larger * factor


def roofline(
    bytes_moved: float,
    flops: float,
    *,
    bandwidth: float,
    arithmetic: float,
    power: float,
    launch_s: float = 0.0,
) -> Cost:
    """Time of one operator.

    Args:
        bytes_moved: bytes between HBM and the chip [B].
        flops: arithmetic [FLOP].
        bandwidth: bandwidth that the operator reaches [B/s].
        arithmetic: arithmetic rate that the operator reaches [FLOP/s].
        power: see ``rounded_max``.
        launch_s: constant of the operator [s].

    Returns:
        time [s] and the bound that is larger.
    """
    memory_s, compute_s = bytes_moved / bandwidth, flops / arithmetic
    return Cost(rounded_max(memory_s, compute_s, power) + launch_s, compute_s > memory_s)


def picoseconds(seconds: float) -> int:
    """``seconds`` [s] in whole picoseconds [ps], rounded up: rounding must not undercut a bound."""
    return math.ceil(seconds * PS_PER_S)
