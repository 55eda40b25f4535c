"""Replicas whose collectives use links: one more flow on each of them."""

from __future__ import annotations

from tests.unit.fabric.networks import GB, MS, Network

from servetwin.fabric.flows import FLOW, Fabric, Occupant
from servetwin.kernel import new_environment
from servetwin.specs import Link


def test_its_share_is_that_of_a_flow_on_its_fullest_link() -> None:
    """One flow on link 0, two on link 1: a third of link 1 is less than half of link 0."""
    network = Network([(10 * GB, 0), (10 * GB, 0)])
    seen: list[tuple[int, float]] = []
    occupants: list[Occupant] = []

    def occupy() -> None:
        occupants.append(network.fabric.occupy((0, 1), 3, note))
        note(FLOW)

    def note(cause: int) -> None:
        assert cause == FLOW
        seen.append((network.env.now, occupants[0].share))

    network.at(0, occupy)
    network.send(1 * MS, "a", (0,), 50_000_000)
    network.send(2 * MS, "b", (1,), 10_000_000)
    network.send(2 * MS, "c", (1,), 10_000_000)
    network.run()
    # A: 5 GB/s, so 10 ms. B and C: 10/3 GB/s each, so 3 ms.
    assert network.ends == {"b": 5 * MS, "c": 5 * MS, "a": 11 * MS}
    assert seen == [(0, 1.0), (1 * MS, 1 / 2), (2 * MS, 1 / 3), (5 * MS, 1 / 2), (11 * MS, 1.0)]


def test_a_flow_is_slower_while_a_replica_works() -> None:
    """10 GB/s, 1 GB: half of it alone (50 ms), then half the rate for 40 ms (0.2 GB), then 30 ms alone."""
    network = Network([(10 * GB, 0)])
    occupants: list[Occupant] = []
    network.send(0, "a", (0,), GB)
    network.at(50 * MS, lambda: occupants.append(network.fabric.occupy((0,))))
    network.at(90 * MS, lambda: network.fabric.release(occupants[0]))
    assert network.run() == {"a": 120 * MS}


def test_replicas_share_with_each_other_and_are_told_in_their_order() -> None:
    network = Network([(10 * GB, 0)])
    told: list[tuple[int, int, int, float]] = []
    occupants: dict[int, Occupant] = {}

    def occupy(index: int) -> None:
        occupants[index] = network.fabric.occupy(
            (0,), index, lambda cause: told.append((network.env.now, index, cause, occupants[index].share))
        )

    for index in (2, 0, 1):
        network.at(0, lambda index=index: occupy(index), index=5 - index)
    network.at(MS, lambda: network.fabric.release(occupants[0]))
    network.run()
    assert told[-2:] == [(MS, 1, 0, 1 / 2), (MS, 2, 0, 1 / 2)]
    assert [occupants[index].crowd for index in (1, 2)] == [2, 2]


def test_who_is_told_may_send_at_once() -> None:
    """A callback is outside the books: whatever it calls finds them in order."""
    network = Network([(10 * GB, 0)])
    network.at(0, lambda: network.fabric.occupy((0,), 0, again))
    sent: list[int] = []

    def again(cause: int) -> None:
        if len(sent) < 3:
            sent.append(network.env.now)
            network.fabric.send((0,), GB, lambda: None)

    network.send(MS, "a", (0,), GB)
    network.run()
    assert sent == [MS, MS, MS]
    assert network.fabric.ended == 4


def test_an_occupant_does_not_join_what_it_touches() -> None:
    """It uses two links; the flows on one of them get no slower by those on the other."""
    network = Network([(10 * GB, 0), (10 * GB, 0)])
    network.at(0, lambda: network.fabric.occupy((0, 1)))
    network.send(0, "a", (0,), GB)
    network.send(0, "b", (1,), GB)
    network.send(0, "c", (1,), GB)
    assert network.run() == {"a": 200 * MS, "b": 300 * MS, "c": 300 * MS}


def test_lanes_for_all_slow_nobody() -> None:
    """A link to the spine with four NICs below it: two of one replica, one of another, then two transfers."""
    env = new_environment()
    fabric = Fabric(env, [Link("spine-up", 4 * GB, lanes=4)])
    two, one = fabric.occupy((0, 0), 0), fabric.occupy((0,), 1)
    assert (two.share, one.share) == (1.0, 1.0)
    fabric.send((0,), GB, lambda: None)
    assert (two.share, one.share) == (1.0, 1.0)
    fabric.send((0,), GB, lambda: None)
    # Five users of four lanes: each has 0.8 GB/s, and all together what the link has.
    assert (two.share, one.share) == (4 / 5, 4 / 5)
    assert [link.rate for link in fabric.links] == [fabric.links[0].capacity * 2 // 5]
    env.run()
    assert (two.share, one.share, env.now) == (1.0, 1.0, 1250 * MS)
