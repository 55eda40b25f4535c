"""Running the trials, in this process or in several, with the same results."""

from __future__ import annotations

import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, Interrupted
from servetwin.scenario.interruption import SIGNALS, Stopped
from servetwin.studies.validation.one_run import Settings, resolved, run_trial
from servetwin.studies.validation.plan import Plan
from servetwin.studies.validation.trial import Outcome, Trial
from servetwin.studies.validation.workers import run_in_processes

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


def run_plan(todo: Plan, settings: Settings, progress: Progress | None = None) -> Finished:
    """Run every trial; Ctrl-C or SIGTERM keep what has ended.

    Args:
        todo: the plan.
        settings: what holds for every run.
        progress: told after each run.

    Raises:
        InputError: an override does not fit the scenarios.
    """
    finished = Finished()
    trials = [trial for _, trial in todo.trials]
    catalog = Catalog(settings.catalog)
    if settings.changes:
        _check_changes(trials, settings, catalog)
    ended = (
        _here(trials, settings, catalog)
        if settings.jobs == 1 or len(trials) < 2
        else run_in_processes(trials, settings)
    )
    try:
        with _signals_raise():
            for place, outcome in ended:
                finished.outcomes[place] = outcome
                if progress is not None:
                    progress(len(finished.outcomes), len(trials))
    except (KeyboardInterrupt, Interrupted) as error:
        finished.signal_number = int(getattr(error, "signal_number", signal.SIGINT))
    finally:
        ended.close()
    return finished


def _check_changes(trials: list[Trial], settings: Settings, catalog: Catalog) -> None:
    """Refuse overrides that the first scenario which is possible without them does not take."""
    bare = Settings(settings.seed, (), settings.catalog)
    for trial in trials:
        with tempfile.TemporaryDirectory(prefix="servetwin-validate-") as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                resolved(trial, bare, catalog, Path(folder))
            except InputError:
                continue
            resolved(trial, settings, catalog, Path(folder))
            return


def _here(trials: list[Trial], settings: Settings, catalog: Catalog) -> Generator[tuple[int, Outcome]]:
    for place, trial in enumerate(trials):
        yield place, run_trial(trial, settings, catalog)


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise ``Stopped``; only the main thread of a program can be told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        raise Stopped(number)

    previous = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in previous.items():
        if handler not in (None, signal.SIG_IGN):
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in previous.items():
            if handler is not None:
                signal.signal(number, handler)
