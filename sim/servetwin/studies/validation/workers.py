"""Processes that run trials, each with a pipe of its own, so that any of them may be ended at any moment."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from servetwin.catalog.find import Catalog
from servetwin.errors import Interrupted, ScenarioError
from servetwin.policies import load_plugins
from servetwin.studies.validation.one_run import RunOptions
from servetwin.studies.validation.trial import Trial

_Outcome = TypeVar("_Outcome")

Run = Callable[[Trial, RunOptions, Catalog], _Outcome]
"""Runs one trial; what comes of it is no text."""


def run_in_processes(
    trials: Sequence[Trial], options: RunOptions, run: Run[_Outcome]
) -> Generator[tuple[int, _Outcome]]:
    """Run trials in ``options.jobs`` processes, each answered by its place as it ends.

    The processes are started afresh, so that nothing of this one leaks into them, and do not outlive the generator.

    Args:
        trials: the trials.
        options: what holds for every run.
        run: runs one of them; a function of a module, which the processes import.

    Raises:
        ScenarioError: a process ended before its run did.
        RuntimeError: a bug, with its traceback.
    """
    context = multiprocessing.get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    busy: dict[Connection, int] = {}
    try:
        waiting = iter(range(len(trials)))
        for number in range(min(options.jobs, len(trials))):
            here, there = context.Pipe()
            process: BaseProcess = context.Process(
                target=_work, args=(there, options, run), name=f"validate-{number}", daemon=True
            )
            process.start()
            there.close()
            workers[here] = process
            _next(here, waiting, trials, busy)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                yield busy.pop(ready), _answer(ready, options)
                _next(ready, waiting, trials, busy)
    finally:
        for process in workers.values():
            process.kill()
        for connection, process in workers.items():
            process.join()
            connection.close()


def _next(worker: Connection, waiting: Iterator[int], trials: Sequence[Trial], busy: dict[Connection, int]) -> None:
    trial_index = next(waiting, None)
    if trial_index is not None:
        worker.send(trials[trial_index])
        busy[worker] = trial_index


def _answer(worker: Connection, options: RunOptions) -> Any:
    try:
        answer = worker.recv()
    except EOFError:
        raise ScenarioError(
            "a process of the simulation ended before its run",
            path="--jobs",
            found=options.jobs,
            hint="memory may have run out: use fewer jobs",
        ) from None
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return answer


def _work(parent: Connection, options: RunOptions, run: Run[Any]) -> None:
    """Answer one trial after the other until there are no more.

    A terminal sends Ctrl-C to every process: the parent hears it too, and ends this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_plugins(list(options.plugins))
    catalog = Catalog(options.catalog)
    while True:
        try:
            trial: Trial = parent.recv()
        except EOFError:
            return
        try:
            answer = run(trial, options, catalog)
        except (Interrupted, KeyboardInterrupt):
            return
        except Exception:
            answer = traceback.format_exc()
        parent.send(answer)
