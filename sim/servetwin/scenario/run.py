"""Running a scenario: the clock, the interruption, and the files."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from servetwin.catalog.find import Catalog
from servetwin.errors import InputError, Interrupted
from servetwin.results.result import Result
from servetwin.scenario.build import Progress, Simulation, build
from servetwin.scenario.load import load, validate_mapping
from servetwin.scenario.overrides import Override
from servetwin.scenario.schema import Scenario
from servetwin.scenario.store import to_yaml

SCENARIO_FILE = "scenario.yaml"


class RunInterrupted(Interrupted):
    """The user stopped the run.

    Attributes:
        result: what was finished.
        ended: requests that had ended.
        expected: requests that were expected; None if unknown.
    """

    def __init__(self, result: Result, ended: int, expected: int | None, out: Path | None) -> None:
        of = f" of {expected:,}" if expected is not None else ""
        kept = f"what was finished is in {out}" if out is not None else "what was finished is in .result"
        super().__init__(f"interrupted after {ended:,}{of} requests: {kept}")
        self.result = result
        self.ended = ended
        self.expected = expected


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
    catalog = catalog or Catalog()
    changes = [_override(name, value) for name, value in overrides.items()]
    notes: tuple[str, ...] = ()
    if isinstance(scenario, (str, Path)):
        loaded = load(scenario, changes, catalog)
        scenario, notes = loaded.scenario, loaded.warnings
    elif isinstance(scenario, Mapping) or changes:
        raw = scenario if isinstance(scenario, Mapping) else scenario.model_dump(mode="json", exclude_unset=True)
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
    if out is not None:
        _make_folder(out)
    simulation = build(scenario, catalog=catalog, timeline=timeline, strict=strict, progress=progress)
    with _ctrl_c_stops(simulation.cluster.interrupt):
        end_ps = simulation.cluster.run()
    result = _result(simulation, end_ps, notes)
    result.set_host(
        wall_s=round(time.perf_counter() - wall, 6),
        cpu_s=round(time.process_time(), 6),
        started_at=started.isoformat(timespec="seconds"),
        out=None,
    )
    if out is not None:
        _write(result, simulation.scenario, out, figures, timeline)
    if simulation.cluster.interrupted:
        raise RunInterrupted(result, simulation.cluster.gateway.ended, simulation.stream.expected, out)
    return result


def _override(name: str, value: Any) -> Override:
    return Override(f"{name}={value!r}", name.replace("__", "."), value)


def _result(simulation: Simulation, end_ps: int, notes: Sequence[str]) -> Result:
    cluster, stream = simulation.cluster, simulation.stream
    recorder = simulation.recorder
    recorder.meta.trace_block_hit_rate_infinite = stream.trace_block_hit_rate_infinite
    warnings = list(notes)
    counts = stream.trace_counts
    if counts is not None and counts.skipped:
        warnings.append(
            f"{counts.skipped:,} of {counts.read:,} rows of the trace were skipped; the first: {counts.first_skipped}"
        )
    return recorder.result(
        end_ps=end_ps,
        ledgers=cluster.ledger(end_ps),
        events=cluster.events,
        steps=cluster.steps,
        warnings=warnings,
        interrupted=cluster.interrupted,
    )


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the results cannot be written there: {error.strerror}",
            file=str(out),
            allowed="a directory, which is made if it does not exist",
        ) from None


def _write(result: Result, scenario: Scenario, out: Path, figures: bool, timeline: bool) -> None:
    try:
        (out / SCENARIO_FILE).write_text(to_yaml(scenario), encoding="utf-8")
        result.write(out, figures=figures, timeline=timeline)
    except OSError as error:
        raise InputError(
            f"the results cannot be written: {error.strerror or error}", file=str(error.filename or out)
        ) from error


@contextmanager
def _ctrl_c_stops(interrupt: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C end the run between two events; a second one is a ``KeyboardInterrupt`` as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, previous)
        interrupt()

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
