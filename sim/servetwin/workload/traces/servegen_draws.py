"""Arrivals and lengths that reproduce what was recorded of a ServeGen client.

Draws are spread evenly over their distributions instead of independent: what was recorded is a sample, and a sample's
own rate, CV and means are to come back, not those of another sample from the same distribution. Between two seeds the
order differs, and single values do a little; totals hardly do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from servetwin.units import PS_PER_S
from servetwin.workload.traces.servegen_files import Client, Lengths, Window

Floats = np.ndarray[Any, np.dtype[np.float64]]
Longs = np.ndarray[Any, np.dtype[np.int64]]

BLOCK = 1 << 20
"""Lengths drawn at once, at most."""

_LARGEST_EXPONENT = 1e6
"""Of the power that stretches gaps: by then, one gap holds all the time."""


def arrivals(window: Window, generator: np.random.Generator) -> list[int]:
    """When a window's requests arrive, ascending, from its start [ps].

    All gaps between its n arrivals have the mean width/n together, and the recorded CV as far as n − 1 gaps can have
    it: at most √(n − 2). The time that they leave lies partly before the first arrival and partly after the last one.

    Args:
        window: the window, which has at least one request.
        generator: random numbers.
    """
    count, width_s = window.requests, window.width_s
    gaps = gap_shape(window.family, window.cv, count - 1, generator)
    mean_s = width_s / count
    lead_s = mean_s * generator.random()
    offsets = np.empty(count)
    offsets[0] = lead_s
    np.cumsum(gaps * mean_s, out=offsets[1:])
    offsets[1:] += lead_s
    return [min(round(offset), round(width_s * PS_PER_S) - 1) for offset in (offsets * PS_PER_S).tolist()]


def gap_shape(family: str, cv: float, count: int, generator: np.random.Generator) -> Floats:
    """``count`` gaps of mean 1 and of the given CV, in random order.

    They are quantiles of the family at evenly spread places, raised to the power that gives them the CV exactly: a
    power of a Weibull variable is Weibull again; of a Gamma variable of the right shape the power is close to 1.

    Args:
        family: ``Weibull``; anything else is Gamma, whose shape is 1/CV².
        cv: standard deviation over mean; 0 = as the exponential distribution.
        count: how many, 0 or more.
        generator: random numbers.
    """
    if count <= 1:
        return np.ones(count)
    cv = cv or 1.0
    places = 1.0 - (generator.permutation(count) + generator.random(count)) / count  # in (0, 1]
    places = np.clip(places, 1e-300, 1 - 1e-16)
    if family == "Weibull":
        logs = np.log(-np.log(places))
    else:
        # Below a thousandth the square of a CV may vanish, and nobody could tell.
        shape = max(1.0 / max(cv, 1e-3) ** 2, 1e-6)
        # Gamma(a) is Gamma(a + 1) · U^(1/a), and its logarithm does not vanish where the value itself would.
        body = np.log(np.maximum(generator.gamma(shape + 1.0, size=count), 1e-300))
        logs = body + np.log(places) / shape
    return _stretched(logs - logs.max(), cv)


def _stretched(logs: Floats, cv: float) -> Floats:
    """exp(p · logs) of mean 1, with the power p for which the CV comes closest; it grows with p."""
    low, high = 0.0, 1.0
    while _cv(logs, high) < cv and high < _LARGEST_EXPONENT:
        low, high = high, high * 4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _cv(logs, middle) < cv else (low, middle)
    values = np.exp(high * logs)
    return np.asarray(values / values.mean(), np.float64)


def _cv(logs: Floats, power: float) -> float:
    values = np.exp(power * logs)
    return float(values.std() / values.mean())


class LengthDraws:
    """Prompt and output lengths of a client, one request after the other.

    For the requests that share a distribution, its quantiles at equal distances (systematic sampling), in random order:
    where as many are drawn as were recorded, the recorded lengths themselves come back.

    Args:
        client: the client.
        generator: random numbers.
    """

    def __init__(self, client: Client, generator: np.random.Generator) -> None:
        self._client = client
        self._generator = generator
        self._left: dict[int, int] = {}
        for window in client.windows:
            if client.data and window.error is None:
                index = client.data_at(window.start_s)
                self._left[index] = self._left.get(index, 0) + window.requests
        self._pool: tuple[int, Longs, Longs] = (-1, np.empty(0, np.int64), np.empty(0, np.int64))

    def draw(self, time_s: float, count: int) -> tuple[list[int], list[int]]:
        """The prompt and output lengths [tokens] of ``count`` requests of a window that starts at ``time_s``."""
        index = self._client.data_at(time_s)
        drawn: tuple[list[int], list[int]] = ([], [])
        while count:
            at, *pool = self._pool
            if at != index or not len(pool[0]):
                size = min(self._left[index], BLOCK)
                self._left[index] -= size
                pool = [self._sample(lengths, size) for lengths in self._client.data[index]]
            for values, lengths in zip(drawn, pool, strict=True):
                values.extend(lengths[:count].tolist())
            taken = min(count, len(pool[0]))
            self._pool = (index, pool[0][taken:], pool[1][taken:])
            count -= taken
        return drawn

    def _sample(self, lengths: Lengths, count: int) -> Longs:
        places = (np.arange(count) + self._generator.random()) / count
        index = np.searchsorted(lengths.cumulative, places, side="right")
        return self._generator.permutation(lengths.values[np.minimum(index, len(lengths.values) - 1)])
