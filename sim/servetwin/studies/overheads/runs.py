"""The runs behind a fit: each trial once, with the constants to start from."""

from __future__ import annotations

import multiprocessing
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError
from servetwin.scenario.pools import pool_parts
from servetwin.scenario.run import execute
from servetwin.studies.overheads.effects import METRICS, Effects, effects_of
from servetwin.studies.validation.one_run import RunOptions, resolved
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
    """
    found: list[tuple[PointEffects, ...]] = []
    for effects in _each(trials, options):
        found.append(effects)
        if progress is not None:
            progress(len(found), len(trials))
    return found


def _each(trials: Sequence[Trial], options: RunOptions) -> Iterator[tuple[PointEffects, ...]]:
    one = partial(_effects, options=options)
    if options.jobs == 1 or len(trials) < 2:
        yield from map(one, trials)
        return
    # Started afresh, so that nothing of this process leaks into them.
    pool = ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn"))
    try:
        yield from pool.map(one, trials)
    finally:
        pool.shutdown(cancel_futures=True)


def _effects(trial: Trial, options: RunOptions) -> tuple[PointEffects, ...]:
    catalog = Catalog(options.catalog)
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
