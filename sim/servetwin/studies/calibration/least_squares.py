"""Least squares of logarithms, robust against outliers: a short Levenberg-Marquardt.

In plain floats, one after the other: what NumPy hands to BLAS, LAPACK or vector units is rounded otherwise on another
processor, and where the model has kinks the search then ends a per cent away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

_SOFT = 0.03
"""Relative error from which a residual counts linearly instead of squared."""
_ROUNDS = 60
_STEP = 1e-5
_ENOUGH = 1e-9


def fit(
    model: Callable[[Sequence[float]], Sequence[float]],
    measured: Sequence[float],
    start: Sequence[float],
    bounds: Sequence[tuple[float, float]],
) -> list[float]:
    """Parameters whose model is nearest to what was measured.

    Args:
        model: what it predicts for parameters, all above zero.
        measured: what was measured, all above zero.
        start: parameters to start from.
        bounds: lowest and highest value of each.

    Returns:
        the parameters that minimise ``Σ ρ(ln(model / measured))``, ``ρ(r) = √(1 + (r / 0.03)²)``: relative errors up
        to 3 % count squared, larger ones in proportion.
    """
    limits = [(math.log(low), math.log(high)) for low, high in bounds]

    def residuals(logs: Sequence[float]) -> list[float]:
        predicted = model([math.exp(value) for value in logs])
        return [math.log(one / other) for one, other in zip(predicted, measured, strict=True)]

    logs = _within(limits, [math.log(value) for value in start])
    now, damping = residuals(logs), 1e-3
    for _ in range(_ROUNDS):
        slopes = [_slopes(residuals, logs, now, index, limits[index][1]) for index in range(len(logs))]
        weights = [1.0 / _rho(value) for value in now]
        curvature = [[_dot(weights, one, other) for other in slopes] for one in slopes]
        gradient = [_dot(weights, one, now) for one in slopes]
        gained = -math.inf
        while damping < 1e6:
            damped = [
                [value + (damping * max(value, 1e-9) if row == column else 0.0) for column, value in enumerate(values)]
                for row, values in enumerate(curvature)
            ]
            moves = _solved(damped, gradient)
            proposed = _within(limits, [value - move for value, move in zip(logs, moves, strict=True)])
            there = residuals(proposed)
            gained = _loss(now) - _loss(there)
            if gained >= 0:
                break
            damping *= 4.0
        if gained < 0:
            break
        logs, now, damping = proposed, there, max(damping / 4.0, 1e-9)
        if gained < _ENOUGH * _loss(now):
            break
    return [math.exp(value) for value in logs]


def _rho(residual: float) -> float:
    return math.sqrt(1.0 + (residual / _SOFT) ** 2)


def _loss(residuals: Sequence[float]) -> float:
    return math.fsum(_rho(value) for value in residuals)


def _dot(weights: Sequence[float], one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(weight * a * b for weight, a, b in zip(weights, one, other, strict=True))


def _within(limits: Sequence[tuple[float, float]], logs: Sequence[float]) -> list[float]:
    return [min(max(value, low), high) for value, (low, high) in zip(logs, limits, strict=True)]


def _slopes(
    residuals: Callable[[Sequence[float]], list[float]], logs: Sequence[float], now: Sequence[float], index: int,
    high: float,
) -> list[float]:  # fmt: skip
    """How the residuals change with one parameter; inwards at an upper bound, so that nobody is asked beyond it."""
    step = -_STEP if logs[index] + _STEP > high else _STEP
    moved = list(logs)
    moved[index] += step
    return [(there - here) / step for there, here in zip(residuals(moved), now, strict=True)]


def _solved(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """The solution of ``matrix · x = right``, of a positive definite matrix: Gaussian elimination without pivots."""
    rows = [[*values, goal] for values, goal in zip(matrix, right, strict=True)]
    for index, pivot in enumerate(rows):
        for below in rows[index + 1 :]:
            factor = below[index] / pivot[index]
            for column in range(index, len(below)):
                below[column] -= factor * pivot[column]
    found: list[float] = []
    for index in reversed(range(len(rows))):
        *values, goal = rows[index]
        known = math.fsum(value * one for value, one in zip(values[index + 1 :], found, strict=True))
        found.insert(0, (goal - known) / values[index])
    return found
