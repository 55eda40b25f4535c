"""What each constant does to the figures of a run: exact for a schedule that stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from servetwin.physics.protocols import StepShape
from servetwin.results.result import Result
from servetwin.scenario.pools import PoolParts
from servetwin.scenario.prices import price_steps
from servetwin.scenario.schema import Scenario
from servetwin.specs import MoeMlp
from servetwin.studies.overheads.constants import CONSTANTS
from servetwin.units import PS_PER_S

Floats = npt.NDArray[np.float64]

METRICS = ("tpot_ms.mean", "ttft_ms.mean")
"""What is fitted."""

_BATCH = 8
"""Requests of the step at which the launch constants of a model are counted; they are the same in any step."""

_LAUNCHING_S = 10e-6
"""A step whose CPU takes that much longer than its constants [s] waits for the launch of its layers."""

_MOST_GAIN = 5.0
"""Beyond this an open loop is so near to saturation that nothing can be said of it."""


@dataclass(frozen=True, slots=True)
class Effects:
    """A point of a run, and what one unit of each constant adds to it.

    Attributes:
        predicted: by metric of ``METRICS``, what the run says [ms].
        slopes: by metric, milliseconds per second, or per share, of each of ``CONSTANTS``.
    """

    predicted: dict[str, float]
    slopes: dict[str, tuple[float, ...]]

    def at(self, metric: str, steps: Sequence[float]) -> float:
        """The metric [ms] with the constants moved by ``steps`` [s, or shares]."""
        moved = sum(slope * step for slope, step in zip(self.slopes[metric], steps, strict=True))
        return self.predicted[metric] + moved


def in_every_step(scenario: Scenario, parts: PoolParts) -> tuple[float, ...]:
    """What one unit of ``launch``, ``experts_launch`` and ``router_s`` takes in a step of this model [s]."""
    shape = StepShape(_BATCH, _BATCH, True, _BATCH, _BATCH, _zeros(parts), _zeros(parts))
    names = ("launch", "experts_launch", "router_s")

    def step_s(**values: float) -> float:
        changed: dict[str, Any] = {**dict.fromkeys(names, 0.0), **values}
        calibration = replace(parts.calibration, **changed)
        return price_steps(scenario, replace(parts, calibration=calibration)).price(shape).total_ps / PS_PER_S

    bare_s = step_s()
    # A microsecond for each expert: the prices are whole picoseconds.
    units = {"launch": 1.0, "experts_launch": 1.0, "router_s": 1e-6}
    return tuple((step_s(**{name: unit}) - bare_s) / unit for name, unit in units.items())


def _zeros(parts: PoolParts) -> tuple[int, ...]:
    return (0,) * (len(parts.model.windows) + 1)


def effects_of(scenario: Scenario, parts: PoolParts, result: Result, first: int, last: int | None) -> Effects | None:
    """The effects of each constant on the requests ``first`` to ``last``, in order of arrival, of a run.

    Args:
        scenario: the scenario, resolved; one pool of one replica.
        parts: what its pool is made of.
        result: its run.
        first, last: the requests; None = to the end.

    Returns:
        the effects; None where a figure is missing, and for a pipeline, where stages pay the constants of a step side
        by side.

    Notes
    -----
    In a closed loop the order of steps, counted in steps, hardly depends on how long they are, so that a constant that
    is paid in each step adds the steps between two tokens of a request, times itself, to the time between them. In an
    open loop longer steps meet more requests: ``1 / (1 - slope * requests / TPOT)`` times as much, with the slope of
    the duration of a step over its requests as it is in the run.
    """
    if len(parts.stages) > 1:
        return None
    table = result.requests().sort_values("arrival_s", kind="stable", ignore_index=True).iloc[first:last]
    table = table[(table["outcome"] == "completed") & (table["output_tokens"] > 1)]
    if table.empty:
        return None
    steps = _Steps(result, in_every_step(scenario, parts), parts)
    tokens = table["output_tokens"].to_numpy(dtype=float) - 1.0
    queued, first_s, last_s = (
        table[name].to_numpy(dtype=float) for name in ("queued_s", "first_token_s", "last_token_s")
    )
    gain = 1.0 if scenario.workload.arrivals is not None and _closed(scenario) else steps.gain()
    per_token = [float(np.mean((steps.until(k, last_s) - steps.until(k, first_s)) / tokens)) for k in range(_IN_STEPS)]
    waiting = [float(np.mean(steps.until(k, first_s) - steps.until(k, queued))) for k in range(_IN_STEPS)]
    prompts = float(table["prompt_tokens"].mean())
    tpot = [gain * value * 1e3 for value in per_token] + [0.0, 0.0, 0.0]
    ttft = [gain * value * 1e3 for value in waiting] + [1e3, prompts * 1e3, steps.requests_at(first_s) * 1e3]
    return Effects(
        {"tpot_ms.mean": float(table["tpot_ms"].mean()), "ttft_ms.mean": float(table["ttft_ms"].mean())},
        {"tpot_ms.mean": tuple(tpot), "ttft_ms.mean": tuple(ttft)},
    )


_IN_STEPS = sum(constant.name.startswith("step.") for constant in CONSTANTS)


def _closed(scenario: Scenario) -> bool:
    arrivals = scenario.workload.arrivals
    return getattr(arrivals, "process", None) == "closed-loop"


class _Steps:
    """The steps of a run and what one unit of each constant of ``step`` adds to them, summed up over time."""

    def __init__(self, result: Result, always: tuple[float, ...], parts: PoolParts) -> None:
        store, calibration = result.segments.store, parts.calibration
        columns = ("start_ps", "count", "first_ps", "growth_ps", "emitted", "decodes", "prefill_tokens")
        start, count, first, growth, requests, decodes, prefill = (
            store.column(name).astype(np.float64) for name in columns
        )
        compute, memory, waits = (
            store.column(name) / PS_PER_S for name in ("compute_ps", "memory_ps", "communication_ps")
        )
        span = first * count + growth * count * (count - 1) / 2
        order = np.argsort(start, kind="stable")
        self._ends = np.column_stack((start, start + span))[order].ravel() / PS_PER_S
        mixed = prefill > 0
        host = calibration.step_s + calibration.mixed_step_s * mixed + calibration.request_step_s * requests
        launching = first / PS_PER_S - compute - memory - waits > host + _LAUNCHING_S
        mixtures = sum(layer.count for layer in parts.model.layers if isinstance(layer.mlp, MoeMlp))
        adds = (
            count, count * requests, count * launching * mixtures,
            *(count * seconds for seconds in always), count * waits / (calibration.all_reduce or 1.0),
        )  # fmt: skip
        self._sums = []
        for add in adds:
            after = np.cumsum(add[order])
            self._sums.append(np.column_stack((after - add[order], after)).ravel())
        self._starts, self._requests = start[order] / PS_PER_S, requests[order]
        self._duration_s = span / count / PS_PER_S
        self._count, self._decodes, self._mixed = count, decodes, mixed

    def until(self, constant: int, times_s: Floats) -> Floats:
        """What one unit of a constant has added to the steps that ended by these times [s]."""
        found: Floats = np.interp(times_s, self._ends, self._sums[constant])
        return found

    def requests_at(self, times_s: Floats) -> float:
        """Requests, on average, in the steps that end just before these times [s]."""
        place = np.clip(np.searchsorted(self._starts, times_s, side="left") - 1, 0, None)
        return float(self._requests[place].mean())

    def gain(self) -> float:
        """By how much an open loop amplifies what is added to each step."""
        chosen = ~self._mixed & (self._decodes > 0)
        weights = self._count[chosen]
        if weights.sum() <= 0:
            return 1.0
        batch, duration = self._decodes[chosen], self._duration_s[chosen]
        mean_batch, mean_s = np.average(batch, weights=weights), np.average(duration, weights=weights)
        spread = np.average((batch - mean_batch) ** 2, weights=weights)
        if spread <= 0 or mean_s <= 0:
            return 1.0
        slope = np.average((batch - mean_batch) * (duration - mean_s), weights=weights) / spread
        return float(min(_MOST_GAIN, max(1.0, 1.0 / max(1.0 - slope * mean_batch / mean_s, 1.0 / _MOST_GAIN))))
