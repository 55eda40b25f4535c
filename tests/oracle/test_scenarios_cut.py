"""Runs that end in the middle: by ``run.duration_s``, at a given instant, or by Ctrl-C."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.levels import at_level, check_levels, resolved, simulate, written
from tests.oracle.tight_scenarios import BALANCED, CLOSED, PIPELINE, SESSIONS, TIGHT

import servetwin
from servetwin.engine.protocols import EVERY_OPERATION, EVERY_STEP, SKIP_AHEAD
from servetwin.results.result import Result

CASES = {"open": TIGHT, "closed loop": CLOSED, "sessions": SESSIONS, "pipeline": PIPELINE, "balanced": BALANCED}


def ends_of_steps(result: Result) -> list[int]:
    """When the steps of a run end [ps]; of a stretch of equal ones that in the middle, for which there is no event."""
    ends = []
    for chunk in result.segments.store:
        starts, counts = chunk["start_ps"].tolist(), chunk["count"].tolist()
        firsts, growths = chunk["first_ps"].tolist(), chunk["growth_ps"].tolist()
        for start, count, first, growth in zip(starts, counts, firsts, growths, strict=True):
            steps = max(1, count // 2)
            ends.append(start + first * steps + growth * (steps * (steps - 1) // 2))
    return ends


def instants(result: Result) -> list[int]:
    """Instants at and around arrivals, tokens and the ends of steps, and anywhere [ps]."""
    rng = random.Random(0)
    names = ("arrival_ps", "last_token_ps", "queued_ps", "scheduled_ps")
    columns = [result.table.column(name).tolist() for name in names]
    some = [rng.choice(column) + shift for column in columns for shift in (-1, 0, 1)]
    ends = ends_of_steps(result)
    dones = result.table.column("prefill_done_ps").tolist()
    some += [rng.choice(column) + shift for _ in range(3) for column in (ends, dones) for shift in (-1, 0, 1)]
    some += [rng.randrange(1, result.end_ps) for _ in range(6)]
    return sorted({max(1, instant) for instant in some})


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_stops_at_an_instant(name: str, tmp_path: Path) -> None:
    """All but the slow level at many instants, the slow one at a few."""
    scenario = resolved(CASES[name])
    _, whole = simulate(scenario)
    assert whole.summary()["completed"] == 40
    assert whole.summary()["preemptions"] > 0
    unfinished = 0
    for number, until_ps in enumerate(instants(whole)):
        simulation, result = simulate(scenario, until_ps=until_ps, strict=number % 5 == 0)
        summary = result.summary()
        assert result.end_ps == until_ps or simulation.source.exhausted
        assert summary["requests"] == summary["completed"] + summary["unfinished"]
        unfinished += summary["unfinished"]
        content = written(result, tmp_path / "one")
        for stepping in (EVERY_STEP, EVERY_OPERATION) if number % 15 == 0 else (EVERY_STEP,):
            _, other = simulate(at_level(scenario, stepping), until_ps=until_ps)
            for part, expected in written(other, tmp_path / "other").items():
                assert content[part] == expected, f"{part}: {stepping} until {until_ps} ps"
    assert unfinished > 40


def two_requests(asynchronous: bool) -> dict[str, Any]:
    return {
        "model": "llama-3.1-8b",
        "cluster": {"hardware": "h100-sxm", "engine": {"async_scheduling": asynchronous}},
        "workload": {"arrivals": {"process": "constant", "rate_per_s": 20}, "prompts": 50, "outputs": 100},
        "run": {"requests": 2},
    }


def test_a_run_that_stops_when_a_prompt_is_done(tmp_path: Path) -> None:
    """Its last step ends at that very instant, and is cut off: the first token comes too late."""
    scenario = resolved(two_requests(False))
    done_ps = int(simulate(scenario)[1].table.column("prefill_done_ps")[0])
    check_levels(scenario, tmp_path, until_ps=done_ps)


def test_a_run_that_stops_between_the_plan_of_a_step_and_its_start(tmp_path: Path) -> None:
    """A request that arrives in a run of decodes is planned one step before it runs."""
    scenario = resolved(two_requests(True))
    planned_ps = int(simulate(scenario)[1].table.column("scheduled_ps")[1])
    check_levels(scenario, tmp_path, until_ps=planned_ps + 1)


@pytest.mark.parametrize("name", CASES)
def test_a_stopped_run_is_the_beginning_of_the_whole_one(name: str) -> None:
    """Whatever has happened by then has happened alike, and the tokens counted are those of the ended steps."""
    scenario = resolved(CASES[name])
    _, whole = simulate(scenario)
    until_ps = whole.end_ps // 2
    _, part = simulate(scenario, until_ps=until_ps)
    assert part.end_ps == until_ps
    columns = {name: whole.table.column(name) for name in ("id", "arrival_ps", "routed_ps", "first_token_ps")}
    by_id = dict(zip(columns["id"].tolist(), zip(*(c.tolist() for c in columns.values()), strict=True), strict=True))
    stamps = zip(*(part.table.column(name).tolist() for name in columns), strict=True)
    for request, arrival, routed, first in stamps:
        assert (request, arrival, routed) == by_id[request][:3]
        assert first in (-1, by_id[request][3])
    assert sum(arrival < until_ps for arrival in columns["arrival_ps"].tolist()) == len(part.table)
    assert part.segments.totals.emitted == whole.segments.emitted_until(until_ps)
    ledger = part.ledger()
    assert ledger["gpu_seconds"] == pytest.approx(sum(ledger["total"]["seconds"].values()), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("duration_s", [0.2, 0.61])
def test_duration_ends_the_workload_not_the_work(name: str, duration_s: float, tmp_path: Path) -> None:
    case = CASES[name] | {"run": {"duration_s": duration_s, "seed": 1}}
    summary = check_levels(resolved(case), tmp_path)
    result = servetwin.run(case)
    arrivals = result.table.column("arrival_ps")
    assert len(arrivals) == summary["completed"] > 0
    assert arrivals.max() < duration_s * 1e12
    assert result.end_ps > duration_s * 1e12
    # The same requests as without the limit, as far as they arrive in time.
    longer = servetwin.run(case | {"run": {"duration_s": duration_s * 2, "seed": 1}}).table.column("arrival_ps")
    if name == "open":
        assert sorted(longer[longer < duration_s * 1e12].tolist()) == sorted(arrivals.tolist())


def test_duration_and_requests_together() -> None:
    """Whichever comes first."""
    both = {"requests": 12, "duration_s": 0.2, "seed": 1}
    by_time = servetwin.run(TIGHT | {"run": {"duration_s": 0.2, "seed": 1}}).summary()["completed"]
    assert servetwin.run(TIGHT | {"run": both}).summary()["completed"] == min(12, by_time)
    assert servetwin.run(TIGHT | {"run": both | {"requests": 3}}).summary()["completed"] == 3


@pytest.mark.parametrize("name", ["quickstart", "multi-turn", "priority-classes", "mixed-gpus"])
def test_bundled_scenario_with_a_duration(name: str, tmp_path: Path) -> None:
    seconds = {"quickstart": 0.6, "multi-turn": 9, "priority-classes": 4, "mixed-gpus": 5}[name]
    scenario = resolved(name, "run.requests=null", f"run.duration_s={seconds}")
    summary = check_levels(scenario, tmp_path)
    assert summary["requests"] == summary["completed"] > 3


@pytest.mark.parametrize("stepping", [SKIP_AHEAD, EVERY_STEP, EVERY_OPERATION])
def test_an_interruption_between_two_events_keeps_the_accounts(stepping: str) -> None:
    """``Cluster.interrupt``, as a signal handler calls it, at an arrival."""
    scenario = at_level(resolved(TIGHT), stepping)
    from servetwin.scenario.build import build

    simulation = build(scenario, strict=True)
    submit = simulation.cluster.gateway.submit

    def submit_and_stop(request: Any) -> None:
        submit(request)
        if request.id == 20:
            simulation.cluster.interrupt()

    simulation.source._submit = submit_and_stop
    end_ps = simulation.cluster.run()
    cluster = simulation.cluster
    assert cluster.interrupted
    result = simulation.recorder.result(
        end_ps=end_ps, ledgers=cluster.ledger(end_ps), events=cluster.events, steps=cluster.steps, interrupted=True
    )
    assert int(result.table.column("arrival_ps").max()) == end_ps
    assert len(result.table) == 21
    summary = result.summary()
    assert summary["interrupted"]
    assert summary["completed"] + summary["unfinished"] == 21
