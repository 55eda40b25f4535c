"""Times that the results cannot hold are refused, with the field that leads to them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from servetwin.errors import ScenarioError
from servetwin.units import MAX_PS
from servetwin.workload.stream import RequestStream

LENGTHS: dict[str, Any] = {"prompts": 10, "outputs": 2}

OPEN = {
    "rate_per_s": {"rate_per_s": 0.00001},
    "interval_s": {"process": "bursts", "size": 3, "interval_s": 1e6},
    "ramp_s": {"process": "closed-loop", "concurrency": 4, "ramp_s": 1e8},
    "stages": {"process": "staged", "stages": [{"rate_per_s": 1e-5, "duration_s": 1e8}]},
}


@pytest.mark.parametrize("field", OPEN)
@pytest.mark.parametrize("sessions", [False, True])
def test_open_arrivals(field: str, sessions: bool, stream_of: Callable[..., RequestStream]) -> None:
    content = {"arrivals": OPEN[field], **LENGTHS}
    if sessions:
        content["sessions"] = {"turns": 1, "think_time_s": 1}
    arrivals = []
    with pytest.raises(ScenarioError, match="90 simulated days") as caught:
        for request in stream_of(content, requests=400):
            arrivals.append(request.arrival_ps)
    assert arrivals and max(arrivals) <= MAX_PS
    assert caught.value.path == f"workload.arrivals.{field}"
    assert caught.value.found is not None


def test_what_the_run_does_not_reach_is_no_mistake(stream_of: Callable[..., RequestStream]) -> None:
    content = {"arrivals": OPEN["interval_s"], **LENGTHS}
    assert len(list(stream_of(content, requests=24))) == 24
    assert len(list(stream_of(content, duration_ps=MAX_PS))) == 24


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (
            {"arrivals": {"process": "closed-loop", "concurrency": 1, "think_time_s": 8e6}},
            "workload.arrivals.think_time_s",
        ),
        (
            {"arrivals": {"rate_per_s": 1}, "sessions": {"turns": 2, "think_time_s": 8e6}},
            "workload.sessions.think_time_s",
        ),
    ],
)
def test_follow_ups(content: dict[str, Any], path: str, stream_of: Callable[..., RequestStream]) -> None:
    stream = stream_of({**content, **LENGTHS}, requests=10)
    (first,) = islice(stream, 1)
    first.outcome = "completed"
    with pytest.raises(ScenarioError, match="90 simulated days") as caught:
        stream.on_finished(first, first.arrival_ps + 1)
    assert (caught.value.path, caught.value.found) == (path, 8e6)
