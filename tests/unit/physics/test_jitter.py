"""Noise on step times: lognormal with mean 1, the same for the same step, never below the hardware."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.catalog import Catalog
from servetwin.physics.jitter import JitteredStepTime, StepNoise
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.streams import Streams

CATALOG = Catalog()


def exact(model: str = "llama-3.1-70b", tensor: int = 4) -> RooflineStepTime:
    return RooflineStepTime(
        CATALOG.model(model), CATALOG.gpu("h100-sxm"), tensor=tensor, weights="auto", kv_cache="bf16",
        sampling="greedy", calibration=CATALOG.calibration("default"),
    )  # fmt: skip


def shape(stretch: float, batch: int = 32, context: int = 700, chunks: Any = ()) -> StepShape:
    tokens = batch + sum(new for new, _ in chunks)
    return StepShape(
        tokens, tokens, not chunks, batch + len(chunks), batch, (batch * context,), (batch,), chunks, stretch=stretch
    )


def test_a_stretched_step_by_hand() -> None:
    plain, noisy = exact(), JitteredStepTime(exact())
    price = plain.price(shape(1.0))
    assert noisy.price(shape(1.0)).total_ps == price.total_ps
    longer = noisy.price(shape(1.5))
    assert longer.communication_ps == math.ceil(1.5 * price.communication_ps)
    assert longer.host_ps == math.ceil(1.5 * price.host_ps)
    busy = price.compute_ps + price.memory_ps
    assert longer.compute_ps + longer.memory_ps == math.ceil(1.5 * busy)
    assert longer.compute_ps / longer.memory_ps == pytest.approx(price.compute_ps / price.memory_ps, rel=1e-6)


def test_no_step_is_shorter_than_the_hardware_allows() -> None:
    plain, noisy = exact(), JitteredStepTime(exact())
    for chunks in ((), ((8_192, 0),)):
        busy, wire = plain.floor(shape(1.0, chunks=chunks))
        shortest = noisy.price(shape(0.01, chunks=chunks))
        assert (shortest.compute_ps + shortest.memory_ps, shortest.communication_ps) == (busy, wire)
        assert 0.4 < busy / (plain.price(shape(1.0, chunks=chunks)).total_ps) < 1.0
        flops, moved = plain.work(
            32 + sum(new for new, _ in chunks), 32 + len(chunks), 32 * 700 + sum(new for new, _ in chunks),
            32 * 700 + sum(new * (new + 1) // 2 for new, _ in chunks),
        )  # fmt: skip
        gpu = CATALOG.gpu("h100-sxm")
        assert busy >= moved / gpu.hbm_bytes_per_s / 4 * 1e12
        assert busy >= flops / gpu.peak("bf16") / 4 * 1e12


@settings(deadline=None)
@given(
    stretch=st.floats(0.01, 5.0), batch=st.integers(0, 64), context=st.integers(1, 5_000),
    new=st.integers(0, 900), before=st.integers(0, 900),
)  # fmt: skip
def test_phases_add_up_to_the_price(stretch: float, batch: int, context: int, new: int, before: int) -> None:
    if not batch and not new:
        return
    noisy = JitteredStepTime(exact())
    stretched = shape(stretch, batch, context, ((new, before),) if new else ())
    price, parts = noisy.price(stretched), {"sm": 0, "hbm": 0, "link": 0, "host": 0}
    for phase in noisy.phases(stretched):
        assert phase.ps > 0
        parts[phase.resource] += phase.ps
    assert parts == {
        "sm": price.compute_ps, "hbm": price.memory_ps, "link": price.communication_ps, "host": price.host_ps
    }  # fmt: skip
    assert sum(parts.values()) == price.total_ps


@pytest.mark.parametrize("variation", [0.02, 0.3])
def test_factors_have_mean_one_and_the_variation_asked_for(variation: float) -> None:
    noise = StepNoise(variation, Streams(0).generator("jitter", 0))
    factors = np.array([noise() for _ in range(100_000)])
    # Six standard errors, each from the distribution itself.
    assert abs(factors.mean() - 1.0) < 6 * variation / math.sqrt(len(factors))
    assert factors.std() / factors.mean() == pytest.approx(variation, rel=0.03)
    assert np.log(factors).mean() == pytest.approx(-math.log1p(variation**2) / 2, abs=6 * variation / math.sqrt(1e5))


def test_each_replica_has_its_own_stream() -> None:
    def first(seed: int, replica: int) -> list[float]:
        noise = StepNoise(0.1, Streams(seed).generator("jitter", replica))
        return [noise() for _ in range(3_000)]

    assert first(0, 0) == first(0, 0)
    assert first(0, 0)[:5] != first(0, 1)[:5]
    assert first(0, 0)[:5] != first(1, 0)[:5]
