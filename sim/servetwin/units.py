"""The integer picosecond clock, and quantities with units ("80 GiB", "3.35 TB/s", "250 ms").

Simulated time is a whole number of picoseconds everywhere: sums of integers do not depend on their order,
so skipping ahead over equal steps gives the same bits as stepping one by one, and ties are real ties.
"""

from __future__ import annotations

import math
import re

PS_PER_S = 1_000_000_000_000
PS_PER_MS = 1_000_000_000
PS_PER_US = 1_000_000

MAX_DAYS = 90
"""The longest simulated time. Times are 64-bit integers in the results, which end after 106 days."""

MAX_S = MAX_DAYS * 86_400.0
MAX_PS = MAX_DAYS * 86_400 * PS_PER_S

_SCALES: dict[str, dict[str, float]] = {
    "bytes": {
        "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
        "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
    },
    "bytes/s": {
        "B/s": 1, "kB/s": 1e3, "KB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12,
        "KiB/s": 2**10, "MiB/s": 2**20, "GiB/s": 2**30, "TiB/s": 2**40,
        "Mb/s": 1e6 / 8, "Gb/s": 1e9 / 8, "Tb/s": 1e12 / 8,
    },
    "flops": {
        "FLOPS": 1, "GFLOPS": 1e9, "TFLOPS": 1e12, "PFLOPS": 1e15,
        "FLOP/s": 1, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15,
    },
    "seconds": {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600},
    "watts": {"W": 1, "kW": 1e3, "MW": 1e6},
}  # fmt: skip

_QUANTITY = re.compile(r"^\s*([0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ/]+)\s*$")


def seconds_to_ps(seconds: float) -> int:
    """The nearest whole picosecond. ``seconds`` [s] must be finite."""
    return round(seconds * PS_PER_S)


def ms_to_ps(milliseconds: float) -> int:
    """The nearest whole picosecond. ``milliseconds`` [ms] must be finite."""
    return round(milliseconds * PS_PER_MS)


def units_of(dimension: str) -> tuple[str, ...]:
    """The units that a figure of ``dimension`` may have; see ``parse_quantity``."""
    return tuple(_SCALES[dimension])


def parse_quantity(text: object, dimension: str) -> float:
    """Read a figure with its unit, such as ``"3.35 TB/s"``, into the base unit of ``dimension``.

    Args:
        text: the figure; a bare number is refused, for its unit would be a guess.
        dimension: ``bytes`` [B], ``bytes/s`` [B/s], ``flops`` [FLOP/s], ``seconds`` [s] or ``watts`` [W].

    Raises:
        ValueError: with a sentence that says what is allowed.
    """
    scales = _SCALES[dimension]
    match = _QUANTITY.match(text) if isinstance(text, str) else None
    if match is None or match.group(2) not in scales:
        raise ValueError(
            f"expected a number with one of the units {', '.join(scales)}, such as '80 {list(scales)[-1]}'"
        )
    value = float(match.group(1).replace("_", "").replace(",", "")) * scales[match.group(2)]
    if not math.isfinite(value):
        raise ValueError("the number is too large")
    return value
