"""What readings of a chain of matches see: the arithmetic behind ``survival`` and ``persistence``.

Along an output, the number of drafted tokens that would stand, ``m``, is a Markov chain. Where ``m`` is above 0, the
next position has ``m − 1`` with probability *persistence*; everywhere else the next position draws anew. A step at
position ``p`` with K drafts reads ``a = min(m, K)``, and the next step reads at ``p + a + 1``.

Distributions are kept as survival: entry ``i`` of an array is the probability of ``m ≥ i + 1``. Behind the last entry
each further token stands with the same probability as the last one did, given those before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]


def last_ratio(fresh: Floats) -> Floats:
    """The probability that a further token stands, behind the last entry; one for each row.

    Args:
        fresh: survival of fresh draws, a row for each level.
    """
    before = fresh[:, -2] if fresh.shape[1] > 1 else np.ones(len(fresh))
    return np.divide(fresh[:, -1], before, out=np.zeros(len(fresh)), where=before > 0)


def extended(survival: Floats, ratio: Floats, entries: int) -> Floats:
    """``survival`` with as many entries as asked for, continued by ``ratio``."""
    more = entries - survival.shape[1]
    if more <= 0:
        return survival
    tail: Floats = survival[:, -1:] * ratio[:, None] ** np.arange(1, more + 1)
    return np.concatenate((survival, tail), axis=1)


def read_survival(fresh: Floats, persistence: float, drafts: int) -> Floats:
    """The stationary survival at the positions where steps begin.

    The distribution ``y`` there is a fixed point of one step: with ``u_d`` the distribution ``d`` positions after a
    fresh draw and ``w_m`` the one ``m + 1`` positions after ``m``,

        y = w_0 + Σ_{m=1..K} y_m (w_m − w_{m−1}) + y_{K+1} (b − w_K) + persistence^(K+1) · (y moved by K + 1)

    where ``b`` is what breaks contribute while K + 1 positions pass.

    Args:
        fresh: survival of fresh draws, a row for each level.
        persistence: how likely the same continuation goes on.
        drafts: tokens that are drafted in every step, K.

    Returns:
        A row for each level, of as many entries as there are drafts, or as ``fresh`` has if these are more.
    """
    ratio = last_ratio(fresh)
    entries = max(drafts, fresh.shape[1])
    fresh = extended(fresh, ratio, entries)
    matrix = np.zeros((len(fresh), entries, entries))
    after: Floats = fresh
    following: Floats = fresh
    broken: Floats = (1 - persistence) * fresh
    for m in range(1, drafts + 1):
        # Here ``after`` is u_(m−1), ``following`` w_(m−1) and ``broken`` what breaks contribute in m positions.
        moved: Floats = np.concatenate((after[:, 1:], after[:, -1:] * ratio[:, None]), axis=1)
        after = np.asarray(persistence * moved + (1 - persistence * after[:, :1]) * fresh, np.float64)
        before, following = following, np.asarray((1 - persistence) * after + persistence * following, np.float64)
        matrix[:, :, m - 1] += following - before
        broken = (1 - persistence) * after + persistence * broken
    _add_beyond(matrix, drafts, broken - following, ratio)
    _add_moved(matrix, drafts + 1, persistence ** (drafts + 1), ratio)
    solved = np.linalg.solve(np.eye(entries) - matrix, fresh[:, :, None])[:, :, 0]
    return np.asarray(solved, np.float64)


def pooled(read: Floats) -> tuple[Floats, float]:
    """What is read of all levels together.

    Args:
        read: survival at the positions where steps begin, a row for each level.

    Returns:
        Survival over all steps of requests of equal lengths, and the coefficient of variation between levels of the
        accepted tokens per draft.
    """
    accepted = read.sum(axis=1)
    steps = 1 / (1 + accepted)
    survival: Floats = steps @ read / steps.sum()
    mean = accepted.mean()
    return survival, float(accepted.std() / mean) if mean > 0 else 0.0


def _add_beyond(matrix: Floats, drafts: int, change: Floats, ratio: Floats) -> None:
    """Add the term of those with more than K matches."""
    entries = matrix.shape[1]
    if drafts < entries:
        matrix[:, :, drafts] += change
    else:
        matrix[:, :, -1] += change * ratio[:, None]


def _add_moved(matrix: Floats, by: int, weight: float, ratio: Floats) -> None:
    """Add ``weight`` times the survival ``by`` entries further on."""
    entries = matrix.shape[1]
    for i in range(entries):
        if i + by < entries:
            matrix[:, i, i + by] += weight
        else:
            matrix[:, i, -1] += weight * ratio ** (i + by - entries + 1)
