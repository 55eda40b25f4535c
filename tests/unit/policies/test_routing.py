"""Routing rules, worked by hand."""

from __future__ import annotations

from collections import Counter

from servetwin.policies import PolicyContext
from servetwin.policies.routing import LeastRequests, LeastTokens, PowerOfTwo, Random, RoundRobin
from servetwin.streams import Streams
from servetwin.testing import FakeFleet, make_request


def _context(seed: int = 0) -> PolicyContext:
    return PolicyContext(Streams(seed), replicas=4, seats=16)


class _FixedStreams(Streams):
    """Streams that hand out given numbers."""

    def __init__(self, *numbers: float) -> None:
        super().__init__(0)
        self._numbers = list(numbers)

    def uniforms(self, *name: str | int):  # type: ignore[no-untyped-def]
        return lambda: self._numbers.pop(0)


def test_round_robin_takes_replicas_in_turn_and_counts_only_what_was_routed() -> None:
    router, fleet = RoundRobin().build(_context()), FakeFleet([0, 0, 0], indices=[3, 5, 8])
    request = make_request(0)
    assert [router.choose(request, fleet) for _ in range(3)] == [3, 3, 3]
    chosen = []
    for _ in range(4):
        chosen.append(router.choose(request, fleet))
        router.on_routed(request, chosen[-1])
    assert chosen == [3, 5, 8, 3]


def test_random_is_uniform() -> None:
    router, fleet = Random().build(_context()), FakeFleet([9, 0, 0, 0])
    counts = Counter(router.choose(make_request(i), fleet) for i in range(8000))
    # Binomial with n = 8000, p = 1/4: standard deviation 38.7; five of them.
    assert all(abs(counts[replica] - 2000) < 194 for replica in range(4))


def test_random_maps_the_unit_interval_onto_the_fleet() -> None:
    context = PolicyContext(_FixedStreams(0.0, 0.249, 0.25, 0.999), replicas=4, seats=4)
    router, fleet = Random().build(context), FakeFleet([0, 0, 0, 0])
    assert [router.choose(make_request(i), fleet) for i in range(4)] == [0, 0, 1, 3]


def test_least_requests_breaks_ties_by_index() -> None:
    assert LeastRequests().build(_context()).choose(make_request(0), FakeFleet([4, 2, 2, 3])) == 1


def test_least_tokens_looks_at_tokens_not_at_requests() -> None:
    fleet = FakeFleet([1, 9], tokens=[5000, 900])
    assert LeastTokens().build(_context()).choose(make_request(0), fleet) == 1


def test_power_of_two_draws_two_different_replicas_and_takes_the_better() -> None:
    # 0.6 of 4 replicas is place 2; 0.7 of the 3 others is place 2, which is replica 3.
    context = PolicyContext(_FixedStreams(0.6, 0.7), replicas=4, seats=4)
    assert PowerOfTwo().build(context).choose(make_request(0), FakeFleet([0, 0, 5, 4])) == 3
    # 0.6 → replica 2; 0.1 of the others → replica 0, which has more.
    context = PolicyContext(_FixedStreams(0.6, 0.1), replicas=4, seats=4)
    assert PowerOfTwo().build(context).choose(make_request(0), FakeFleet([6, 0, 5, 4])) == 2


def test_power_of_two_gives_a_tie_to_the_first_drawn() -> None:
    context = PolicyContext(_FixedStreams(0.6, 0.1), replicas=4, seats=4)
    assert PowerOfTwo().build(context).choose(make_request(0), FakeFleet([5, 5, 5, 5])) == 2


def test_power_of_two_never_takes_the_single_most_loaded_replica() -> None:
    router, fleet = PowerOfTwo().build(_context()), FakeFleet([1, 1, 9, 1])
    counts = Counter(router.choose(make_request(i), fleet) for i in range(3000))
    assert counts[2] == 0
    assert min(counts[0], counts[1], counts[3]) > 850


def test_power_of_two_by_tokens() -> None:
    router, fleet = PowerOfTwo(metric="tokens").build(_context()), FakeFleet([1, 9], tokens=[70, 60])
    assert router.choose(make_request(0), fleet) == 1


def test_routers_draw_from_streams_of_their_own() -> None:
    first, second = Streams(7), Streams(7)
    second.uniforms("router", "power-of-two")()
    fleet = FakeFleet([0, 0, 0, 0])
    one = Random().build(PolicyContext(first, 4, 4))
    two = Random().build(PolicyContext(second, 4, 4))
    assert [one.choose(make_request(i), fleet) for i in range(50)] == [
        two.choose(make_request(i), fleet) for i in range(50)
    ]
