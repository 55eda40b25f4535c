"""Robust least squares with bounds, for a model that is linear in its constants: the same bits on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROUNDS = 60
_SWEEPS = 400
_ENOUGH = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """A measured figure.

    Attributes:
        predicted: what is predicted before the fit.
        slopes: what one unit of each constant adds to it.
        measured: what was measured; above zero.
        weight: how much it counts.
        soft: relative error from which it counts linearly instead of squared.
    """

    predicted: float
    slopes: tuple[float, ...]
    measured: float
    weight: float
    soft: float


def fit(
    rows: Sequence[Row], start: Sequence[float], bounds: Sequence[tuple[float, float]], far: Sequence[float],
    held: float,
) -> list[float]:  # fmt: skip
    """The constants whose figures are nearest to what was measured.

    Parameters
    ----------
    rows : the figures
    start : the constants that the predictions rest on
    bounds : lowest and highest value of each
    far : how far from ``start`` each may be for ``held`` to count once
    held : weight of staying at ``start``

    Returns
    -------
    the constants that minimise ``Σ weight · soft² · (√(1 + (e / soft)²) − 1) + held / 2 · Σ ((x − start) / far)²`` with
    ``e = predicted / measured − 1``: squared errors while they are small, and their size beyond ``soft``

    Notes
    -----
    Iteratively reweighted least squares; each round is a quadratic programme with bounds, solved by coordinate descent.
    """
    origin = np.asarray(start, dtype=float)
    scale = np.asarray(far, dtype=float)
    low, high = (np.asarray([bound[side] for bound in bounds], dtype=float) for side in (0, 1))
    measured = np.asarray([row.measured for row in rows])
    offset = np.asarray([row.predicted for row in rows]) / measured - 1.0
    slopes = np.asarray([row.slopes for row in rows]) / measured[:, None] * scale
    weight = np.asarray([row.weight for row in rows])
    soft = np.asarray([row.soft for row in rows])
    least, most = (low - origin) / scale, (high - origin) / scale
    moved = np.zeros(len(origin))
    for _ in range(_ROUNDS):
        errors = offset + slopes @ moved
        counted = weight / np.sqrt(1.0 + (errors / soft) ** 2)
        curvature = slopes.T @ (counted[:, None] * slopes) + held * np.eye(len(origin))
        gradient = slopes.T @ (counted * offset)
        after = _within(curvature, gradient, moved, least, most)
        done = float(np.abs(after - moved).max()) < _ENOUGH
        moved = after
        if done:
            break
    return [float(value) for value in origin + scale * moved]


def _within(curvature: Floats, gradient: Floats, start: Floats, least: Floats, most: Floats) -> Floats:
    """The minimum of ``x·C·x / 2 + g·x`` with ``least ≤ x ≤ most``."""
    x = np.clip(start, least, most)
    for _ in range(_SWEEPS):
        largest = 0.0
        for index in range(len(x)):
            rest = float(curvature[index] @ x) - curvature[index, index] * x[index]
            value = min(max(-(float(gradient[index]) + rest) / curvature[index, index], least[index]), most[index])
            largest = max(largest, abs(value - x[index]))
            x[index] = value
        if largest < _ENOUGH:
            break
    return x
