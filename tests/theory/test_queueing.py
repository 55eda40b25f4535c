"""The engine against queueing theory, with confidence intervals: never against the number of a seed."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from tests.theory.queue import batch_means, observe

SERVICE_S = 1.0
TOKENS = 1_000_000  # tokens of a mean prompt: the service time is as good as continuous
TOKEN_PS = round(SERVICE_S * 1e12 / TOKENS)
REQUESTS = 40_000


def _poisson(rng: np.random.Generator, rate: float, count: int = REQUESTS) -> np.ndarray:
    return np.cumsum(rng.exponential(1 / rate, count))


def _single_server(rng: np.random.Generator, load: float, service: np.ndarray) -> tuple[float, float]:
    """Mean wait of an M/G/1 queue and the half-width of its interval; a request is one prefill step."""
    prompts = np.maximum(1, np.rint(service * TOKENS)).astype(np.int64)
    observed = observe(_poisson(rng, load), prompts, np.ones(REQUESTS, int), 1, 0, TOKEN_PS)
    return batch_means(observed.wait_s[REQUESTS // 20 :])


@pytest.mark.parametrize("load", [0.3, 0.6])
@pytest.mark.parametrize(
    ("law", "second_moment"), [("deterministic", 1.0), ("exponential", 2.0), ("lognormal", float(np.exp(0.49)))]
)
def test_wait_of_a_single_server_is_pollaczek_khinchine(load: float, law: str, second_moment: float) -> None:
    """M/D/1, M/M/1 and M/G/1: W = λ E[S²] / (2 (1 − ρ))."""
    rng = np.random.default_rng([7, round(10 * load)])
    service = {
        "deterministic": np.ones(REQUESTS),
        "exponential": rng.exponential(1.0, REQUESTS),
        "lognormal": rng.lognormal(-0.245, 0.7, REQUESTS),
    }[law]
    mean, half_width = _single_server(rng, load, service)
    theory = load * second_moment / (2 * (1 - load))
    assert half_width < 0.25 * theory, "the interval is too wide to say anything"
    assert abs(mean - theory) <= half_width


@pytest.mark.parametrize(("servers", "load"), [(2, 0.7), (8, 0.8)])
def test_wait_with_several_seats_is_erlang_c(servers: int, load: float) -> None:
    """M/M/c: requests of geometrically many short steps share an engine of c seats whose step time is constant.

    In continuous time, W = C(c, a) / (c μ − λ). Steps of a 400th of the service time let a request wait for the next
    boundary, half a step on average, which is added to the theory; the discrete service is allowed one step.
    """
    steps = 400
    step_s = SERVICE_S / steps
    rng = np.random.default_rng([11, servers])
    outputs = rng.geometric(1 / steps, REQUESTS)
    rate = load * servers / SERVICE_S
    observed = observe(_poisson(rng, rate), np.ones(REQUESTS, int), outputs, servers, round(step_s * 1e12), 0)
    mean, half_width = batch_means(observed.wait_s[REQUESTS // 20 :])
    offered = load * servers
    top = offered**servers / factorial(servers) / (1 - load)
    erlang_c = top / (sum(offered**k / factorial(k) for k in range(servers)) + top)
    theory = erlang_c * SERVICE_S / (servers - offered) + step_s / 2
    assert half_width < 0.3 * theory, "the interval is too wide to say anything"
    assert abs(mean - theory) <= half_width + step_s


def test_littles_law_holds_on_the_sample_path() -> None:
    """The time integral of the number in the system is the sum of the stays, as an identity."""
    rng = np.random.default_rng(13)
    count = 5_000
    observed = observe(
        _poisson(rng, 0.8, count), rng.integers(1, 2 * TOKENS, count), rng.integers(1, 5, count), 3, 10**9, TOKEN_PS
    )
    arrivals, departures = np.sort(observed.arrival_s), np.sort(observed.arrival_s + observed.stay_s)
    times = np.concatenate([arrivals, departures])
    changes = np.concatenate([np.ones(count), -np.ones(count)])
    order = np.argsort(times, kind="stable")
    number = np.cumsum(changes[order])[:-1]
    area = float((number * np.diff(times[order])).sum())
    horizon = float(departures[-1])
    rate = count / horizon
    assert area / horizon == pytest.approx(rate * float(observed.stay_s.mean()), rel=1e-9)
    assert number.max() > 1


def test_no_request_waits_while_a_seat_is_free() -> None:
    """At a vanishing load nobody waits for more than the step under way."""
    rng = np.random.default_rng(17)
    observed = observe(_poisson(rng, 0.001, 500), np.ones(500, int), np.full(500, 10), 8, 10**9, 0)
    assert float(observed.wait_s.max()) <= 1e-3
