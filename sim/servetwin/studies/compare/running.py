"""Running every variant with every seed, in this process or in several, with the same results."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, Interrupted
from servetwin.scenario.run import execute
from servetwin.scenario.schema import Scenario
from servetwin.studies.compare.measure import Measured, measure
from servetwin.studies.compare.variants import Variant
from servetwin.studies.processes import in_processes, signals_raise
from servetwin.studies.run_options import RunOptions

Progress = Callable[[int, int], None]
"""``(runs that ended, runs in all)``."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run.

    Attributes:
        name: the variant.
        scenario: what to run.
        notes: what its summary warns of besides its own findings.
    """

    name: str
    scenario: Scenario
    notes: tuple[str, ...]


@dataclass(slots=True)
class Finished:
    """What came of the runs.

    Attributes:
        seeds: for each seed whose runs have all ended, one of each variant, in their order.
        ended: runs that have ended.
        planned: runs in all.
        signal_number: the signal that stopped the rest; None = everything ran.
    """

    seeds: list[list[Measured]] = field(default_factory=list)
    ended: int = 0
    planned: int = 0
    signal_number: int | None = None


def run_variants(
    variants: Sequence[Variant],
    seeds: int,
    options: RunOptions,
    progress: Progress | None = None,
    *,
    out: Path | None = None,
    timeline: bool = False,
) -> Finished:
    """Run every variant with ``seeds`` consecutive seeds; Ctrl-C or SIGTERM keep the seeds that are complete.

    Args:
        variants: what to run.
        seeds: how many.
        options: what holds for every run.
        progress: told after each run.
        out: the folder that gets ``NAME-SEED`` with the files of each run; None = they are not written.
        timeline: whether ``trace.json`` is among them.

    Raises:
        InputError: a run was refused.
    """
    tasks = [
        Task(variant.name, _with_seed(variant.scenario, number), variant.warnings)
        for number in range(seeds)
        for variant in variants
    ]
    if out is not None:
        # Other processes may stand in another folder.
        out = out.absolute()
    finished = Finished(planned=len(tasks))
    answers: dict[int, Measured] = {}
    ended = in_processes(
        tasks,
        partial(_prepare, options.catalog, options.strict, out, timeline),
        options.jobs,
        plugins=options.plugins,
        name="compare",
    )
    try:
        with signals_raise():
            for index, answer in ended:
                if isinstance(answer, InputError):
                    task = tasks[index]
                    answer.message = f"{task.name} with seed {task.scenario.run.seed}: {answer.message}"
                    raise answer
                answers[index] = answer
                if progress is not None:
                    progress(len(answers), len(tasks))
    except (KeyboardInterrupt, Interrupted) as error:
        finished.signal_number = int(getattr(error, "signal_number", signal.SIGINT))
    finally:
        ended.close()
    finished.ended = len(answers)
    for number in range(seeds):
        places = range(number * len(variants), (number + 1) * len(variants))
        if all(place in answers for place in places):
            finished.seeds.append([answers[place] for place in places])
    return finished


def _with_seed(scenario: Scenario, more: int) -> Scenario:
    run = scenario.run.model_copy(update={"seed": scenario.run.seed + more})
    return scenario.model_copy(update={"run": run})


def _prepare(
    catalog: Sequence[Path], strict: bool, out: Path | None, timeline: bool
) -> Callable[[Task], Measured | InputError]:
    return partial(_run, Catalog(catalog), strict, out, timeline)


def _run(catalog: Catalog, strict: bool, out: Path | None, timeline: bool, task: Task) -> Measured | InputError:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = execute(
                task.scenario,
                out=None if out is None else out / f"{task.name}-{task.scenario.run.seed}",
                timeline=timeline,
                strict=strict,
                catalog=catalog,
                notes=task.notes,
            )
        except InputError as error:
            return error
    return measure(task.name, result)
