"""The client's own limit on requests in flight, by hand and as a queue."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import pytest

from servetwin.errors import ScenarioError
from servetwin.kernel import BOUNDARY, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import Request
from servetwin.units import PS_PER_S
from servetwin.workload.source import Source
from servetwin.workload.stream import RequestStream

Build = Callable[..., RequestStream]


def served(stream: RequestStream, service_s: Callable[[Request], float], lose: int = -1) -> list[Request]:
    """Every request in order of sending, on a system that serves each on its own; most in flight is asserted."""
    env = new_environment()
    sent: list[Request] = []

    def submit(request: Request) -> None:
        assert request.arrival_ps == env.now
        sent.append(request)
        if request.id == lose:
            request.outcome = "rejected"
            source.finished(request, int(env.now))
            return
        end = int(env.now) + round(service_s(request) * PS_PER_S)
        call_at(env, end, priority(BOUNDARY), lambda: source.finished(request, end))

    source = Source(env, stream, submit)
    env.run()
    assert source.exhausted
    return sent


def seconds(requests: list[Request]) -> list[float]:
    return [round(request.arrival_ps / PS_PER_S, 9) for request in requests]


def test_by_hand(bench: dict[str, Any], stream_of: Build) -> None:
    """One request a second, two at a time, each of which takes three seconds.

    0 and 1 find a place. 2 comes at 2 s and waits for the end of 0 at 3 s, 3 for that of 1 at 4 s, 4 comes at 4 s and
    waits until 6 s, 5 until 7 s.
    """
    content = {**bench, "arrivals": {"process": "constant", "rate_per_s": 1}, "max_concurrency": 2}
    stream = stream_of(content, requests=6)
    assert stream.expected == 6
    sent = served(stream, lambda _: 3.0)
    assert seconds(sent) == [0, 1, 3, 4, 6, 7]
    assert [request.id for request in sent] == list(range(6)), "first come, first served"


def test_a_place_is_free_until_it_is_needed(bench: dict[str, Any], stream_of: Build) -> None:
    """A quick system never makes anybody wait, and a slow one only from the moment on when it is slow."""
    content = {**bench, "arrivals": {"process": "constant", "rate_per_s": 1}, "max_concurrency": 2}
    assert seconds(served(stream_of(content, requests=6), lambda _: 0.5)) == [0, 1, 2, 3, 4, 5]
    slow = {2: 10.0, 3: 10.0}
    sent = served(stream_of(content, requests=6), lambda request: slow.get(request.id, 0.5))
    assert seconds(sent) == [0, 1, 2, 3, 12, 12.5]


def test_deadlines_count_from_sending(bench: dict[str, Any], stream_of: Build) -> None:
    content = {**bench, "arrivals": {"process": "all-at-once"}, "max_concurrency": 1}
    content["classes"] = [{"name": "a", "slo": {"ttft_ms": 500}}]
    sent = served(stream_of(content, requests=4), lambda _: 2.0)
    assert seconds(sent) == [0, 2, 4, 6]
    assert all(request.deadline_ps - request.arrival_ps == PS_PER_S // 2 for request in sent)


def test_all_at_once_with_a_limit_is_a_closed_loop(bench: dict[str, Any], stream_of: Build) -> None:
    content = {**bench, "arrivals": {"rate_per_s": "inf"}, "max_concurrency": 5}
    loop = {**bench, "arrivals": {"process": "closed-loop", "concurrency": 5}}

    def times(workload: dict[str, Any]) -> list[tuple[int, int]]:
        sent = served(stream_of(workload, requests=200), lambda request: request.output_tokens / 100)
        return [(request.id, request.arrival_ps) for request in sent]

    assert times(content) == times(loop)


@pytest.mark.parametrize("most", [1, 3, 16, 1000])
def test_it_is_a_queue_with_so_many_servers(most: int, bench: dict[str, Any], stream_of: Build) -> None:
    """Sending times are those of a queue with ``most`` servers, served in order of arrival."""
    free = stream_of(bench, requests=300)
    arrivals = [request.arrival_ps for request in free]
    sent = served(stream_of({**bench, "max_concurrency": most}, requests=300), lambda r: r.output_tokens / 100)
    servers = [0] * most
    for request, arrival in zip(sent, arrivals, strict=True):
        start = max(arrival, heappop(servers))
        # A follow-up comes at least a picosecond after what it follows.
        assert 0 <= request.arrival_ps - start <= 300
        heappush(servers, request.arrival_ps + round(request.output_tokens / 100 * PS_PER_S))
    assert all(a.arrival_ps <= b.arrival_ps for a, b in pairwise(sent))


def test_what_requests_are_does_not_depend_on_the_limit(bench: dict[str, Any], stream_of: Build) -> None:
    def contents(**more: Any) -> list[tuple[int, int, int]]:
        sent = served(stream_of({**bench, **more}, requests=100), lambda _: 5.0)
        return sorted((request.id, request.prompt_tokens, request.output_tokens) for request in sent)

    assert contents() == contents(max_concurrency=3) == contents(max_concurrency=30)


def test_a_refused_request_frees_its_place(bench: dict[str, Any], stream_of: Build) -> None:
    content = {**bench, "arrivals": {"process": "constant", "rate_per_s": 1}, "max_concurrency": 1}
    assert seconds(served(stream_of(content, requests=4), lambda _: 3.0, lose=1)) == [0, 3, 3, 6]


def test_nothing_is_sent_after_the_end(bench: dict[str, Any], stream_of: Build) -> None:
    content = {**bench, "arrivals": {"process": "constant", "rate_per_s": 1}, "max_concurrency": 1}
    sent = served(stream_of(content, duration_ps=8 * PS_PER_S), lambda _: 3.0)
    assert seconds(sent) == [0, 3, 6]


def test_a_trace_goes_through_the_limit_too(stream_of: Build, tmp_path: Any) -> None:
    rows = "".join(f"2023-11-16 18:00:0{second}.0000000,100,10\n" for second in range(4))
    (tmp_path / "t.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    stream = stream_of({"trace": {"path": "t.csv"}, "max_concurrency": 1})
    assert seconds(served(stream, lambda _: 2.0)) == [0, 2, 4, 6]
    assert stream.trace_counts is not None
    assert stream.max_tokens_seen == 110


def test_how_many_at_once_must_be_said(bench: dict[str, Any], stream_of: Build) -> None:
    with pytest.raises(ScenarioError, match="how many") as caught:
        stream_of({**bench, "arrivals": {"rate_per_s": "inf"}}, duration_ps=PS_PER_S)
    assert caught.value.path == "run.requests"
