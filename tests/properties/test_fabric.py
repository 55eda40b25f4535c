"""Flows: max-min fair by the definition, conserved to the byte, never faster than the wire."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from tests.reference.naive_fabric import Transfer, arrivals, rates
from tests.unit.fabric.networks import Network

from servetwin.fabric.fairness import RATE_UNIT, fair_rates
from servetwin.fabric.flows import Occupant

LINKS = 5
paths = st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=3, unique=True).map(tuple)
capacities = st.lists(st.integers(1, 20), min_size=LINKS, max_size=LINKS)
latencies_ns = st.lists(st.sampled_from([0, 0, 1, 7, 1000]), min_size=LINKS, max_size=LINKS)
transfers = st.lists(
    st.tuples(st.integers(0, 30), paths, st.integers(1, 40)).map(lambda t: Transfer(t[0] * 1000, t[1], t[2] * 1000)),
    min_size=1,
    max_size=8,
)
occupants = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 30), paths).map(lambda t: (t[0] * 1000, (t[0] + t[1]) * 1000, t[2])),
    max_size=2,
)

GB = 10**9


def network_of(speeds: Sequence[int], delays_ns: Sequence[int]) -> Network:
    return Network([(speed * GB, delay * 1e-9) for speed, delay in zip(speeds, delays_ns, strict=True)])


def simulate(
    network: Network, flows: Sequence[Transfer], busy: Sequence[tuple[int, int, tuple[int, ...]]] = ()
) -> list[int]:
    found: dict[int, Occupant] = {}
    for number, (start, end, path) in enumerate(busy):

        def occupy(number: int = number, path: tuple[int, ...] = path) -> None:
            found[number] = network.fabric.occupy(path, number, lambda _cause: None)

        network.at(start, occupy)
        network.at(end, lambda number=number: network.fabric.release(found[number]))
    for number, flow in enumerate(flows):
        network.send(flow.start_ps, str(number), flow.path, flow.size, number)
    ends = network.run()
    return [ends[str(number)] for number in range(len(flows))]


@given(st.lists(st.tuples(paths, st.integers(1, 6)), min_size=1, max_size=6, unique_by=lambda d: d[0]), capacities)
def test_every_flow_has_a_bottleneck(demands: list[tuple[tuple[int, ...], int]], speeds: list[int]) -> None:
    """The definition: no link is overfull, and every flow crosses a full one on which none is faster."""
    found = fair_rates(demands, [speed * RATE_UNIT for speed in speeds], {})
    exact = [Fraction(rate, RATE_UNIT) for rate in found]
    load = [
        sum(rate * flows for rate, (path, flows) in zip(exact, demands, strict=True) if link in path)
        for link in range(LINKS)
    ]
    for link, speed in enumerate(speeds):
        assert load[link] <= speed
    for rate, (path, _) in zip(exact, demands, strict=True):
        fastest = {link: max(r for r, (other, _) in zip(exact, demands, strict=True) if link in other) for link in path}
        assert any(speeds[link] - load[link] < Fraction(1, 10**15) and fastest[link] == rate for link in path)


@given(st.lists(paths, min_size=1, max_size=8), capacities, st.lists(paths, max_size=2))
def test_rates_are_those_of_rising_water(
    flows: list[tuple[int, ...]], speeds: list[int], busy: list[tuple[int, ...]]
) -> None:
    others: dict[int, int] = {}
    for path in busy:
        for link in path:
            others[link] = others.get(link, 0) + 1
    found = fair_rates([(path, 1) for path in flows], [speed * RATE_UNIT for speed in speeds], others)
    expected = rates(flows, dict(enumerate(speeds)), busy)
    assert [Fraction(rate, RATE_UNIT) for rate in found] == expected


@given(transfers, capacities, latencies_ns, occupants)
def test_arrivals_are_those_of_the_definition(
    flows: list[Transfer],
    speeds: list[int],
    delays_ns: list[int],
    busy: list[tuple[int, int, tuple[int, ...]]],
) -> None:
    expected = arrivals(
        flows,
        {link: speed * GB for link, speed in enumerate(speeds)},
        {link: delay * 1000 for link, delay in enumerate(delays_ns)},
        busy,
    )
    assert simulate(network_of(speeds, delays_ns), flows, busy) == expected


@given(transfers, capacities, latencies_ns)
def test_bytes_are_conserved_and_a_transfer_costs_two_events(
    flows: list[Transfer], speeds: list[int], delays_ns: list[int]
) -> None:
    network = network_of(speeds, delays_ns)
    simulate(network, flows)
    for link in range(LINKS):
        assert network.fabric.bytes_sent(link) == sum(flow.size for flow in flows if link in flow.path)
    assert network.events <= 2 * len(flows)


@given(transfers, capacities, latencies_ns, occupants)
def test_no_flow_beats_its_slowest_link(
    flows: list[Transfer],
    speeds: list[int],
    delays_ns: list[int],
    busy: list[tuple[int, int, tuple[int, ...]]],
) -> None:
    network = network_of(speeds, delays_ns)
    ends = simulate(network, flows, busy)
    # An occupant is told when a flow has been sent: an event more; and it may shift the next end when it comes or goes.
    assert network.events <= 3 * len(flows) + 2 * len(busy)
    for flow, end in zip(flows, ends, strict=True):
        latency = sum(delays_ns[link] for link in flow.path) * 1000
        assert end - flow.start_ps - latency >= Fraction(flow.size * 10**12, min(speeds[i] for i in flow.path) * GB)


@given(st.permutations(list(range(6))), st.lists(st.tuples(paths, st.integers(1, 4)), min_size=6, max_size=6))
def test_the_order_of_insertion_does_not_matter(order: list[int], flows: list[tuple[tuple[int, ...], int]]) -> None:
    """Neither for the times, nor for who is told first; many of these flows end at the same instant."""

    def run(sequence: Sequence[int]) -> list[tuple[str, int]]:
        network = network_of([6, 6, 10, 12, 20], [0] * LINKS)
        for number in sequence:
            path, size = flows[number]
            network.at(
                0,
                lambda number=number, path=path, size=size: network.fabric.send(
                    path, size * 6000, lambda: network.ends.update({str(number): network.env.now}), number
                ),
            )
        return list(network.run().items())

    assert run(order) == run(range(6))


@given(paths, st.integers(1, 10**6), capacities, latencies_ns, st.integers(0, LINKS - 1), st.integers(1, 50))
def test_more_bandwidth_and_fewer_links_never_take_longer(
    path: tuple[int, ...], size: int, speeds: list[int], delays_ns: list[int], which: int, more: int
) -> None:
    def time_of(speeds: Sequence[int], path: tuple[int, ...]) -> int:
        return simulate(network_of(speeds, delays_ns), [Transfer(0, path, size)])[0]

    alone = time_of(speeds, path)
    faster = list(speeds)
    faster[which] += more
    assert time_of(faster, path) <= alone
    if len(path) > 1:
        assert time_of(speeds, path[1:]) <= alone
