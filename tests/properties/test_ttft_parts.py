"""TTFT is one stamp minus another; its parts lie between stamps of the same request and add up to the picosecond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracle.levels import resolved, simulate
from tests.oracle.split_scenarios import KINDS, scenario

from servetwin.request import COMPLETED
from servetwin.results.hand_over_parts import (
    GAP_PARTS,
    TTFT_PARTS,
    HandOverTimes,
    Stamps,
    gap_parts,
    stamps_of,
    ttft_parts,
)
from servetwin.results.result import Result

CASES = [(kind, number) for kind in KINDS for number in range(300, 318)]


def parts_of(result: Result) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """The parts of TTFT of all completed requests, those of the gaps after it, and TTFT."""
    table = result.table
    done = table.with_outcome(COMPLETED)
    names = ("id", "arrival_ps", "scheduled_ps", "prefill_done_ps", "first_token_ps")
    ids, arrival, scheduled, prefilled, first = (table.column(name)[done] for name in names)
    block = result.hand_overs.of(ids)
    stamps = stamps_of(prefilled, block)
    parts = ttft_parts(arrival, scheduled, stamps, first, block.split, result.meta.first_token_of_prefill)
    came = block.split & (stamps.scheduled >= 0) & result.meta.first_token_of_prefill
    return parts, gap_parts(Stamps(*(one[came] for one in stamps))), first - arrival


def check(result: Result) -> None:
    parts, gaps, ttft = parts_of(result)
    assert tuple(parts) == TTFT_PARTS and tuple(gaps) == GAP_PARTS
    assert np.array_equal(sum(parts.values()), ttft)
    assert all((lengths >= 0).all() for lengths in (*parts.values(), *gaps.values()))
    summary = result.summary()
    if summary["split_requests"] and len(ttft):
        means = sum(summary[f"ttft_{part}_ms.mean"] for part in TTFT_PARTS)
        assert means == pytest.approx(summary["ttft_ms.mean"], rel=1e-12)
    if summary["hand_over_gap_ms.mean"] is not None:
        means = sum(summary[f"gap_{part}_ms.mean"] for part in GAP_PARTS)
        assert means == pytest.approx(summary["hand_over_gap_ms.mean"], rel=1e-12)


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_parts_add_up(kind: str, number: int) -> None:
    _, result = simulate(resolved(scenario(kind, number)))
    check(result)


@pytest.mark.parametrize("number", range(320, 330))
def test_parts_add_up_when_a_run_is_cut_short(number: int) -> None:
    _, result = simulate(resolved(scenario(KINDS[number % len(KINDS)], number)), until_ps=300_000_000_000 + number)
    check(result)


@pytest.mark.parametrize(("kind", "number"), CASES[::3])
def test_what_waits_and_moves_has_its_bounds(kind: str, number: int) -> None:
    """A transfer lasts no longer than the run, a pull hides nothing, and no pool strands more than it has."""
    case = resolved(scenario(kind, number))
    _, result = simulate(case)
    summary, horizon = result.summary(), result.series.horizon_ps
    times = HandOverTimes(result.hand_overs, result.table, result.end_ps)
    assert (times.exposed_ps >= 0).all() and (times.hidden_ps >= 0).all()
    assert (times.exposed_ps + times.hidden_ps <= horizon).all()
    assert case.cluster.transfer is not None
    if case.cluster.transfer.mode == "pull":
        assert not times.hidden_ps.any()
    for pool in summary["pools"].values():
        assert pool["kv_stranded"] is None or 0 <= pool["kv_stranded"] <= 1
        assert 0 <= pool["utilisation"] <= 1
    frame = result.timeseries()
    routed = (result.table.column("replica") >= 0).sum()
    assert frame["arrivals"].sum() == routed and frame["completed"].sum() == summary["completed"]
    for name in ("running", "waiting"):
        assert frame[name].min() >= 0


def test_the_cases_have_every_part() -> None:
    """Together they leave none empty."""
    found = dict.fromkeys((*TTFT_PARTS, *(f"gap {part}" for part in GAP_PARTS)), 0)
    for kind, number in CASES[::4]:
        parts, gaps, _ = parts_of(simulate(resolved(scenario(kind, number)))[1])
        for name, lengths in (*parts.items(), *((f"gap {part}", lengths) for part, lengths in gaps.items())):
            found[name] += int(lengths.sum())
    assert all(found.values()), found
