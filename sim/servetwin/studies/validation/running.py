"""Running the trials, in this process or in several, with the same results."""

from __future__ import annotations

import signal
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, Interrupted
from servetwin.studies.processes import in_processes, signals_raise
from servetwin.studies.run_options import RunOptions
from servetwin.studies.validation.one_run import resolved, run_trial
from servetwin.studies.validation.plan import Plan
from servetwin.studies.validation.trial import Outcome, Trial

Progress = Callable[[int, int], None]
"""``(runs that ended, runs in all)``."""


@dataclass(slots=True)
class Finished:
    """What came of a plan.

    Attributes:
        outcomes: by the place of the trial.
        signal_number: the signal that stopped the rest; None = everything ran.
    """

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    signal_number: int | None = None


def run_plan(todo: Plan, options: RunOptions, progress: Progress | None = None) -> Finished:
    """Run every trial; Ctrl-C or SIGTERM keep what has ended.

    Args:
        todo: the plan.
        options: what holds for every run.
        progress: told after each run.

    Raises:
        InputError: an override does not fit the scenarios.
    """
    finished = Finished()
    trials = [trial for _, trial in todo.trials]
    if options.changes:
        _check_changes(trials, options, Catalog(options.catalog))
    ended = in_processes(
        trials, partial(_runner, options), options.jobs, plugins=options.plugins, name="servetwin-validate"
    )
    try:
        with signals_raise():
            for trial_index, outcome in ended:
                finished.outcomes[trial_index] = outcome
                if progress is not None:
                    progress(len(finished.outcomes), len(trials))
    except (KeyboardInterrupt, Interrupted) as error:
        finished.signal_number = int(getattr(error, "signal_number", signal.SIGINT))
    finally:
        ended.close()
    return finished


def _check_changes(trials: list[Trial], options: RunOptions, catalog: Catalog) -> None:
    """Refuse overrides that the first scenario which is possible without them does not take."""
    bare = RunOptions(options.seed, (), options.catalog)
    for trial in trials:
        with tempfile.TemporaryDirectory(prefix="servetwin-validate-") as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                resolved(trial, bare, catalog, Path(folder))
            except InputError:
                continue
            resolved(trial, options, catalog, Path(folder))
            return


def _runner(options: RunOptions) -> Callable[[Trial], Outcome]:
    """What runs trials, with its own catalog."""
    catalog = Catalog(options.catalog)
    return lambda trial: run_trial(trial, options, catalog)
