"""Differences between variants, paired by request or by seed, as weighted sums of what the variants came to.

The difference of two variants has the weights +1 and −1; a main effect and an interaction have one weight for each
combination of techniques.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import fsum

import numpy as np

from servetwin.records import LEDGER_BUCKETS
from servetwin.results.exact import Floats
from servetwin.results.ledger import HANDOFF_COSTS
from servetwin.studies.compare.measure import IN_USE, NOT_IN_USE, PAIRED, Measured
from servetwin.studies.statistics import Interval, batch_means, mean_interval

COSTS = (*HANDOFF_COSTS, "bubble")
"""The buckets of the ledger in which a technique pays for handing work on."""

_SAME = ("prompt_tokens", "output_tokens")

_ROUNDING = 1e-13
"""A sum below this share of its parts is zero but for rounding."""

Weights = Mapping[str, float]
"""How much each variant counts, by its name."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a weighted sum of variants comes to.

    Attributes:
        metrics: of every metric; None where it is undefined in one of them.
        ledger: GPU time by bucket [s].
        intervals: of the metrics of which something can be said.
    """

    metrics: dict[str, float | None]
    ledger: dict[str, float]
    intervals: dict[str, Interval]

    @property
    def cost(self) -> dict[str, float]:
        """GPU time spent on handing work on, by kind [s]."""
        return {bucket: self.ledger[bucket] for bucket in COSTS}

    @property
    def saved_gpu_s(self) -> float:
        """GPU time less in all buckets that are neither a cost nor unused [s]."""
        return -sum(self.ledger[bucket] for bucket in LEDGER_BUCKETS if bucket not in (*COSTS, *NOT_IN_USE))

    def net(self, reference_gpu_s: float) -> dict[str, float | None]:
        """What is saved, less what that costs.

        Args:
            reference_gpu_s: GPU time in use without it [s].
        """
        cost = sum(self.cost.values())
        net = self.saved_gpu_s - cost
        return {
            "reference_gpu_seconds": reference_gpu_s,
            "saved_gpu_seconds": self.saved_gpu_s,
            "cost_gpu_seconds": cost,
            "gpu_seconds": net,
            "share": net / reference_gpu_s if reference_gpu_s else None,
        }


class Runs:
    """The runs of a comparison: every variant with every seed.

    Args:
        seeds: for each seed, a run of each variant.
    """

    def __init__(self, seeds: Sequence[Sequence[Measured]]) -> None:
        self._seeds = [{run.name: run for run in runs} for runs in seeds]

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return [next(iter(runs.values())).seed for runs in self._seeds]

    def metrics(self, name: str) -> dict[str, float | None]:
        """Every metric of a variant: as in its summary, or the mean over seeds."""
        if len(self._seeds) == 1:
            return self._seeds[0][name].metrics
        return self.account({name: 1.0}).metrics

    def account(self, weights: Weights) -> Account:
        """A weighted sum of variants, averaged over seeds."""
        # In order of their names, so that the order in which they were given changes no digit.
        weights = {name: weights[name] for name in sorted(weights) if weights[name]}
        some = next(iter(self._seeds[0].values()))
        metrics = {key: self._metric(key, weights) for key in some.metrics}
        ledger = {
            bucket: _mean([_weighted(weights, [runs[name].ledger[bucket] for name in weights]) for runs in self._seeds])
            for bucket in some.ledger
        }
        return Account(metrics, ledger, self._intervals(weights))

    def _metric(self, key: str, weights: Weights) -> float | None:
        values = self._over_seeds(key, weights)
        return None if np.isnan(values).any() else _mean(values.tolist())

    def _over_seeds(self, key: str, weights: Weights) -> Floats:
        """The weighted sum of a metric with each seed; nan where it is undefined."""
        sums = []
        for runs in self._seeds:
            values = [runs[name].metrics[key] for name in weights]
            defined = [value for value in values if value is not None]
            # Without weights it is a variant beside itself, whose difference is zero where it is defined at all.
            every = len(defined) == len(values) and (weights or _defined(runs, key))
            sums.append(_weighted(weights, defined) if every else np.nan)
        return np.array(sums, float)

    def _intervals(self, weights: Weights) -> dict[str, Interval]:
        if len(self._seeds) > 1:
            found = {
                key: mean_interval(self._over_seeds(key, weights))
                for key in next(iter(self._seeds[0].values())).metrics
            }
        else:
            found = {key: batch_means(self._over_requests(key, weights)) for key in PAIRED}
        return {key: interval for key, interval in found.items() if not np.isnan(interval.estimate)}

    def _over_requests(self, key: str, weights: Weights) -> Floats:
        """The weighted sum of each request's latency, in order of arrival; what not all variants have is left out."""
        runs = [self._seeds[0][name] for name in weights] or list(self._seeds[0].values())[:1]
        factors = list(weights.values()) or [0.0]
        ids = reduce(np.intersect1d, [run.columns["id"] for run in runs])
        places = [np.searchsorted(run.columns["id"], ids) for run in runs]
        total, size = np.zeros(len(ids)), np.zeros(len(ids))
        for run, place, factor in zip(runs, places, factors, strict=True):
            part = factor * run.latencies(key)[place]
            total += part
            size += np.abs(part)
            for column in _SAME:
                # In a closed loop the same number may stand for another request.
                total[run.columns[column][place] != runs[0].columns[column][places[0]]] = np.nan
        total[np.abs(total) <= _ROUNDING * size] = 0.0
        arrivals = np.min([run.columns["arrival_ps"][place] for run, place in zip(runs, places, strict=True)], axis=0)
        ordered: Floats = total[np.lexsort((ids, arrivals))]
        return ordered


def _defined(runs: Mapping[str, Measured], key: str) -> bool:
    return all(run.metrics[key] is not None for run in runs.values())


def _weighted(weights: Weights, values: Sequence[float]) -> float:
    """A weighted sum, which is zero where nothing but rounding is left of it."""
    parts = [weight * value for weight, value in zip(weights.values(), values, strict=True)]
    total = fsum(parts)
    return 0.0 if abs(total) <= _ROUNDING * fsum(map(abs, parts)) else total


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def difference(variant: str, baseline: str) -> Weights:
    """The weights of ``variant − baseline``."""
    return {} if variant == baseline else {variant: 1.0, baseline: -1.0}


def used(account: Account) -> float:
    """GPU time in use [s]."""
    return account.metrics[IN_USE] or 0.0
