"""The fleet's index agrees with looking at every replica."""

from __future__ import annotations

import random

import pytest

from servetwin.cluster.fleet import Fleet
from servetwin.cluster.protocols import REQUESTS, TOKENS
from servetwin.cluster.replica import Replica
from servetwin.request import Request


class _Clock:
    _now = 0


class _Engine:
    """An executor whose generated tokens grow by themselves."""

    def __init__(self, pace: int) -> None:
        self.pace = pace
        self.base = 0

    def generated(self, now: int) -> int:
        return self.base + now // self.pace

    def submit(self, request: Request) -> None:
        raise AssertionError("the fleet only looks")


@pytest.mark.parametrize("metric", [REQUESTS, TOKENS])
def test_least_is_the_true_minimum_with_ties_by_index(metric: str) -> None:
    """Random arrivals and ends over time; the heap answers as a scan would, at every instant."""
    rng = random.Random(5)
    clock = _Clock()
    engines = [_Engine(rng.randint(1, 9)) for _ in range(7)]
    fleet = Fleet(clock, [Replica(index, 0, engine) for index, engine in enumerate(engines)])
    inside: list[Request] = []
    for number in range(3_000):
        clock._now += rng.randint(0, 5)
        if inside and rng.random() < 0.49:
            request = inside.pop(rng.randrange(len(inside)))
            engines[request.replica].base -= rng.randint(0, 20)
            fleet.on_finished(request)
        else:
            request = Request(number, 0, rng.randint(1, 50), 1)
            request.replica = fleet.least(metric)
            inside.append(request)
            fleet.on_routed(request)
        values = [fleet.value(index, metric) for index in fleet.all()]
        assert fleet.least(metric) == values.index(min(values))
        if metric == REQUESTS:
            assert values == [sum(r.replica == index for r in inside) for index in range(7)]


def test_an_unknown_metric_is_named() -> None:
    """A router with a typing error hears which metrics there are."""
    fleet = Fleet(_Clock(), [Replica(0, 0, _Engine(1))])
    with pytest.raises(ValueError, match="requests, tokens"):
        fleet.value(0, "request")
