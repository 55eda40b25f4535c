"""Runs the scenarios of a suite with each of their seeds, in this process or in several."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, Interrupted
from servetwin.scenario.load import load
from servetwin.scenario.overrides import Override
from servetwin.scenario.run import execute
from servetwin.studies.check.plan import Plan
from servetwin.studies.processes import in_processes, signals_raise

Progress = Callable[[int, int, str], None]
"""``(runs that ended, runs in all, name of the last one)``."""


@dataclass(frozen=True, slots=True)
class _Task:
    reference: str | Path
    overrides: tuple[Override, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        summary: its summary.
        wall_s: how long it took [s].
    """

    summary: dict[str, Any]
    wall_s: float


@dataclass(slots=True)
class Finished:
    """What came of the runs of a suite.

    Attributes:
        outcomes: by the name of the entry, and then by seed.
        signal_number: the signal that stopped the rest; None = everything ran.
    """

    outcomes: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    signal_number: int | None = None

    @property
    def runs(self) -> int:
        """How many ended."""
        return sum(len(by_seed) for by_seed in self.outcomes.values())


def run_plan(plan: Plan, progress: Progress | None = None) -> Finished:
    """Run every scenario with each of its seeds; Ctrl-C or SIGTERM keep what has ended.

    Args:
        plan: the suite.
        progress: told after each run.

    Raises:
        InputError: a run finds a mistake that could not be seen before, such as a bad row of a trace.
    """
    finished = Finished({planned.name: {} for planned in plan.entries})
    owners = [(planned, seed) for planned in plan.entries for seed in planned.seeds]
    tasks = [_Task(planned.reference, planned.overrides, seed) for planned, seed in owners]
    options = plan.request.runs
    ended = in_processes(
        tasks, partial(_prepare, options.catalog, options.strict), options.jobs, plugins=options.plugins, name="check"
    )
    try:
        with signals_raise():
            for place, answer in ended:
                planned, seed = owners[place]
                if isinstance(answer, InputError):
                    answer.message = f"{planned.name} with seed {seed}: {answer.message}"
                    raise answer
                finished.outcomes[planned.name][seed] = answer
                if progress is not None:
                    progress(finished.runs, len(tasks), planned.name)
    except (KeyboardInterrupt, Interrupted) as error:
        finished.signal_number = int(getattr(error, "signal_number", signal.SIGINT))
    finally:
        ended.close()
    return finished


def _prepare(folders: tuple[Path, ...], strict: bool) -> Callable[[_Task], Outcome | InputError]:
    return partial(_run, Catalog(folders), strict)


def _run(catalog: Catalog, strict: bool, task: _Task) -> Outcome | InputError:
    """Run one scenario; a mistake of the user is an answer, so that it comes from another process as it is."""
    seed = Override(f"seed {task.seed}", "run.seed", task.seed)
    try:
        loaded = load(task.reference, (*task.overrides, seed), catalog)
        summary = execute(loaded.scenario, strict=strict, catalog=catalog, notes=loaded.warnings).summary()
    except InputError as error:
        return error
    return Outcome(summary, summary["wall_s"])
