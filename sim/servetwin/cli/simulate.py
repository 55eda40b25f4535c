"""What ``run`` and ``replay`` have in common: simulate, write, print."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servetwin.cli.guard import say
from servetwin.cli.progress import Show, progress_bar
from servetwin.errors import Interrupted, printable
from servetwin.units import PS_PER_S

if TYPE_CHECKING:
    from servetwin.catalog.find import Catalog
    from servetwin.results.result import Result
    from servetwin.scenario.build import Progress
    from servetwin.scenario.load import LoadedScenario


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user wants of a run besides the scenario.

    Attributes:
        out: where to write; None = ``runs/<name>-<time>``.
        figures: whether to draw pictures.
        timeline: whether to write ``trace.json``.
        strict: whether every account is counted again at every step.
        quiet: whether to print nothing but errors.
        json: whether to print the summary as JSON.
    """

    out: Path | None
    figures: bool
    timeline: bool
    strict: bool
    quiet: bool
    json: bool


def simulate(loaded: LoadedScenario, choices: Choices, catalog: Catalog) -> None:
    """Simulate a scenario, write its files and print what came out.

    Raises:
        Interrupted: Ctrl-C; what was finished has been written and printed.
    """
    from servetwin.scenario.run import RunInterrupted, execute

    out = choices.out or default_out(loaded.scenario.name)
    with progress_bar("simulating", _simulated(0), quiet=choices.quiet) as show:
        try:
            result = execute(
                loaded.scenario,
                out=out,
                figures=choices.figures,
                timeline=choices.timeline,
                strict=choices.strict,
                progress=_shown_by(show) if show else None,
                catalog=catalog,
                notes=loaded.warnings,
            )
        except RunInterrupted as stopped:
            _print_kept(stopped.result, out, choices)
            raise
    _print_kept(result, out, choices)


def default_out(name: str) -> Path:
    """A directory of its own for each run: ``runs/<name>-<time>``."""
    base = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    out, number = base, 2
    while out.exists():
        out = base.with_name(f"{base.name}-{number}")
        number += 1
    return out


def _print_kept(result: Result, out: Path, choices: Choices) -> None:
    """Print what came out, which is on the disk by now."""
    try:
        _print_result(result, out, choices)
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while the results were printed: they are in {out}") from None


def _print_result(result: Result, out: Path, choices: Choices) -> None:
    if choices.json:
        import json

        for warning in result.warnings:
            say(f"warning: {warning}")
        print(json.dumps(result.summary(), indent=2, allow_nan=False, ensure_ascii=False))
    elif not choices.quiet:
        from servetwin.report.tables import print_result

        print_result(result.summary(), result.ledger())
        print(f"\nwritten to {printable(str(out))}")


def _shown_by(show: Show) -> Progress:
    """What the simulation calls, on a progress bar."""

    def progress(ended: int, expected: int | None, now_ps: int) -> None:
        show(ended, expected, _simulated(now_ps))

    return progress


def _simulated(now_ps: int) -> str:
    return f"requests, {now_ps / PS_PER_S:,.0f} s simulated"
