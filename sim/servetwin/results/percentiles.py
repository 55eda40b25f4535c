"""Mean, percentiles and maximum of latencies, under stable keys."""

from __future__ import annotations

import numpy as np

from servetwin.results.exact import Floats, exact_float_sum
from servetwin.units import PS_PER_MS

PERCENTS = (50.0, 90.0, 95.0, 99.0)
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")


def statistics(name: str, values_ms: Floats, total_ps: int | None = None) -> dict[str, float | None]:
    """Mean, percentiles (numpy's linear interpolation) and maximum of some latencies, under ``name``.

    Args:
        name: the metric.
        values_ms: the latencies [ms].
        total_ps: their exact sum [ps], if it is a whole number.
    """
    keys = [f"{name}.{statistic}" for statistic in STATISTICS]
    if not len(values_ms):
        return dict.fromkeys(keys)
    number = len(values_ms)
    mean = exact_float_sum(values_ms) / number if total_ps is None else total_ps / (number * PS_PER_MS)
    middle = np.percentile(values_ms, PERCENTS).tolist()
    return dict(zip(keys, [mean, *middle, float(values_ms.max())], strict=True))
