"""The runs behind a fit: each trial once, with the constants to start from."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.scenario.pools import pool_parts
from servetwin.scenario.run import execute
from servetwin.studies.overheads.effects import METRICS, Effects, effects_of
from servetwin.studies.processes import in_processes, signals_raise
from servetwin.studies.run_options import RunOptions
from servetwin.studies.validation.one_run import resolved
from servetwin.studies.validation.trial import Trial

Progress = Callable[[int, int], None]
"""``(runs that ended, runs in all)``."""


@dataclass(frozen=True, slots=True)
class PointEffects:
    """A measured point, and the effects of the constants on it.

    Attributes:
        stage: its name in the case.
        measured: by metric of ``METRICS`` [ms]; what was not measured is left out.
        effects: of its run.
    """

    stage: str
    measured: dict[str, float]
    effects: Effects


def run_all(
    trials: Sequence[Trial], options: RunOptions, progress: Progress | None = None
) -> list[tuple[PointEffects, ...]]:
    """The effects of the points of each trial, in their order; none where this version cannot run it.

    Args:
        trials: the trials, each of a single replica.
        options: what holds for every run.
        progress: told after each run.

    Raises:
        Interrupted: a signal.
    """
    found: dict[int, tuple[PointEffects, ...]] = {}
    ended = in_processes(
        trials, partial(_runner, options), options.jobs, plugins=options.plugins, name="servetwin-calibrate"
    )
    try:
        with signals_raise():
            for place, effects in ended:
                found[place] = effects
                if progress is not None:
                    progress(len(found), len(trials))
    finally:
        ended.close()
    return [found[place] for place in range(len(trials))]


def _runner(options: RunOptions) -> Callable[[Trial], tuple[PointEffects, ...]]:
    """What runs trials, with its own catalog."""
    catalog = Catalog(options.catalog)
    return lambda trial: run_effects(trial, options, catalog)


def run_effects(trial: Trial, options: RunOptions, catalog: Catalog) -> tuple[PointEffects, ...]:
    """Run one trial; no points where this version cannot simulate it."""
    with tempfile.TemporaryDirectory(prefix="servetwin-calibrate-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scenario = resolved(trial, options, catalog, Path(folder))
            result = execute(scenario, catalog=catalog)
        except InputError:
            return ()
    parts = pool_parts(scenario, scenario.cluster.pools[0], "cluster.pools.0", catalog)
    found = []
    for point in trial.points:
        measured = {name: point.measured[name] for name in METRICS if name in point.measured}
        effects = effects_of(scenario, parts, result, point.first, point.last) if measured else None
        if effects is not None:
            found.append(PointEffects(point.stage, measured, effects))
    return tuple(found)
