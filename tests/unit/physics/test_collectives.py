"""Collectives by hand: inside a domain, across domains, and who talks to whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from servetwin.catalog import Catalog
from servetwin.physics.collectives import AllGather, AllReduce, Send, context_span, stage_span, tensor_span
from servetwin.physics.collectives.bounds import gather_bound, gathered_bound, reduce_bound
from servetwin.scenario.slowdown import slow_down, slow_span
from servetwin.specs.span import Span

CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")
H100, A100 = CATALOG.gpu("h100-sxm"), CATALOG.gpu("a100-sxm-80gb")
MIB = 2**20


def span(gpus: int, domains: int, inside: float = 450e9, across: float = 50e9, latency: float = 5e-6) -> Span:
    """Equal parts in ``domains`` domains."""
    return Span(gpus, domains, (gpus // domains,) * domains, inside, across, latency)


@pytest.mark.parametrize("size", [100, 64 * 1024, 2 * MIB, 300 * MIB])
def test_a_span_of_one_domain_is_what_no_span_is(size: int) -> None:
    one = Span(8, 1, (8,), 450e9)
    for kind in (AllReduce, AllGather):
        alone, placed = kind(H100, 8, CALIBRATION), kind(H100, 8, CALIBRATION, one)
        assert alone.seconds(size) == placed.seconds(size)
        assert alone.seconds(size, 0.4) == placed.seconds(size, 0.4)
        assert alone.algorithm(size) == "measured"
        assert alone.bound(size) == placed.bound(size) <= alone.seconds(size)


def test_one_gpu_and_no_bytes_cost_nothing() -> None:
    for kind in (AllReduce, AllGather):
        assert kind(H100, 1, CALIBRATION).seconds(MIB) == kind(H100, 1, CALIBRATION).bound(MIB) == 0.0
        assert kind(H100, 4, CALIBRATION).seconds(0) == 0.0
    assert Send(H100, CALIBRATION).seconds(0) == 0.0


def test_all_gather_meets_its_measurements_and_the_formula_stands_in() -> None:
    for gpus, table in H100.all_gather:
        gather = AllGather(H100, gpus, CALIBRATION)
        for size, seconds in table:
            assert gather.seconds(size) == pytest.approx(seconds)
    bare = replace(H100, all_gather=())
    gather = AllGather(bare, 4, CALIBRATION)
    expected = 2 * CALIBRATION.link_latency_s + 0.75 * MIB / 450e9 / CALIBRATION.link_efficiency
    assert gather.seconds(MIB) == pytest.approx(expected)
    assert gather.algorithm(MIB) == "formula"


def test_a_slower_domain_is_as_a_larger_message() -> None:
    slow = AllGather(H100, 8, CALIBRATION, Span(8, 1, (8,), 225e9))
    assert slow.seconds(8 * MIB) == pytest.approx(AllGather(H100, 8, CALIBRATION).seconds(16 * MIB))


def test_the_algorithms_across_servers_by_hand() -> None:
    """Two servers of four A100, whose switches do not add up; NICs of 25 GB/s."""
    lies = span(8, 2, 300e9, 25e9)
    reduce = AllReduce(A100, 8, CALIBRATION, lies)
    # Effective NICs: 0.72 · 0.75 · 25 = 13.5 GB/s each, four abreast; a step takes 5 + 15 us.
    size = 64 * MIB
    assert reduce.algorithm(size) == "ring"
    assert reduce.seconds(size) == pytest.approx(14 * 20e-6 + 2 * 7 / 8 * size / 54e9)
    small = 16 * 1024
    assert reduce.algorithm(small) == "tree"
    # Up and down one level of the tree, two doublings inside, and twice the bytes, each with a flag.
    assert reduce.seconds(small) == pytest.approx(2 * 20e-6 + 2 * 4e-6 + 4 * small / 54e9)
    gather = AllGather(A100, 8, CALIBRATION, lies)
    assert (gather.algorithm(size), gather.algorithm(small)) == ("ring", "ring-ll")
    assert gather.seconds(size) == pytest.approx(7 * 20e-6 + 7 / 8 * size / 54e9)
    assert gather.seconds(small) == pytest.approx(20e-6 + 8e-6 + 2 * 7 / 8 * small / 54e9)


def test_a_switch_that_adds_up_makes_large_messages_hierarchical() -> None:
    """Two servers of eight H100: both ways inside, and an eighth of the bytes through each NIC."""
    lies = span(16, 2)
    reduce = AllReduce(H100, 16, CALIBRATION, lies)
    size = 64 * MIB
    assert reduce.algorithm(size) == "hierarchical"
    inside_s = AllGather(H100, 8, CALIBRATION).seconds(size)
    assert reduce.seconds(size) == pytest.approx(2 * inside_s + 2 * (20e-6 + size / 8 / 27e9 / 2))
    without = AllReduce(replace(H100, switch_reduces=False), 16, CALIBRATION, lies)
    assert without.algorithm(size) == "ring"
    assert without.seconds(size) > 1.3 * reduce.seconds(size)


def test_the_smallest_domain_has_the_fewest_nics() -> None:
    uneven = AllReduce(A100, 8, CALIBRATION, replace(span(8, 2, 300e9, 25e9), per_domain=(7, 1)))
    even = AllReduce(A100, 8, CALIBRATION, span(8, 2, 300e9, 25e9))
    assert uneven.seconds(64 * MIB) > 3 * even.seconds(64 * MIB)


def test_bounds_by_hand() -> None:
    lies = span(16, 2)
    # Each server sends its sum of 64 MiB through eight NICs.
    assert reduce_bound(64 * MIB, lies) == pytest.approx(max(64 * MIB / 400e9, 64 * MIB / 500e9))
    # Half of the bytes is with the other server.
    assert gathered_bound(64 * MIB, lies) == pytest.approx(max(32 * MIB / 400e9, 15 / 16 * 64 * MIB / 500e9))
    assert gather_bound(64 * MIB, 4, 450e9) == pytest.approx(48 * MIB / 450e9)


def test_sends() -> None:
    inside, across = Send(H100, CALIBRATION), Send(H100, CALIBRATION, span(2, 2))
    assert inside.seconds(MIB) == pytest.approx(4e-6 + MIB / (0.78 * 450e9))
    assert across.seconds(MIB) == pytest.approx(20e-6 + MIB / 36e9)
    assert across.seconds(MIB, 0.5) == pytest.approx(20e-6 + MIB / 18e9)
    assert (inside.bound(MIB), across.bound(MIB)) == (MIB / 450e9, MIB / 50e9)
    assert Send(H100, CALIBRATION, Span(2, 1, (2,), 450e9)).seconds(MIB) == inside.seconds(MIB)


def test_who_talks_to_whom() -> None:
    """Two stages of two context groups of four ranks, in servers of eight and in servers of four."""
    servers, small = span(16, 2), span(16, 4)
    assert [lies.per_domain for lies in (tensor_span(servers, 4), tensor_span(small, 4))] == [(4,), (4,)]
    assert tensor_span(servers, 16) == servers
    assert context_span(servers, 4, 2) == Span(2, 1, (2,), 450e9)
    assert context_span(small, 4, 2) == replace(small, gpus=2, domains=2, per_domain=(1, 1))
    assert stage_span(servers, 8) == replace(servers, gpus=2, per_domain=(1, 1))
    assert stage_span(Span(16, 1, (16,), 450e9), 8).domains == 1
    assert stage_span(servers, 16).gpus == 1
    assert tensor_span(None, 4) is context_span(None, 4, 2) is stage_span(None, 8) is None


def test_the_worst_placed_group_counts() -> None:
    lies = Span(8, 2, (6, 2), 450e9, 50e9, 5e-6)
    assert tensor_span(lies, 4).per_domain == (2, 2)
    assert tensor_span(lies, 2).domains == 1
    assert tensor_span(replace(lies, per_domain=(7, 1)), 4).per_domain == (3, 1)


@pytest.mark.parametrize("domains", [1, 2])
def test_a_slowdown_multiplies_every_collective(domains: int) -> None:
    lies = span(8, domains)
    gpu, calibration = slow_down(H100, CALIBRATION, 3.0)
    for size in (100, 3 * MIB):
        for kind in (AllReduce, AllGather):
            plain, slow = kind(H100, 8, CALIBRATION, lies), kind(gpu, 8, calibration, slow_span(lies, 3.0))
            assert slow.seconds(size) == pytest.approx(3 * plain.seconds(size))
        slow_send = Send(gpu, calibration, slow_span(lies, 3.0))
        assert slow_send.seconds(size) == pytest.approx(3 * Send(H100, CALIBRATION, lies).seconds(size))
    assert slow_span(None, 3.0) is None
