"""Tasks in this process or in several, each with a pipe of its own, so that any of them may be ended at any moment.

Nothing of this process leaks into the others; they prepare once, then answer one task after the other, and do not
outlive whoever asked.
"""

from __future__ import annotations

import atexit
import multiprocessing
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, Generic, TypeVar

from servetwin.errors import Interrupted, ScenarioError
from servetwin.policies import load_plugins
from servetwin.scenario.interruption import SIGNALS, Stopped

Task = TypeVar("Task")
Answer = TypeVar("Answer")

Prepare = Callable[[], Callable[[Task], Answer]]
"""Called once in each process; what it returns answers a task. Has to be picklable: a function of a module, or a
``partial`` of one."""

Lost = Callable[[int | None], Answer]
"""The answer to a task whose process ended, of its exit code (negative: the signal)."""


def in_processes(
    tasks: Sequence[Task],
    prepare: Prepare[Task, Answer],
    jobs: int,
    *,
    plugins: Sequence[Path] = (),
    name: str = "servetwin",
    lost: Lost[Answer] | None = None,
) -> Generator[tuple[int, Answer]]:
    """Answer each task, with its place, as it ends; the answers are the same for any number of jobs.

    One job, or one task, is done in this process. Close the generator to end what is under way.

    Args:
        tasks: what to do.
        prepare: makes what does it.
        jobs: processes.
        plugins: files that register policies, which this process has loaded and a fresh one has not.
        name: what the processes are called.
        lost: what to answer for a task whose process ended, after which another process is started; by default that
            is an error.

    Raises:
        ScenarioError: a process ended before its task did.
        RuntimeError: a bug in another process, with its traceback as a note.
        Stopped: another process was told to stop, as Ctrl-C tells all of them.
    """
    if jobs == 1 or len(tasks) < 2:
        work = prepare()
        for index, task in enumerate(tasks):
            _stop_if_told()
            yield index, work(task)
        return
    crew = _Crew(tasks, prepare, plugins, jobs, name, lost)
    try:
        yield from crew.answers()
    finally:
        crew.end()


class _Crew(Generic[Task, Answer]):
    """The processes of one call, and which task each of them has."""

    def __init__(
        self,
        tasks: Sequence[Task],
        prepare: Prepare[Task, Answer],
        plugins: Sequence[Path],
        jobs: int,
        name: str,
        lost: Lost[Answer] | None,
    ) -> None:
        self._tasks, self._jobs, self._name, self._lost = tasks, jobs, name, lost
        self._prepare = partial(_prepared, prepare, tuple(plugins))
        self._waiting = iter(range(len(tasks)))
        self._workers: dict[Connection, BaseProcess] = {}
        self._busy: dict[Connection, int] = {}
        self._context = _context(prepare)

    def answers(self) -> Iterator[tuple[int, Answer]]:
        for _ in range(min(self._jobs, len(self._tasks))):
            self._next(self._start())
        while self._busy:
            _stop_if_told()
            for ready in wait(list(self._busy)):
                assert isinstance(ready, Connection)
                index = self._busy.pop(ready)
                try:
                    answer, trace = ready.recv()
                except (EOFError, ConnectionResetError):
                    yield index, self._answer_for_lost(ready)
                    self._next(self._start())
                    continue
                if isinstance(trace, int):
                    raise Stopped(trace)
                if trace is not None:
                    raise _bug(*trace)
                # The process has its next task before this answer is worked on.
                self._next(ready)
                yield index, answer

    def end(self) -> None:
        for process in self._workers.values():
            process.kill()
        for connection, process in self._workers.items():
            process.join()
            connection.close()

    def _start(self) -> Connection:
        here, there = self._context.Pipe()
        process: BaseProcess = self._context.Process(
            target=_work, args=(there, self._prepare), name=f"{self._name}-{len(self._workers)}", daemon=True
        )
        process.start()
        there.close()
        self._workers[here] = process
        return here

    def _next(self, worker: Connection) -> None:
        index = next(self._waiting, None)
        if index is None:
            return
        self._busy[worker] = index
        task = pickle.dumps(self._tasks[index])
        # A process that has ended meanwhile is found when its answer is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            worker.send_bytes(task)

    def _answer_for_lost(self, worker: Connection) -> Answer:
        process = self._workers.pop(worker)
        process.join()
        worker.close()
        if self._lost is not None:
            return self._lost(process.exitcode)
        raise ScenarioError(
            "a process of the simulation ended before its run",
            path="--jobs",
            found=self._jobs,
            hint="memory may have run out: use fewer jobs",
        )


def _context(prepare: Prepare[Any, Any]) -> ForkServerContext | SpawnContext:
    """What starts processes: forks of one that has imported all they need, and has neither threads nor files of ours.

    So the second process costs nothing, and none holds an end of the pipe of another, by which it would outlive us.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    function = prepare.func if isinstance(prepare, partial) else prepare
    context.set_forkserver_preload(["__main__", "servetwin.scenario.run", getattr(function, "__module__", __name__)])
    # While it imports, Ctrl-C in a terminal would end it with a traceback; that a signal is blocked is inherited.
    # Starting the tracker unblocks signals, so that it comes first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    # Once, however often this is called.
    atexit.unregister(_end_server)
    atexit.register(_end_server)
    return context


def _end_server() -> None:
    """Wait for the end of what forks: only so does its time count as that of the program (``time servetwin …``)."""
    stop = getattr(forkserver._forkserver, "_stop", None)
    if stop is not None:
        stop()


def _bug(what: str, trace: str) -> RuntimeError:
    """A bug in another process: what it is for everybody, and its traceback for those who ask for it."""
    error = RuntimeError(f"in another process: {what}")
    error.add_note(trace)
    return error


def _prepared(prepare: Prepare[Task, Answer], plugins: Sequence[Path]) -> Callable[[Task], Answer]:
    """What a fresh process does before its first task."""
    load_plugins(plugins)
    return prepare()


def _work(parent: Connection, prepare: Prepare[Any, Any]) -> None:
    """Answer one task after the other until there are no more.

    A terminal sends Ctrl-C to every process: the parent hears it too, and ends this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work = None
    trace: tuple[str, str] | int | None
    while True:
        try:
            packed = parent.recv_bytes()
        except EOFError:
            return
        answer, trace = None, None
        try:
            # First what it prepares: a task may be made of classes of a plug-in.
            work = work or prepare()
            answer = work(pickle.loads(packed))
        except (Interrupted, KeyboardInterrupt) as error:
            # Said rather than left to be found out, so that the task does not count as lost.
            trace = int(getattr(error, "signal_number", signal.SIGINT))
        except Exception as error:
            trace = (f"{type(error).__name__}: {error}", traceback.format_exc())
        try:
            parent.send((answer, trace))
        except BrokenPipeError:
            # The parent was killed: nobody wants the answer.
            return


_told: list[int] = []
"""Signals since ``signals_raise``. Python drops what a handler raises inside a destructor or a callback of C code;
this list stays, and ``in_processes`` looks at it between two tasks."""


def _stop_if_told() -> None:
    if _told:
        raise Stopped(_told[0])


@contextmanager
def signals_raise() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise ``Stopped``."""

    def stop(number: int, _frame: FrameType | None) -> None:
        _told.append(number)
        raise Stopped(number)

    try:
        with _handled(stop):
            yield
    finally:
        _told.clear()


@contextmanager
def signals_wait() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM come into the list, and nothing else: results are being written, which is finished first."""
    came: list[int] = []
    with _handled(lambda number, _frame: came.append(number)):
        yield came


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """What a signal does; only the main thread of a program can be told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    for number, before in previous.items():
        if before not in (None, signal.SIG_IGN):
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in previous.items():
            if before is not None:
                signal.signal(number, before)
