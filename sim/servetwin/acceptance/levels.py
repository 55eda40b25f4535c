"""Requests differ: levels of acceptance, and the fresh draws of each that together give what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from servetwin.acceptance.base import CLOSE, BaseSearch, Found
from servetwin.acceptance.chain import Floats, last_ratio, pooled, read_survival

LEVELS = 64
"""Levels that stand for the continuum between requests, equally likely."""

CLOSE_SPREAD = 1e-3
"""How far the spread may be from what was asked for, as a share of it."""

_CLOSER_SPREAD = 1e-5
_LEAST_SPREAD = 1e-8
"""Requests that differ by less are alike."""

_WIDEST = 50.0
_NARROWEST = 1e-10
_HALVINGS = 60

_LOOKS = 4000
_LOOKS_AT_ENTRIES = 24_000
"""How often readings may be worked out, and how often times the number of entries: long ones take longer each."""


class NoLevelsError(ValueError):
    """No levels have what was asked for.

    Args:
        message: why not.
        field: the name of what asks for too much.
        allowed: what would be accepted.
    """

    def __init__(self, message: str, field: str, allowed: str) -> None:
        super().__init__(f"{message}; use {allowed}")
        self.message = message
        self.field = field
        self.allowed = allowed


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
        return self._pooled(drafts)[0]

    def spread(self, drafts: int) -> float:
        """The coefficient of variation between levels of the accepted tokens per draft."""
        return self._pooled(drafts)[1]

    def _pooled(self, drafts: int) -> tuple[Floats, float]:
        return pooled(read_survival(self.fresh, self.persistence, drafts)[:, :drafts])


@lru_cache(maxsize=64)
def solve_levels(survival: tuple[float, ...], persistence: float, spread: float) -> Levels:
    """Levels whose readings, with as many drafts as there are entries, have this survival and this spread.

    The levels differ in the odds that a token stands, given those before it: odds of level z are e^(σ z) times a common
    base, z standard normal. For each σ that is tried, ``BaseSearch`` finds the base that gives the survival.

    Args:
        survival: the share of drafts whose first 1, 2, … tokens stand, over all steps.
        persistence: how likely the same continuation goes on.
        spread: coefficient of variation between requests of the mean accepted tokens per draft.

    Raises:
        NoLevelsError: no fresh draws give such readings.
    """
    wanted = np.asarray(survival, np.float64)
    looks = min(_LOOKS, _LOOKS_AT_ENTRIES // len(wanted))
    alike = BaseSearch(wanted, persistence, 1, looks)
    if spread < _LEAST_SPREAD:
        found = alike.at(0.0)
        if found.off < CLOSE:
            return Levels(found.fresh, last_ratio(found.fresh), persistence)
        raise _persists(persistence)
    search, helps = BaseSearch(wanted, persistence, LEVELS, looks), "a smaller spread"
    if search.levels_differ and spread <= most_spread(survival) * (1 + CLOSE_SPREAD):
        found = _at_spread(search, spread)
        if found.off < CLOSE and abs(found.spread - spread) <= CLOSE_SPREAD * spread:
            return Levels(found.fresh, last_ratio(found.fresh), persistence)
        if alike.at(0.0).off >= CLOSE:
            raise _persists(persistence)
        if persistence > 0 and len(wanted) > 1:
            helps += ", or a smaller persistence"
    raise NoLevelsError(f"no requests that differ by {spread:g} have this survival together", "spread", helps)


def most_spread(survival: tuple[float, ...]) -> float:
    """No requests that differ by more have this survival together, whatever their draws.

    Steps of a request that accepts a tokens per draft are as many as 1 / (1 + a) of its tokens, which fixes the mean
    of that; given it and the mean of a, the mean of a² is greatest where requests accept either all drafts, or c < K.
    """
    drafts, mean = len(survival), sum(survival)
    if not 0 < mean < drafts:
        return 0.0
    low = np.linspace(0, mean, 2001)[:-1]
    share = (1 / (1 + low) - 1 / (1 + mean)) / (1 / (1 + low) - 1 / (1 + drafts))
    accepted = low + share * (drafts - low)
    return float((np.sqrt(share * (1 - share)) * (drafts - low) / accepted).max())


def _at_spread(search: BaseSearch, spread: float) -> Found:
    """What is found at the width that has this spread, which grows with it: closed in upon from both sides."""
    width = spread
    found = search.at(width)
    sides: dict[bool, tuple[float, Found]] = {}
    while len(sides) < 2 and not search.given_up:
        above = found.spread >= spread
        sides[above] = (width, found)
        if width in (_NARROWEST, _WIDEST):
            break
        if len(sides) < 2:
            ratio = spread / max(found.spread, 1e-300)
            factor = max(1.1 * ratio, 1.5) if not above else min(ratio / 1.1, 1 / 1.5)
            width = min(max(width * min(max(factor, 0.25), 4.0), _NARROWEST), _WIDEST)
            found = search.at(width, sides[above])
    if len(sides) < 2:
        return found
    weights = {False: 1.0, True: 1.0}
    for _ in range(_HALVINGS):
        if search.given_up or abs(found.spread - spread) <= _CLOSER_SPREAD * spread:
            break
        # Regula falsi, with half the weight to a side that stays (Illinois).
        ends = {
            side: weights[side] * (np.log(max(one.spread, 1e-300)) - np.log(spread)) for side, (_, one) in sides.items()
        }
        share = float(np.clip(ends[False] / (ends[False] - ends[True]), 0.02, 0.98))
        width = float(np.exp((1 - share) * np.log(sides[False][0]) + share * np.log(sides[True][0])))
        found = search.at(width, sides[share > 0.5])
        above = found.spread >= spread
        sides[above] = (width, found)
        weights = {above: 1.0, not above: weights[not above] / 2}
    return found


def _persists(persistence: float) -> NoLevelsError:
    return NoLevelsError(
        f"no matches have this survival and persistence {persistence:g}: too few drafts end at the first tokens for "
        f"how often the same continuation goes on", "persistence", "a lower persistence",
    )  # fmt: skip
