"""How much the event loop has to do: deterministic integers instead of seconds."""

from __future__ import annotations

from functools import cache

import pytest
from tests.golden import measure

import servetwin

MOST_EVENTS_PER_REQUEST = 4.8
SPLIT = ("bench-8b-pd",)
"""Here a request is on two engines, and its KV cache on the way between them."""
MOST_EVENTS_PER_SPLIT_REQUEST = 10

events = cache(measure.events)


@pytest.mark.parametrize("name", measure.BENCH)
def test_events_and_steps_are_those_of_the_last_time(name: str) -> None:
    """After a change of prices, rules or events: ``python tests/golden/regenerate.py``."""
    now = events(name)
    assert now == measure.stored_events()[name]
    # A step costs an event only where something changes; hand-overs change something all the time.
    assert now["steps"] > (1 if name in SPLIT else 4) * now["events"]


@pytest.mark.parametrize("name", measure.BENCH)
def test_events_per_request(name: str) -> None:
    """The promise for bench-8b; the others are to keep it too. Not read from a file."""
    found = events(name)
    most = MOST_EVENTS_PER_SPLIT_REQUEST if name in SPLIT else MOST_EVENTS_PER_REQUEST
    assert found["events"] <= most * found["requests"]


def test_events_per_request_at_full_length() -> None:
    """The standard speed workload, whole."""
    summary = servetwin.run("bench-8b").summary()
    assert summary["completed"] == 10_000
    assert 2 * 10_000 < summary["events"] <= MOST_EVENTS_PER_REQUEST * 10_000


def test_events_do_not_grow_with_the_answers() -> None:
    """Four times the output tokens are four times the steps, at nearly the same number of events."""
    short, long = (events(name) for name in ("bench-8b", "bench-8b-long"))
    assert long["steps"] > 3 * short["steps"]
    assert long["events"] < 1.3 * short["events"]


@pytest.mark.parametrize("batches", ["vllm", "balanced"])
def test_events_of_a_pipeline(batches: str) -> None:
    """Micro-batches go round without an event each, whether they are one or several."""
    summary = servetwin.run("bench-70b-pp4", run__requests=1_000, cluster__engine__pipeline_batches=batches).summary()
    assert summary["events"] <= MOST_EVENTS_PER_REQUEST * 1_000
    assert summary["steps"] > (3 if batches == "balanced" else 1) * summary["events"]


def test_events_of_a_preemption_storm_stay_bounded() -> None:
    """Where nearly every step changes something, an event a step is all it costs."""
    summary = servetwin.run(
        "bench-8b",
        run__requests=300,
        workload__arrivals__rate_per_s=60,
        cluster__engine__num_gpu_blocks_override=400,
        cluster__engine__max_model_len=2048,
    ).summary()
    assert summary["preemptions"] > 50
    assert summary["events"] < summary["steps"] + 4 * summary["requests"]
