"""Whether runs have settled, so that the mean of their latencies means something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from servetwin.studies.compare.measure import Measured
from servetwin.studies.statistics import batch_means, warmup

_MOST = 0.45
"""A run whose latencies change for longer than this share has not settled: the rule looks at half of it at most."""


def unsettled(runs: Sequence[Measured]) -> Iterator[str]:
    """What to say of runs whose first requests are unlike those that follow.

    The rule finds a warm-up in noise as well; it is worth a word only where it moves the mean by more than the mean is
    uncertain without it.
    """
    restless, cuts = [], {}
    for run in runs:
        order = np.lexsort((run.columns["id"], run.columns["arrival_ps"]))
        latencies = run.latencies("ttft_ms.mean")[order]
        latencies = latencies[~np.isnan(latencies)]
        cut = warmup(latencies)
        rest = batch_means(latencies[cut:])
        if not cut or rest.low <= latencies.mean() <= rest.high:
            continue
        if cut >= _MOST * len(latencies):
            restless.append(run.name)
        else:
            cuts[run.name] = cut
    if restless:
        yield (
            f"TTFT changes for half of the run or longer in {', '.join(restless)}: it seems not to have settled, "
            "more requests would tell"
        )
    if cuts:
        longest = max(cuts.values())
        yield (
            f"the first {longest:,} requests look like a warm-up in {', '.join(cuts)}: "
            f"--set run.warmup_requests={longest} leaves them out"
        )
