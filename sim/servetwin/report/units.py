"""Figures as people read them: plain numbers and shares, GiB, TB/s, TFLOP/s, microseconds."""

from __future__ import annotations

_DECIMAL = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))

_BUCKETS = {"wasted_verify": "wasted verification"}


def number(value: float | None, unit: str = "") -> str:
    """A number as people read it: three or four digits, thousands separated, – where undefined."""
    if value is None:
        return "–"
    size = abs(value)
    if value == int(value) and size < 1e15:
        text = f"{int(value):,}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 100:
        text = f"{value:.1f}"
    else:
        text = f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"
    return text + unit


def percent(share: float | None) -> str:
    """A share as percent."""
    return "–" if share is None else f"{share:.1%}"


def bucket_words(bucket: str) -> str:
    """A bucket of the ledger as people call it.

    >>> bucket_words("wasted_verify"), bucket_words("exposed_communication")
    ('wasted verification', 'exposed communication')
    """
    return _BUCKETS.get(bucket, bucket.replace("_", " "))


def scaled(value: float, unit: str) -> str:
    """A figure with the decimal prefix that leaves one to three digits before the point.

    >>> scaled(3.35e12, "B/s")
    '3.35 TB/s'
    """
    factor, prefix = next((step for step in _DECIMAL if abs(value) >= step[0]), _DECIMAL[-1])
    return f"{number(value / factor)} {prefix}{unit}"


def count(weights: float) -> str:
    """A number of weights as models are named after it: B is 1e9.

    >>> count(70_553_706_496)
    '70.55 B'
    """
    return scaled(weights, "").replace("G", "B").strip()


def rate(bytes_per_s: float) -> str:
    """A bandwidth [B/s] in decimal units."""
    return scaled(bytes_per_s, "B/s")


def flops_rate(flops_per_s: float) -> str:
    """An arithmetic rate [FLOP/s], in TFLOP/s from a tenth of one on, for the peaks of GPUs are compared in it.

    >>> flops_rate(2.25e15)
    '2,250 TFLOP/s'
    """
    return f"{number(flops_per_s / 1e12)} TFLOP/s" if flops_per_s >= 1e11 else scaled(flops_per_s, "FLOP/s")


def binary(size_bytes: float) -> str:
    """A size [B] with the binary prefix that leaves one to four digits before the point.

    >>> binary(147_456)
    '144 KiB'
    """
    factor, unit = next((step for step in _BINARY if size_bytes >= step[0]), _BINARY[-1])
    return f"{number(size_bytes / factor)} {unit}"


def gib(size_bytes: float) -> str:
    """A size [B] in GiB, as drivers and operating systems count memory.

    >>> gib(81559 * 2**20)
    '79.65 GiB'
    """
    return f"{number(size_bytes / 2**30)} GiB"


def duration(seconds: float) -> str:
    """A time [s] in the unit that leaves one to three digits before the point.

    >>> duration(5e-6)
    '5 µs'
    """
    factor, unit = next((step for step in _TIMES if abs(seconds) >= step[0] * 0.9995), _TIMES[-1])
    return f"{number(round(seconds / factor, 6))} {unit}"
