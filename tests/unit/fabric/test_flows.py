"""Flows that share links, worked by hand."""

from __future__ import annotations

import pytest
from tests.unit.fabric.networks import GB, MS, Network

from servetwin.errors import InvariantError


def test_a_flow_alone_takes_latency_and_bytes_by_bandwidth() -> None:
    """1 GB at 50 GB/s is 20 ms, and two links of 5 µs."""
    network = Network([(50 * GB, 5e-6), (100 * GB, 5e-6)])
    network.send(0, "a", (0, 1), GB)
    assert network.run() == {"a": 20 * MS + 10_000_000}
    assert network.events == 1


def test_staggered_flows_over_one_link() -> None:
    """Capacity 10 GB/s. From 0 to 100 ms A alone sends 1 of its 3 GB; then both have 5 GB/s. B's 1 GB takes 200 ms,
    until 300 ms, when A has 1 GB left, which takes 100 ms alone."""
    network = Network([(10 * GB, 0)])
    network.send(0, "a", (0,), 3 * GB)
    network.send(100 * MS, "b", (0,), GB)
    assert network.run() == {"b": 300 * MS, "a": 400 * MS}


def test_three_flows_over_a_tree() -> None:
    """Leaves of 10 GB/s under a trunk of 12: A and B on leaf 0, C on leaf 1, all over trunk 2.

    Each may have 4 on the trunk; the leaf would give A and B 5. C ends first (1 GB at 4 GB/s: 250 ms). Then the
    leaf binds, 5 each: A and B have 2 GB left of 3, which takes 400 ms.
    """
    network = Network([(10 * GB, 0), (10 * GB, 0), (12 * GB, 0)])
    network.send(0, "a", (0, 2), 3 * GB)
    network.send(0, "b", (0, 2), 3 * GB)
    network.send(0, "c", (1, 2), GB)
    assert network.run() == {"c": 250 * MS, "a": 650 * MS, "b": 650 * MS}


def test_who_is_limited_elsewhere_leaves_the_rest_to_others() -> None:
    """A crosses a link of 2 GB/s and one of 10; B has the other 8 of the latter."""
    network = Network([(2 * GB, 0), (10 * GB, 0)])
    network.send(0, "a", (0, 1), GB)
    network.send(0, "b", (1,), 4 * GB)
    assert network.run() == {"a": 500 * MS, "b": 500 * MS}


def test_the_end_of_a_flow_may_slow_another_one_down() -> None:
    """Links of 6, 9 and 12 GB/s. A: 0, B: 0 and 1, C: 1.

    A and B share link 0, 3 each, and C has 6 of link 1. A has 1.5 GB: it ends at 500 ms. Now link 1 binds: B and C
    have 4.5 each, so C is slower than before. B sent 1.5 of 3.75 GB: 500 ms more. C sent 3 of 9.75; at 1,000 ms it
    has 4.5 left, which takes 500 ms at 9 GB/s.
    """
    network = Network([(6 * GB, 0), (9 * GB, 0)])
    network.send(0, "a", (0,), 3 * GB // 2)
    network.send(0, "b", (0, 1), 15 * GB // 4)
    network.send(0, "c", (1,), 39 * GB // 4)
    assert network.run() == {"a": 500 * MS, "b": 1000 * MS, "c": 1500 * MS}


@pytest.mark.parametrize(("flows", "late_ps"), [(64, 0), (100, 1)])
def test_a_bundle_shares_equally_and_ends_by_length(flows: int, late_ps: int) -> None:
    """Flows of 1, 2, … MB over 10 GB/s: the k-th ends when each of those that are left has sent one more MB.

    Up to 64 flows the shares are exact, beyond that an end may be one picosecond late.
    """
    network = Network([(10 * GB, 0)])
    for k in range(1, flows + 1):
        network.send(0, str(k), (0,), k * 10**6)
    ends = network.run()
    clock = 0
    for k in range(1, flows + 1):
        clock += (flows + 1 - k) * MS // 10
        assert clock <= ends[str(k)] <= clock + late_ps
    assert network.events <= 2 * flows


def test_an_end_is_rounded_up() -> None:
    """10 B at 3 GB/s are 3333.3 ps."""
    network = Network([(3 * GB, 0)])
    network.send(0, "a", (0,), 10)
    assert network.run() == {"a": 3334}


def test_flows_that_share_no_link_do_not_touch_each_other() -> None:
    network = Network([(10 * GB, 0), (10 * GB, 0)])
    network.send(0, "a", (0,), GB)
    network.send(0, "b", (1,), GB)
    assert network.run() == {"a": 100 * MS, "b": 100 * MS}
    assert network.events == 1


def test_nothing_to_send_takes_the_latency() -> None:
    network = Network([(10 * GB, 1e-6)])
    network.send(7, "empty", (0,), 0)
    network.send(7, "nowhere", (), GB)
    assert network.run() == {"nowhere": 7, "empty": 1_000_007}


def test_simultaneous_ends_are_told_by_index() -> None:
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        network = Network([(10 * GB, 0)])
        for index in order:
            network.send(0, str(index), (0,), GB, index)
        assert list(network.run()) == ["0", "1", "2"]


def test_a_flow_may_start_another_one_by_its_end() -> None:
    network = Network([(10 * GB, 0)])

    def again() -> None:
        network.fabric.send((0,), GB, lambda: network.ends.update(second=network.env.now))

    network.at(0, lambda: network.fabric.send((0,), GB, again))
    assert network.run() == {"second": 200 * MS}


def test_the_flow_that_departs_first_need_not_arrive_first() -> None:
    """A departs at 200 ms, and its path has 1 s of latency; B departs at 300 ms and arrives at once.

    Three events: the two ends, and the one that A would have had without B.
    """
    network = Network([(10 * GB, 0), (100 * GB, 1.0)])
    network.send(0, "a", (0, 1), GB)
    network.send(0, "b", (0,), 2 * GB)
    assert network.run() == {"b": 300 * MS, "a": 200 * MS + 1000 * MS}
    assert network.events == 3


def test_bytes_and_utilisation_of_a_link() -> None:
    network = Network([(10 * GB, 0), (4 * GB, 0)])
    network.send(0, "a", (0, 1), GB)
    network.send(100 * MS, "b", (0,), GB)
    network.at(200 * MS, lambda: network.ends.update(half=network.fabric.bytes_sent(0)))
    network.run()
    assert network.ends["half"] == 800_000_000 + 600_000_000
    first, second = network.fabric.links
    assert network.fabric.bytes_sent(0) == 2 * GB
    assert network.fabric.bytes_sent(1) == GB
    # A has 4 GB/s until it ends at 250 ms; B has 6 then, has sent 0.9 GB by 250 ms, and ends 10 ms later.
    assert list(zip(first.change_times_ps, first.change_rates, strict=True)) == [
        (0, 4 * GB), (100 * MS, 10 * GB), (260 * MS, 0),
    ]  # fmt: skip
    assert list(zip(second.change_times_ps, second.change_rates, strict=True)) == [(0, 4 * GB), (250 * MS, 0)]


def test_the_audit_finds_a_lost_byte() -> None:
    network = Network([(10 * GB, 0)])
    network.send(0, "a", (0,), GB)
    network.run()
    network.fabric.links[0].bytes_finished -= 1
    with pytest.raises(InvariantError, match="link 0 has carried 1 bytes more"):
        network.fabric.audit()
