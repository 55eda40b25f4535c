"""Whether a run has settled, so that the mean of its latencies means something."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from servetwin.studies.compare.measure import Measured
from servetwin.studies.statistics import warmup

_MOST = 0.45
"""A run whose latencies change for longer than this share has not settled: the rule looks at half of it at most."""

_LEAST = 0.1
"""A warm-up of a smaller share does not move the mean by much."""


def unsettled(run: Measured) -> Iterator[str]:
    """A sentence where the first requests are unlike those that follow."""
    order = np.lexsort((run.columns["id"], run.columns["arrival_ps"]))
    latencies = run.latencies("ttft_ms.mean")[order]
    latencies = latencies[~np.isnan(latencies)]
    cut = warmup(latencies)
    if cut >= _MOST * len(latencies):
        yield f"{run.name} seems not to have settled: its TTFT changes for half of the run or longer; give it more requests"
    elif cut >= _LEAST * len(latencies):
        yield (
            f"the first {cut:,} requests of {run.name} look like a warm-up: --set run.warmup_requests={cut} leaves "
            "them out"
        )
