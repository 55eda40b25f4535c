"""Running the points of a sweep: in processes that stay, each result on the disk before the next is waited for."""

from __future__ import annotations

import json
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, Interrupted
from servetwin.scenario.run import execute
from servetwin.studies.processes import in_processes, signals_raise, signals_wait
from servetwin.studies.sweep.design import Values
from servetwin.studies.sweep.folder import Folder
from servetwin.studies.sweep.points import Plan, Source, in_a_line
from servetwin.studies.sweep.table import Row, write_table

Progress = Callable[[int, int], None]
"""``(runs that ended, runs to do)``."""


class Ended(NamedTuple):
    """What came of a run: the text of its summary, or why it failed."""

    summary: str | None
    error: str | None


@dataclass(slots=True)
class Outcome:
    """What came of a sweep.

    Attributes:
        runs: rows of the table.
        taken: runs that were there already.
        failures: rows that failed: the values of their fields, and why.
        signal_number: the signal that stopped the rest; None = everything ran.
    """

    runs: int = 0
    taken: int = 0
    failures: list[tuple[Values, str]] = field(default_factory=list)
    signal_number: int | None = None


def run_sweep(plan: Plan, folder: Folder, *, jobs: int = 1, resume: bool = False,
              progress: Progress | None = None) -> Outcome:  # fmt: skip
    """Run every point and write the table; Ctrl-C or SIGTERM keep what has ended, kill -9 too but for the table.

    The table is the same for any number of jobs, and whether or not the sweep was resumed.

    Args:
        plan: the runs.
        folder: where to write.
        jobs: processes.
        resume: whether summaries that are in the folder are taken over; runs that failed are done again.
        progress: told after each run.

    Raises:
        InputError: the folder cannot be written.
    """
    outcome = Outcome()
    todo = unfinished(plan, folder if resume else None)
    ended = {point.key for point in plan.points if point.key is not None and point.key not in todo}
    outcome.taken = sum(point.key in ended for point in plan.points)
    failed: dict[str, str] = {}
    with signals_wait() as came:
        folder.prepare()
        answers = in_processes([*todo.values()], partial(_runner, plan.source), jobs, plugins=plan.source.plugins,
                               name="servetwin-sweep", lost=_lost)  # fmt: skip
        try:
            with signals_raise():
                _keep(answers, list(todo), folder, ended, failed, progress)
        except (KeyboardInterrupt, Interrupted) as error:
            came.append(int(getattr(error, "signal_number", signal.SIGINT)))
        finally:
            answers.close()
        rows = _rows(plan, folder, ended, failed, outcome)
        folder.writing(lambda: write_table(folder.table, plan, rows))
    outcome.signal_number = next(iter(came), None)
    return outcome


def _keep(answers: Iterator[tuple[int, Ended]], keys: list[str], folder: Folder, ended: set[str],
          failed: dict[str, str], progress: Progress | None) -> None:  # fmt: skip
    """Write the summary of each run as it ends."""
    for number, (index, answer) in enumerate(answers, 1):
        if answer.summary is not None:
            folder.write_point(keys[index], answer.summary)
            ended.add(keys[index])
        else:
            failed[keys[index]] = answer.error or ""
        if progress is not None:
            progress(number, len(keys))


def unfinished(plan: Plan, folder: Folder | None) -> dict[str, Values]:
    """The runs that are to be done, by their hash: equal points are one run.

    Args:
        plan: the runs.
        folder: where summaries may be that are taken over; None = none are.
    """
    return {
        key: values
        for key, values in {point.key: point.values for point in plan.points if point.key is not None}.items()
        if folder is None or folder.read_point(key) is None
    }


def _rows(plan: Plan, folder: Folder, ended: set[str], failed: dict[str, str], outcome: Outcome) -> Iterator[Row]:
    """The rows of the table, counted on the way; a run that was not reached has none."""
    for point in plan.points:
        error = point.error if point.key is None else failed.get(point.key)
        summary = folder.read_point(point.key) if point.key in ended and point.key is not None else None
        if summary is None and error is None:
            continue
        outcome.runs += 1
        if error is not None:
            outcome.failures.append((point.values, error))
        yield Row(point.values, summary, error, None if summary is None else point.key)


def _runner(source: Source) -> Callable[[Values], Ended]:
    """What runs points, with a catalog that reads each profile once."""
    catalog = Catalog(source.catalog)
    return lambda values: _run(values, source, catalog)


def _run(values: Values, source: Source, catalog: Catalog) -> Ended:
    """Run one point; what keeps it from ending is its answer.

    Raises:
        Interrupted: a signal.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = source.load(values, catalog)
            before_s = time.process_time()
            result = execute(loaded.scenario, strict=source.strict, catalog=catalog, notes=loaded.warnings)
            summary = result.summary()
            # Of this run, not of the process, which has others.
            summary["cpu_s"] = round(time.process_time() - before_s, 6)
        except InputError as error:
            return Ended(None, in_a_line(error))
        except (Interrupted, KeyboardInterrupt):
            raise
        except Exception as error:
            # A bug in one point is no reason to lose the others.
            return Ended(None, f"internal error: {type(error).__name__}: {error}")
    return Ended(json.dumps(summary, allow_nan=False, ensure_ascii=False), None)


def _lost(exitcode: int | None) -> Ended:
    """The answer for a run whose process ended."""
    how = f"killed by signal {-exitcode}" if exitcode is not None and exitcode < 0 else f"exit code {exitcode}"
    return Ended(None, f"the process of the run ended before it ({how}): memory may have run out, use fewer jobs")
