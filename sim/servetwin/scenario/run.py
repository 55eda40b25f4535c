"""Running a scenario: the clock, the interruption, and the files."""

from __future__ import annotations

import gc
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, Interrupted, InvariantError, ScenarioError
from servetwin.policies import plugin_behind
from servetwin.results.result import Result
from servetwin.results.store import SCENARIO, TRACE, write_text
from servetwin.scenario.build import Progress, Simulation, build
from servetwin.scenario.communication import communication_use
from servetwin.scenario.draft_use import draft_uses
from servetwin.scenario.interruption import Interruption, Stopped
from servetwin.scenario.links import collective_uses, link_uses
from servetwin.scenario.load import load, validate_mapping
from servetwin.scenario.overrides import Override
from servetwin.scenario.schema import Scenario
from servetwin.scenario.store import as_written, to_yaml
from servetwin.units import MAX_DAYS, MAX_PS

_OBJECTS_PER_COLLECTION = 100_000
"""Containers made and not freed before Python looks for cycles, while a simulation runs."""


class RunInterrupted(Interrupted):
    """The user stopped the run, or the writing of its files.

    Attributes:
        result: what was finished.
        ended: requests that had ended.
        expected: requests that were expected; None if unknown.
    """

    def __init__(self, message: str, signal_number: int, result: Result, simulation: Simulation) -> None:
        super().__init__(message, signal_number)
        self.result = result
        self.ended = simulation.cluster.gateway.ended
        self.expected = simulation.stream.expected


def run(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    *,
    out: str | Path | None = None,
    figures: bool = False,
    timeline: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
    catalog: Catalog | None = None,
    **overrides: Any,
) -> Result:
    """Simulate a scenario.

    Args:
        scenario: the name of a bundled scenario, the path of a file, a mapping as a file would hold it, or a
            ``Scenario`` object.
        out: where to write the files of the run; None = nowhere.
        figures: whether to draw the pictures too.
        timeline: whether to write ``trace.json`` too.
        strict: whether every account is counted again at every step (slow).
        progress: told now and then how far the run is: requests ended, requests expected, simulated time [ps].
        catalog: where models, GPUs, workloads and scenarios are found; the bundled ones by default.
        overrides: fields of the scenario, ``__`` standing for the dots of the path.

    Raises:
        InputError: whatever is wrong with the scenario.
        RunInterrupted: Ctrl-C; it carries what was finished.

    >>> run("quickstart", run__requests=100, run__seed=1).summary()["completed"]
    100
    """
    if out == "":
        raise InputError("the name of a directory is expected, found an empty text", path="out")
    catalog = catalog or Catalog()
    changes = [_override(name, value) for name, value in overrides.items()]
    notes: tuple[str, ...] = ()
    if isinstance(scenario, (str, Path)):
        loaded = load(scenario, changes, catalog)
        scenario, notes = loaded.scenario, loaded.warnings
    elif isinstance(scenario, Mapping) or changes:
        raw = scenario if isinstance(scenario, Mapping) else as_written(scenario)
        scenario = validate_mapping(raw, catalog, overrides=changes)
    return execute(
        scenario,
        out=Path(out) if out is not None else None,
        figures=figures,
        timeline=timeline,
        strict=strict,
        progress=progress,
        catalog=catalog,
        notes=notes,
    )


def execute(
    scenario: Scenario,
    *,
    out: Path | None = None,
    figures: bool = False,
    timeline: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
    catalog: Catalog | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """Simulate a resolved scenario and write its files; see ``run``.

    Args:
        scenario: the scenario.
        out: where to write; None = nowhere.
        figures: whether to draw the pictures.
        timeline: whether to write ``trace.json``.
        strict: whether every account is counted again at every step.
        progress: told now and then how far the run is.
        catalog: where models, GPUs and calibrations are.
        notes: what the summary should warn of besides its own findings.
    """
    started, wall = datetime.now(UTC), time.perf_counter()
    with _folder(out), Interruption() as signals:
        with _plugins_stay_inside():
            simulation = build(scenario, catalog=catalog, timeline=timeline, strict=strict, progress=progress)
            signals.simulate(simulation.cluster.interrupt)
            end_ps = _simulate(simulation, signals)
        signals.save()
        result = _result(simulation, end_ps, notes)
        result.set_host(
            wall_s=round(time.perf_counter() - wall, 6),
            cpu_s=round(time.process_time(), 6),
            started_at=started.isoformat(timespec="seconds"),
            out=None,
        )
        missing: list[str] = []
        if out is not None:
            _write_tables(result, simulation.scenario, out)
            missing = _write_pictures(result, out, signals, figures, timeline)
        if signals.number is not None:
            raise _interrupted(simulation, result, out, signals.number, missing)
    return result


def _simulate(simulation: Simulation, signals: Interruption) -> int:
    """Run the cluster; returns the end [ps].

    Raises:
        InputError: a fault of the workload that shows only now, or times that the results cannot hold.
        Stopped: the user does not want to wait for the event under way.
    """
    try:
        with _few_collections():
            end_ps = simulation.cluster.run()
    except (OverflowError, struct.error) as error:
        # The latter where a time does not fit into the columns of the log.
        raise _too_long() from error
    except InputError as error:
        # SimPy raises a copy, which has the message only.
        raise error.__cause__ if isinstance(error.__cause__, InputError) else error from None
    except InvariantError:
        if signals.given_up is not None:
            # What was given up in the middle of an event does not balance.
            raise Stopped(signals.given_up) from None
        raise
    if end_ps > MAX_PS:
        raise _too_long()
    return end_ps


@contextmanager
def _few_collections() -> Iterator[None]:
    """Hardly anything that a simulation makes lies in a cycle: looking for cycles takes time and finds next to none."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _too_long() -> ScenarioError:
    return ScenarioError(
        f"the simulated time goes beyond {MAX_DAYS} days",
        path="run",
        allowed=f"runs of at most {MAX_DAYS} simulated days",
        hint="lower run.requests, run.duration_s or cluster.slowdown, or raise the rate of the workload",
    )


@contextmanager
def _plugins_stay_inside() -> Iterator[None]:
    """A policy that ends the program is a mistake of its plug-in, not the wish of the user."""
    try:
        yield
    except Stopped:
        raise
    except (SystemExit, KeyboardInterrupt) as error:
        file = plugin_behind(error)
        if file is None:
            raise
        raise ScenarioError(f"the plug-in ends the program: it raises {type(error).__name__}", file=file) from error


def _interrupted(
    simulation: Simulation, result: Result, out: Path | None, signal_number: int, missing: Sequence[str]
) -> RunInterrupted:
    ended, expected = simulation.cluster.gateway.ended, simulation.stream.expected
    of = f" of {expected:,}" if expected is not None else ""
    where = out if out is not None else ".result"
    if simulation.cluster.interrupted:
        message = f"interrupted after {ended:,}{of} requests: what was finished is in {where}"
    else:
        message = f"interrupted after the simulation had finished: its results are in {where}"
    lacks = f", without {', '.join(missing)}" if missing else ""
    return RunInterrupted(message + lacks, signal_number, result, simulation)


def _override(name: str, value: Any) -> Override:
    return Override(f"{name}={value!r}", name.replace("__", "."), value)


def _result(simulation: Simulation, end_ps: int, notes: Sequence[str]) -> Result:
    cluster, stream, network = simulation.cluster, simulation.stream, simulation.network
    recorder = simulation.recorder
    recorder.meta.trace_block_hit_rate_infinite = stream.trace_block_hit_rate_infinite
    said = dict.fromkeys(text for prices in simulation.prices for text in prices.remarks())
    warnings = [*notes, *simulation.remarks, *said]
    if not cluster.gateway.submitted and not cluster.interrupted:
        warnings.append("no request arrived: run.duration_s ends before the first one, so there is nothing to measure")
    wanted, came = simulation.scenario.run.requests, cluster.gateway.submitted
    if wanted is not None and came < wanted and _ends_early(simulation):
        warnings.append(f"run.requests is {wanted:,}, and the workload has ended after {came:,}")
    counts = stream.trace_counts
    if counts is not None:
        warnings.extend(counts.remarks())
    return recorder.result(
        end_ps=end_ps,
        ledgers=cluster.ledger(end_ps),
        stages_busy=cluster.stages_busy(),
        drafts=draft_uses(cluster.replicas),
        events=cluster.events,
        steps=cluster.steps,
        warnings=warnings,
        interrupted=cluster.interrupted,
        links=None if network.fabric is None else link_uses(network.fabric),
        collectives=lambda: collective_uses(network.layout, simulation.exchanges),
        communication=lambda: [
            communication_use(replica, what) for replica, what in enumerate(simulation.exchanges) if what is not None
        ],
    )


def _ends_early(simulation: Simulation) -> bool:
    """Whether nothing but the workload itself can have ended it before ``run.requests`` had come."""
    scenario = simulation.scenario
    return scenario.workload.finite and scenario.run.duration_s is None and not simulation.cluster.interrupted


@contextmanager
def _folder(out: Path | None) -> Iterator[None]:
    """Make the output folder; a run that fails takes those away that it made and left empty."""
    made: list[Path] = []
    try:
        if out is not None:
            made = [folder for folder in (out, *out.parents) if not folder.exists()]
            _make_folder(out)
        yield
    except BaseException:
        for folder in made:
            try:
                folder.rmdir()
            except OSError:
                break
        raise


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the results cannot be written there: {error.strerror}",
            file=str(out),
            allowed="a directory, which is made if it does not exist",
        ) from None


def _write_tables(result: Result, scenario: Scenario, out: Path) -> None:
    with _told_if_unwritable(out):
        result.write_tables(out)
        write_text(out / SCENARIO, to_yaml(scenario))


def _write_pictures(result: Result, out: Path, signals: Interruption, figures: bool, timeline: bool) -> list[str]:
    """Write what people look at; returns the names of those files that a signal prevented."""
    wanted = [*(result.pictures() if figures else ()), *((TRACE,) if timeline else ())]
    try:
        signals.draw()
        with _told_if_unwritable(out):
            result.write_pictures(out, figures=figures, timeline=timeline)
        signals.save()
    except Stopped:
        return [name for name in wanted if not (out / name).exists()]
    return []


@contextmanager
def _told_if_unwritable(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"the results cannot be written: {error.strerror or error}", file=str(error.filename or out)
        ) from error
