"""One scenario at the three stepping levels, through the build path and the files that every run goes through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servetwin.engine.protocols import STEPPING
from servetwin.results.result import Result
from servetwin.scenario.build import Simulation, build
from servetwin.scenario.draft_use import draft_uses
from servetwin.scenario.load import load, validate_mapping
from servetwin.scenario.schema import Scenario

HOST_KEYS = ("wall_s", "cpu_s", "started_at", "out")
#: The levels differ in how many events they take, and in nothing else.
NOT_COMPARED = (*HOST_KEYS, "events")
BYTES = ("requests.parquet", "timeseries.parquet", "ledger.json")


def resolved(reference: str | Mapping[str, Any], *changes: str) -> Scenario:
    """A bundled scenario, a file or a mapping, with overrides."""
    if isinstance(reference, str):
        return load(reference, changes).scenario
    assert not changes
    return validate_mapping(dict(reference))


def at_level(scenario: Scenario, stepping: str) -> Scenario:
    """The same scenario at another level."""
    return scenario.model_copy(update={"run": scenario.run.model_copy(update={"stepping": stepping})})


def simulate(scenario: Scenario, *, until_ps: int | None = None, strict: bool = False) -> tuple[Simulation, Result]:
    """Build and run, to the end or to an instant."""
    simulation = build(scenario, strict=strict)
    cluster, recorder = simulation.cluster, simulation.recorder
    end_ps = cluster.run(until_ps)
    recorder.meta.trace_block_hit_rate_infinite = simulation.stream.trace_block_hit_rate_infinite
    result = recorder.result(
        end_ps=end_ps, ledgers=cluster.ledger(end_ps), events=cluster.events, steps=cluster.steps,
        drafts=draft_uses(cluster.replicas),
    )  # fmt: skip
    return simulation, result


def written(result: Result, folder: Path) -> dict[str, Any]:
    """What the files of a run say: bytes, and the summary without what may differ."""
    result.write(folder, figures=False)
    contents: dict[str, Any] = {name: (folder / name).read_bytes() for name in BYTES}
    summary = json.loads((folder / "summary.json").read_text())
    return contents | {key: value for key, value in summary.items() if key not in NOT_COMPARED}


def check_levels(
    scenario: Scenario, folder: Path, *, until_ps: int | None = None, strict: bool = False, disturbed: bool = False
) -> dict[str, Any]:
    """Assert that the three levels write the same bytes; returns the summary of skip-ahead, its events included.

    Where engines are ``disturbed`` all the time, as by hand-overs, skipping ahead may take a few events more.
    """
    documents: list[dict[str, Any]] = []
    events = []
    for stepping in STEPPING:
        _, result = simulate(at_level(scenario, stepping), until_ps=until_ps, strict=strict)
        documents.append(written(result, folder / stepping))
        events.append(result.summary()["events"])
    assert documents[0].keys() == documents[1].keys() == documents[2].keys()
    for name, content in documents[0].items():
        # Not compared with one ==, whose explanation of two unequal files would fill the screen.
        for stepping, other in zip(STEPPING[1:], documents[1:], strict=True):
            assert content == other[name], f"{name}: {STEPPING[0]} and {stepping} differ"
    assert disturbed or events[0] <= events[1] <= events[2]
    return documents[0] | {"events": events}
