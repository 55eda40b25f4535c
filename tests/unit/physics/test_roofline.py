"""The rounded maximum, the all-reduce table, and the count of distinct experts."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from servetwin.catalog import Catalog
from servetwin.physics.collectives import AllReduce, ring_time, wire_bound
from servetwin.physics.moe import distinct_experts
from servetwin.physics.roofline import picoseconds, roofline, rounded_max


def test_rounded_max_lies_between_the_maximum_and_the_sum() -> None:
    for memory, compute in ((1.0, 0.0), (0.0, 2.0), (1.0, 1.0), (3.0, 1.0), (1e-6, 1e-3)):
        value = rounded_max(memory, compute, 3.0)
        assert max(memory, compute) <= value <= memory + compute + 1e-18
    assert rounded_max(1.0, 1.0, 3.0) == pytest.approx(2 ** (1 / 3))
    assert rounded_max(1.0, 1.0, 1.0) == pytest.approx(2.0)
    assert rounded_max(5.0, 1.0, 64.0) == pytest.approx(5.0)


def test_an_operator_names_the_larger_bound() -> None:
    memory = roofline(1e9, 1.0, bandwidth=1e12, arithmetic=1e15, power=3, launch_s=4e-6)
    compute = roofline(1.0, 1e12, bandwidth=1e12, arithmetic=1e15, power=3)
    assert (memory.seconds, memory.compute_bound) == (pytest.approx(1.004e-3), False)
    assert (compute.seconds, compute.compute_bound) == (pytest.approx(1e-3), True)


def test_picoseconds_round_up() -> None:
    assert picoseconds(1.2e-12) == 2
    assert picoseconds(0.0) == 0


def test_all_reduce_meets_its_measurements_and_rises_between_them() -> None:
    catalog = Catalog()
    gpu, calibration = catalog.gpu("h100-sxm"), catalog.calibration("default")
    for gpus, table in gpu.all_reduce:
        reduce = AllReduce(gpu, gpus, calibration)
        for size, seconds in table:
            assert reduce.seconds(size) == pytest.approx(max(seconds, size / 450e9))
        sizes = [2.0**exponent for exponent in range(8, 34)]
        times = [reduce.seconds(size) for size in sizes]
        assert times == sorted(times)
        assert all(time >= wire_bound(size, gpus, 450e9) for time, size in zip(times, sizes, strict=True))


def test_all_reduce_above_the_table_grows_with_the_size() -> None:
    catalog = Catalog()
    reduce = AllReduce(catalog.gpu("h100-sxm"), 2, catalog.calibration("default"))
    big = 2**30
    slope = (reduce.seconds(8 * big) - reduce.seconds(4 * big)) / (4 * big)
    assert slope == pytest.approx((3219.22e-6 - 468.76e-6) / (2**30 - 2**27), rel=1e-6)


def test_all_reduce_of_one_gpu_is_free_and_a_share_of_the_link_costs() -> None:
    catalog = Catalog()
    gpu, calibration = catalog.gpu("h100-sxm"), catalog.calibration("default")
    assert AllReduce(gpu, 1, calibration).seconds(2**20) == 0.0
    reduce = AllReduce(gpu, 4, calibration)
    assert reduce.seconds(0) == 0.0
    assert reduce.seconds(2**26, share=0.5) == pytest.approx(reduce.seconds(2**27))


def test_all_reduce_without_a_measurement_uses_the_ring() -> None:
    catalog = Catalog()
    calibration = catalog.calibration("default")
    gpu = dataclasses.replace(catalog.gpu("h100-sxm"), all_reduce=())
    expected = 2 * calibration.link_latency_s + ring_time(2**24, 4, 450e9) / calibration.link_efficiency
    assert AllReduce(gpu, 4, calibration).seconds(2**24) == pytest.approx(expected)


def test_distinct_experts_is_the_mean_of_independent_choices_without_overlap() -> None:
    draw = random.Random(3)
    experts, top_k, tokens, rounds = 16, 2, 12, 4_000
    counts = [len({e for _ in range(tokens) for e in draw.sample(range(experts), top_k)}) for _ in range(rounds)]
    mean = sum(counts) / rounds
    error = 4 * math.sqrt(sum((c - mean) ** 2 for c in counts) / rounds / rounds)
    assert abs(distinct_experts(tokens, experts, top_k, 0.0) - mean) < error


@pytest.mark.parametrize(("experts", "top_k"), [(8, 2), (16, 1), (128, 8), (256, 8), (4, 4)])
def test_distinct_experts_lies_between_one_token_and_all(experts: int, top_k: int) -> None:
    assert distinct_experts(0, experts, top_k, 4.8) == 0.0
    assert distinct_experts(1, experts, top_k, 4.8) == top_k
    counts = [distinct_experts(tokens, experts, top_k, 4.8) for tokens in range(1, 3_000, 7)]
    assert counts == sorted(counts)
    assert counts[-1] == pytest.approx(experts, rel=1e-3)
    assert distinct_experts(20, experts, top_k, 4.8) <= distinct_experts(20, experts, top_k, 0.0)
