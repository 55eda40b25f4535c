"""Requests differ: levels of acceptance, and the fresh draws of each that together give what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from servetwin.acceptance.chain import Floats, last_ratio, read_survival

LEVELS = 64
"""Levels that stand for the continuum between requests, equally likely."""

_ROUNDS = 400
_CLOSE = 1e-5
_MOST_ODDS = 1e9


@dataclass(frozen=True)
class Levels:
    """Fresh draws of every level.

    Attributes:
        fresh: survival of fresh draws, a row for each level.
        ratio: the probability that a further token stands, behind the last entry.
        persistence: how likely the same continuation goes on.
    """

    fresh: Floats
    ratio: Floats
    persistence: float

    def survival(self, drafts: int) -> Floats:
        """The share of drafts whose first 1, 2, … tokens stand, over all steps of requests of equal lengths.

        Args:
            drafts: tokens that are drafted in every step, K.
        """
        read = read_survival(self.fresh, self.persistence, drafts)[:, :drafts]
        steps = 1 / (1 + read.sum(axis=1))
        pooled: Floats = steps @ read / steps.sum()
        return pooled

    def spread(self, drafts: int) -> float:
        """The coefficient of variation between levels of the accepted tokens per draft."""
        accepted = read_survival(self.fresh, self.persistence, drafts)[:, :drafts].sum(axis=1)
        return float(accepted.std() / accepted.mean()) if accepted.mean() > 0 else 0.0


@lru_cache(maxsize=64)
def solve_levels(survival: tuple[float, ...], persistence: float, spread: float) -> Levels:
    """Levels whose readings, with as many drafts as there are entries, have this survival and this spread.

    The levels differ in the odds that a token stands, given those before it: odds of level z are e^(σ z) times a common
    base, z standard normal. Base and σ are found by iteration.

    Args:
        survival: the share of drafts whose first 1, 2, … tokens stand, over all steps.
        persistence: how likely the same continuation goes on.
        spread: coefficient of variation between requests of the mean accepted tokens per draft.

    Raises:
        ValueError: no fresh draws give such readings.
    """
    wanted = np.asarray(survival, np.float64)
    drafts = len(wanted)
    wanted_odds = _odds(_conditional(wanted[None])[0])
    base = wanted_odds.copy()
    count = LEVELS if spread > 0 else 1
    normal = NormalDist()
    scores = np.array([normal.inv_cdf((level + 0.5) / count) for level in range(count)])
    width = spread if spread > 0 else 0.0
    levels = _levels(base, scores * width, persistence)
    for _ in range(_ROUNDS):
        found = levels.survival(drafts)
        difference = float(np.abs(found - wanted).max())
        have = levels.spread(drafts) if spread > 0 else 0.0
        if difference < _CLOSE and abs(have - spread) <= 1e-3 * spread:
            return levels
        base = np.clip(base * wanted_odds / np.maximum(_odds(_conditional(found[None])[0]), 1e-12), 0.0, _MOST_ODDS)
        base[wanted_odds == 0] = 0.0
        if spread > 0:
            width = min(width * float(np.clip(spread / max(have, 1e-9), 0.5, 2.0)), 50.0)
        levels = _levels(base, scores * width, persistence)
    if abs(have - spread) > 0.01 * spread:
        raise ValueError(
            f"no requests that differ by {spread:g} have this survival together: use a smaller spread, or a smaller "
            f"persistence"
        )
    raise ValueError(
        f"no matches have this survival and persistence {persistence:g}: too few drafts end at the first tokens for "
        f"how often the same continuation goes on; use a lower persistence"
    )


def _levels(base: Floats, tilt: Floats, persistence: float) -> Levels:
    odds = base[None, :] * np.exp(np.clip(tilt, -50, 50))[:, None]
    fresh: Floats = np.cumprod(odds / (1 + odds), axis=1, dtype=np.float64)
    return Levels(fresh, last_ratio(fresh), persistence)


def _conditional(survival: Floats) -> Floats:
    """Of the drafts whose tokens before it stand, the share whose next one does too."""
    before = np.concatenate((np.ones((len(survival), 1)), survival[:, :-1]), axis=1)
    return np.divide(survival, before, out=np.zeros_like(survival), where=before > 0)


def _odds(shares: Floats) -> Floats:
    return np.asarray(np.minimum(shares / np.maximum(1 - shares, 1 / _MOST_ODDS), _MOST_ODDS), np.float64)
