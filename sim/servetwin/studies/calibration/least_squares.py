"""Least squares of logarithms, robust against outliers: a short Levenberg-Marquardt, the same bits on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

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
    low, high = (np.log([bound[side] for bound in bounds]) for side in (0, 1))
    goal = np.log(measured)

    def residuals(logs: np.ndarray) -> np.ndarray:
        return np.log(model([float(value) for value in np.exp(logs)])) - goal

    def loss(values: np.ndarray) -> float:
        return float(np.sqrt(1.0 + (values / _SOFT) ** 2).sum())

    logs = np.clip(np.log(start), low, high)
    now, damping = residuals(logs), 1e-3
    for _ in range(_ROUNDS):
        slopes = np.empty((len(goal), len(logs)))
        for index in range(len(logs)):
            # Inwards at an upper bound, so that the model is never asked beyond it.
            step = -_STEP if logs[index] + _STEP > high[index] else _STEP
            moved = logs.copy()
            moved[index] += step
            slopes[:, index] = (residuals(moved) - now) / step
        weights = 1.0 / np.sqrt(1.0 + (now / _SOFT) ** 2)
        curvature, gradient = slopes.T @ (weights[:, None] * slopes), slopes.T @ (weights * now)
        gained = -math.inf
        while damping < 1e6:
            scale = np.diag(damping * np.maximum(np.diag(curvature), 1e-9))
            proposed = np.clip(logs - np.linalg.solve(curvature + scale, gradient), low, high)
            there = residuals(proposed)
            gained = loss(now) - loss(there)
            if gained >= 0:
                break
            damping *= 4.0
        if gained < 0:
            break
        logs, now, damping = proposed, there, max(damping / 4.0, 1e-9)
        if gained < _ENOUGH * loss(now):
            break
    return [float(value) for value in np.exp(logs)]
