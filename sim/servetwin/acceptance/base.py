"""The odds that a token stands, found from what readings have to show: one base for all levels, at a given width."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from servetwin.acceptance.chain import Floats, pooled, read_survival

CLOSE = 1e-5
"""How far survival may be from what was asked for."""

_WITHIN = 1e-7
"""How far it is where a search ends: the width is found from the spread, which follows it."""

_MOST_LOG_ODDS = float(np.log(1e9))
"""Odds beyond stand for certainty."""

_LEAST_LOG_ODDS = -60.0
_ROUNDS = 40
_HALVINGS = 5
_DAMPED_ROUNDS = 60
_NUDGE = 1e-5

_FEW = 12
"""With no more entries it is fast to measure every slope, and to try again from elsewhere."""

_FLATTENED = float(np.pi / 8)
"""A logistic curve, averaged over a normal variable, is nearly one that is flatter by √(1 + this × its variance)."""


@dataclass(frozen=True)
class Found:
    """What a base comes to.

    Attributes:
        log_odds: the base, of the entries where levels differ.
        fresh: survival of fresh draws, a row for each level.
        off: by how much survival misses what was asked for, at most.
        spread: coefficient of variation between levels of the accepted tokens per draft.
        miss: what the log odds lack in what is read, of the entries where levels differ.
    """

    log_odds: Floats
    fresh: Floats
    off: float
    spread: float
    miss: Floats


class BaseSearch:
    """Looks for levels whose readings have a survival, with as many drafts as it has entries.

    The odds of level z are e^(width × z) times the base, z standard normal. An entry of the base is moved until what is
    read has the odds asked for, by Newton's method. Its slopes are those of fresh draws at first, corrected by what
    each step shows (Broyden), and measured where that does not help.

    Args:
        survival: the share of drafts whose first 1, 2, … tokens stand, over all steps.
        persistence: how likely the same continuation goes on.
        levels: their number.
        looks: how often readings may be worked out, all together.
    """

    def __init__(self, survival: Floats, persistence: float, levels: int, looks: int) -> None:
        self._wanted = survival
        self._persistence = persistence
        normal = NormalDist()
        self._scores = np.array([normal.inv_cdf((level + 0.5) / levels) for level in range(levels)])
        shares = _conditional(survival)
        # Where every token stands, or none does, all levels are alike.
        self._free = (shares > 0) & (shares < 1)
        self._fixed = np.where(shares >= 1, _MOST_LOG_ODDS, -np.inf)
        self._goal = _log_odds(shares[self._free])
        self._looks_left = looks

    @property
    def levels_differ(self) -> bool:
        """Whether they do in any entry."""
        return bool(self._free.any())

    @property
    def given_up(self) -> bool:
        """Whether all looks are used up."""
        return self._looks_left <= 0

    def at(self, width: float, near: tuple[float, Found] | None = None) -> Found:
        """The base for a width; the nearest that was found where there is none.

        Args:
            width: standard deviation of the log odds between levels.
            near: what was found at another width.
        """
        start = self._goal if near is None else near[1].log_odds / _flattening(near[0])
        found = self._newton(self._look(start * _flattening(width), width), width)
        if found.off < CLOSE or len(found.miss) > _FEW:
            return found
        # Small steps go round what Newton's are caught in.
        again = self._newton(self._damped(width), width)
        return again if again.off < found.off else found

    def _newton(self, best: Found, width: float) -> Found:
        slopes, measured = self._slopes_of_draws(best.fresh), False
        for _ in range(_ROUNDS):
            if best.off < _WITHIN or self.given_up:
                break
            step = _solved(slopes, best.miss)
            step = step * min(1.0, (3.0 + width) / max(float(np.abs(step).max()), 1e-300))
            slopes, found = self._line(best, step, slopes, width)
            if found is not None:
                best, measured = found, False
            elif measured or len(best.miss) > _FEW:
                break
            else:
                slopes, measured = self._measured_slopes(best, width), True
        return best

    def _line(self, best: Found, step: Floats, slopes: Floats, width: float) -> tuple[Floats, Found | None]:
        """Corrected slopes, and what is better than ``best`` on the way of a step."""
        for _ in range(_HALVINGS):
            there = self._clipped(best.log_odds + step, width)
            moved = there - best.log_odds
            if not np.abs(moved).max() > 1e-12:
                break
            found = self._look(there, width)
            slopes = slopes + np.outer(best.miss - found.miss - slopes @ moved, moved) / (moved @ moved)
            if np.abs(found.miss).max() < 0.95 * np.abs(best.miss).max() or found.off < 0.9 * best.off:
                return slopes, found
            step = moved / 3
        return slopes, None

    def _damped(self, width: float) -> Found:
        flattening = _flattening(width)
        best = found = self._look(self._goal * flattening, width)
        for _ in range(_DAMPED_ROUNDS):
            found = self._look(self._clipped(found.log_odds + 0.4 * flattening * found.miss, width), width)
            if found.off < best.off:
                best = found
        return best

    def _look(self, log_odds: Floats, width: float) -> Found:
        self._looks_left -= 1
        base = self._fixed.copy()
        base[self._free] = log_odds
        tilt = np.where(self._free, self._scores[:, None] * width, 0.0)
        stands = 1 / (1 + np.exp(-np.clip(base + tilt, -700, _MOST_LOG_ODDS)))
        stands[:, base == -np.inf] = 0.0
        fresh: Floats = np.cumprod(stands, axis=1, dtype=np.float64)
        survival, spread = pooled(read_survival(fresh, self._persistence, len(base)))
        miss = self._goal - _log_odds(_conditional(survival)[self._free])
        return Found(log_odds, fresh, float(np.abs(survival - self._wanted).max()), spread, miss)

    def _slopes_of_draws(self, fresh: Floats) -> Floats:
        """How the log odds that are read change with the base, if readings were fresh draws."""
        before = np.concatenate((np.ones((len(fresh), 1)), fresh[:, :-1]), axis=1)
        fails = 1 - np.divide(fresh, before, out=np.zeros_like(fresh), where=before > 0)
        steps = 1 / (1 + fresh.sum(axis=1))
        # An entry of the base moves its own entry of survival and those behind it, and so the number of steps.
        moved = np.cumsum(fresh[:, ::-1], axis=1)[:, ::-1] * fails
        fewer = -(steps**2)[:, None] * moved
        change = np.tri(fresh.shape[1]) * ((fresh * steps[:, None]).T @ fails) + fresh.T @ fewer
        whole = steps @ fresh
        relative = change / np.maximum(whole, 1e-300)[:, None]
        relative -= np.concatenate((fewer.sum(axis=0)[None] / steps.sum(), relative[:-1]), axis=0)
        slopes = relative / np.maximum(1 - _conditional(whole / steps.sum()), 1e-9)[:, None]
        return np.asarray(slopes[np.ix_(self._free, self._free)], np.float64)

    def _measured_slopes(self, at: Found, width: float) -> Floats:
        slopes = np.empty((len(at.miss), len(at.miss)))
        for entry in range(len(at.miss)):
            nudged = at.log_odds.copy()
            nudged[entry] += _NUDGE
            slopes[:, entry] = (at.miss - self._look(nudged, width).miss) / _NUDGE
        return slopes

    def _clipped(self, log_odds: Floats, width: float) -> Floats:
        room = float(self._scores[-1]) * width
        return np.clip(log_odds, _LEAST_LOG_ODDS - room, _MOST_LOG_ODDS + room)


def _flattening(width: float) -> float:
    return float(np.sqrt(1 + _FLATTENED * width**2))


def _solved(slopes: Floats, miss: Floats) -> Floats:
    try:
        step = np.linalg.solve(slopes, miss)
    except np.linalg.LinAlgError:
        step = miss
    return np.asarray(step if np.isfinite(step).all() else miss, np.float64)


def _conditional(survival: Floats) -> Floats:
    """Of the drafts whose tokens before it stand, the share whose next one does too."""
    before = np.concatenate(([1.0], survival[:-1]))
    return np.divide(survival, before, out=np.zeros_like(survival), where=before > 0)


def _log_odds(shares: Floats) -> Floats:
    shares = np.clip(shares, 1e-300, 1.0)
    return np.asarray(np.log(shares) - np.log(np.maximum(1 - shares, 1e-9)), np.float64)
