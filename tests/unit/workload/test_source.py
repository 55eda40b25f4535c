"""The source in a simulation: order, events, follow-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import simpy

from servetwin.kernel import BOUNDARY, FAULT, events_popped, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import Request
from servetwin.units import PS_PER_S
from servetwin.workload.source import Source
from servetwin.workload.stream import RequestStream

Build = Callable[..., RequestStream]


class Scripted(RequestStream):
    """Arrivals and follow-ups as written down."""

    def __init__(self, arrivals: list[int], follow: Callable[[Request, int], Request | None] | None = None) -> None:
        super().__init__(None)
        self._arrivals = arrivals
        self._follow = follow

    def __iter__(self) -> Iterator[Request]:
        return (Request(number, at, 1, 1) for number, at in enumerate(self._arrivals))

    def on_finished(self, request: Request, visible_ps: int) -> list[Request]:
        follow = self._follow(request, visible_ps) if self._follow else None
        return [] if follow is None else [follow]


class Lab:
    """A source, a server that finishes each request after a fixed time, and a log."""

    def __init__(self, stream: RequestStream, service_ps: int | None = None, visible_ps: int = 0) -> None:
        self.env: simpy.Environment = new_environment()
        self.log: list[tuple[int, int]] = []
        self.requests: list[Request] = []
        self.in_flight = self.most_in_flight = 0
        self._service_ps = service_ps
        self._visible_ps = visible_ps
        self.source = Source(self.env, stream, self.submit)

    def submit(self, request: Request) -> None:
        assert request.arrival_ps == self.env.now
        self.log.append((int(self.env.now), request.id))
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self._service_ps is not None:
            end = int(self.env.now) + self._service_ps
            call_at(self.env, end, priority(BOUNDARY), lambda: self.end(request))

    def end(self, request: Request) -> None:
        self.in_flight -= 1
        self.source.finished(request, int(self.env.now) + self._visible_ps)


def test_one_event_per_instant() -> None:
    lab = Lab(Scripted([0, 0, 5, 5, 5, 9]))
    assert not lab.source.exhausted
    lab.env.run()
    assert lab.log == [(0, 0), (0, 1), (5, 2), (5, 3), (5, 4), (9, 5)]
    assert lab.source.exhausted
    assert events_popped(lab.env) == 3, "one for each instant"


def test_an_empty_stream_does_nothing() -> None:
    lab = Lab(Scripted([]))
    lab.env.run()
    assert lab.log == []
    assert lab.source.exhausted


def test_arrivals_come_after_faults_and_before_boundaries() -> None:
    seen: list[str] = []
    env = new_environment()
    call_at(env, 0, priority(BOUNDARY), lambda: seen.append("boundary"))
    call_at(env, 0, priority(FAULT), lambda: seen.append("fault"))
    Source(env, Scripted([0]), lambda request: seen.append("arrival"))
    env.run()
    assert seen == ["fault", "arrival", "boundary"]


def test_follow_ups_shorten_the_nap_and_merge_by_time_and_id() -> None:
    plan = {0: (100, 30), 1: (101, 50), 2: (7, 50)}

    def follow(request: Request, visible_ps: int) -> Request | None:
        if request.id not in plan:
            return None
        number, at = plan[request.id]
        return Request(number, at, 1, 1)

    arrivals = [0, 0, 0, 50, 80]
    lab = Lab(Scripted(arrivals, follow), service_ps=10)
    lab.env.run()
    assert lab.log == [(0, 0), (0, 1), (0, 2), (30, 100), (50, 3), (50, 7), (50, 101), (80, 4)]


def test_a_follow_up_comes_at_least_a_picosecond_after_the_boundary() -> None:
    def follow(request: Request, visible_ps: int) -> Request | None:
        return Request(request.id + 1, visible_ps, 1, 1, deadline_ps=visible_ps + 100) if request.id < 3 else None

    lab = Lab(Scripted([0], follow), service_ps=10)
    lab.env.run()
    assert lab.log == [(0, 0), (11, 1), (22, 2), (33, 3)]
    assert lab.requests[1].deadline_ps == 111, "the deadline moves along"
    late = Lab(Scripted([0], follow), service_ps=10, visible_ps=5)
    late.env.run()
    assert [at for at, _ in late.log] == [0, 15, 30, 45], "later than the boundary it is left alone"


def test_a_follow_up_wakes_a_source_that_has_nobody_left() -> None:
    lab = Lab(Scripted([0], lambda request, at: Request(9, at + 7, 1, 1) if request.id == 0 else None), 10)
    lab.env.run()
    assert lab.log == [(0, 0), (17, 9)]


def test_a_request_may_end_while_it_is_submitted() -> None:
    env = new_environment()
    log: list[tuple[int, int]] = []

    def refuse(request: Request) -> None:
        log.append((int(env.now), request.id))
        request.outcome = "rejected"
        source.finished(request, int(env.now))

    follow = Scripted([0, 0, 1], lambda r, at: Request(r.id + 10, at, 1, 1) if r.id < 10 else None)
    source = Source(env, follow, refuse)
    env.run()
    assert log == [(0, 0), (0, 1), (1, 2), (1, 10), (1, 11), (2, 12)]


@pytest.mark.parametrize("think", [0, {"distribution": "exponential", "mean": 0.5}])
def test_a_closed_loop_never_exceeds_its_concurrency(bench: dict[str, Any], stream_of: Build, think: Any) -> None:
    bench["arrivals"] = {"process": "closed-loop", "concurrency": 5, "think_time_s": think}
    lab = Lab(stream_of(bench, requests=500), service_ps=PS_PER_S // 3)
    lab.env.run()
    assert len(lab.log) == 500
    assert lab.most_in_flight == 5
    assert sorted(number for _, number in lab.log) == list(range(500))


def test_sessions_in_a_simulation(bench: dict[str, Any], stream_of: Build) -> None:
    bench["sessions"] = {"turns": 4, "think_time_s": {"distribution": "exponential", "mean": 2}}
    lab = Lab(stream_of(bench, requests=400), service_ps=PS_PER_S, visible_ps=3)
    lab.env.run()
    assert len(lab.log) == 400
    assert [at for at, _ in lab.log] == sorted(at for at, _ in lab.log)
    arrivals = {(r.session_id, r.turn): r.arrival_ps for r in lab.requests}
    for (session, turn), at in arrivals.items():
        if turn:
            assert at >= arrivals[session, turn - 1] + PS_PER_S + 3
    assert lab.source.exhausted


def test_a_hundred_clients_refused_at_once_do_not_spin(bench: dict[str, Any], stream_of: Build) -> None:
    bench["arrivals"] = {"process": "closed-loop", "concurrency": 100}
    env = new_environment()
    seen = 0

    def refuse(request: Request) -> None:
        nonlocal seen
        seen += 1
        assert seen <= 1_000, "each client once a second"
        request.outcome = "rejected"
        source.finished(request, int(env.now))

    source = Source(env, stream_of(bench, duration_ps=10 * PS_PER_S), refuse)
    env.run()
    assert seen == 1_000
    assert events_popped(env) < 50


def test_the_bench_workload_costs_one_event_per_request(bench: dict[str, Any], stream_of: Build) -> None:
    lab = Lab(stream_of(bench, requests=3_000))
    lab.env.run()
    assert events_popped(lab.env) == 3_000
