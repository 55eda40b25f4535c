"""What stages and hand-offs take."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.catalog.find import Catalog
from servetwin.physics.jitter import JitteredStepTime
from servetwin.physics.pipeline import PipelineStepTime, hand_off_s
from servetwin.physics.protocols import StepShape
from servetwin.physics.stages import stage_models
from servetwin.physics.step_time import RooflineStepTime

CATALOG = Catalog()
GPU = CATALOG.gpu("h100-sxm")


def link(bytes_per_s: float, latency_s: float = 5e-6) -> Callable[[float], float]:
    return lambda size, share: latency_s + size / (share * bytes_per_s)


LINK: dict[str, Any] = {"send": link(100e9), "gather": link(400e9, 3e-6)}


def prices(name: str, stages: int, tensor: int = 1, noisy: bool = False) -> PipelineStepTime:
    model = CATALOG.model(name)

    def priced(part: Any) -> RooflineStepTime:
        return RooflineStepTime(
            part, GPU, tensor=tensor, weights=model.native_weights, kv_cache="bf16", sampling="greedy",
            calibration=CATALOG.calibration("default"),
        )  # fmt: skip

    parts = [priced(part) for part in stage_models(model, stages)]
    each = [JitteredStepTime(part) if noisy else part for part in parts]
    hand_off = partial(hand_off_s, hidden=model.hidden, tensor=tensor, **LINK)
    return PipelineStepTime(priced(model), each, [hand_off] * (stages - 1))


def decodes(size: int, *context: int, tokens: int = 0) -> StepShape:
    chunks = ((tokens, 100),) if tokens else ()
    every = size + tokens
    return StepShape(
        every, every, every <= 512, size + len(chunks), size, context, tuple([size] * len(context)), chunks
    )


def test_a_hand_off_by_hand() -> None:
    """Hidden states and residual of 1,000 tokens: 2 · 1,000 · 4,096 · 2 B = 16.384 MB."""
    alone = hand_off_s(1000, 1.0, hidden=4096, tensor=1, **LINK)
    assert alone == pytest.approx(16.384e6 / 100e9 + 5e-6)
    # Four ranks send a quarter each and gather the whole.
    four = hand_off_s(1000, 1.0, hidden=4096, tensor=4, **LINK)
    assert four == pytest.approx(4.096e6 / 100e9 + 5e-6 + 16.384e6 / 400e9 + 3e-6)
    # Half of the links takes the bytes twice as long, and the latencies are what they are.
    half = hand_off_s(1000, 0.5, hidden=4096, tensor=4, **LINK)
    assert half == pytest.approx(4.096e6 / 50e9 + 5e-6 + 16.384e6 / 200e9 + 3e-6)


@given(
    tokens=st.integers(1, 20_000), hidden=st.integers(64, 16_384), tensor=st.sampled_from((1, 2, 4, 8)),
    bandwidth=st.floats(1e8, 2e12), factor=st.floats(1.0, 100.0),
)  # fmt: skip
@settings(derandomize=True, deadline=None)
def test_more_bandwidth_never_costs(tokens: int, hidden: int, tensor: int, bandwidth: float, factor: float) -> None:
    def price(sent: float, gathered: float) -> float:
        return hand_off_s(tokens, 1.0, hidden=hidden, tensor=tensor, send=link(sent), gather=link(gathered))

    assert price(bandwidth * factor, bandwidth) <= price(bandwidth, bandwidth)
    assert price(bandwidth, bandwidth * factor) <= price(bandwidth, bandwidth)


SHAPES = {
    "llama-3.1-70b": (decodes(32, 32_000), decodes(7, 9_000, tokens=900)),
    "gpt-oss-120b": (decodes(32, 32_000, 4_096), decodes(7, 9_000, 900, tokens=900)),
    "deepseek-r1": (decodes(16, 16_000), decodes(3, 500, tokens=300)),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_price_is_the_sum_of_the_stages_and_the_phases_add_up(name: str, stages: int) -> None:
    step_time = prices(name, stages, tensor=8 if name == "deepseek-r1" else 1)
    for shape in SHAPES[name]:
        parts, whole = step_time.stages(shape), step_time.price(shape)
        assert len(parts) == stages and len(step_time.hand_offs(shape)) == stages - 1
        for part in ("total_ps", "growth_ps", "compute_ps", "memory_ps", "communication_ps", "host_ps"):
            assert getattr(whole, part) == sum(getattr(price, part) for price in parts)
        for stage, price in enumerate(parts):
            assert sum(phase.ps for phase in step_time.stage_phases(stage, shape)) == price.total_ps
        kinds = {phase.kind for phase in step_time.stage_phases(0, shape)}
        assert not kinds & {"logits", "sampling"}
        assert {"logits", "sampling"} <= {phase.kind for phase in step_time.stage_phases(stages - 1, shape)}


@pytest.mark.parametrize("name", SHAPES)
def test_stages_do_the_work_of_the_model(name: str) -> None:
    """Apart from the engine's own time, which each stage pays.

    Chunks take the larger of two sums over the layers, which need not be the same one on every stage.
    """
    tensor = 8 if name == "deepseek-r1" else 1
    step_time, whole = prices(name, 4, tensor), prices(name, 1, tensor)
    for shape in SHAPES[name]:
        parts, one = step_time.price(shape), whole.price(shape)
        assert parts.compute_ps + parts.memory_ps == pytest.approx(one.compute_ps + one.memory_ps, rel=1e-5)
        assert parts.communication_ps == pytest.approx(one.communication_ps, rel=1e-9)
        assert parts.host_ps >= one.host_ps
    assert step_time.work(10, 2, 300, 400) == whole.work(10, 2, 300, 400)


@pytest.mark.parametrize("name", SHAPES)
def test_prices_are_linear_in_the_context(name: str) -> None:
    step_time = prices(name, 3, tensor=8 if name == "deepseek-r1" else 1)
    shape = SHAPES[name][0]
    more = tuple(context + growing for context, growing in zip(shape.context, shape.growing, strict=True))
    later = StepShape(shape.tokens, shape.padded_tokens, True, shape.requests, shape.decodes, more, shape.growing)
    for now, then in zip(step_time.stages(shape), step_time.stages(later), strict=True):
        assert then.total_ps == now.total_ps + now.growth_ps


def test_a_stage_without_a_kind_of_attention() -> None:
    """A stage of one layer has one kind; the others see the shape as it is."""
    model = CATALOG.model("gpt-oss-120b")
    step_time = prices("gpt-oss-120b", model.num_layers)
    shape = decodes(8, 8_000, 1_000)
    assert sum(price.total_ps for price in step_time.stages(shape)) == step_time.price(shape).total_ps
    windowed = [price for price, part in zip(step_time.stages(shape), stage_models(model, 36), strict=True)
                if part.windows]  # fmt: skip
    assert 0 < len(windowed) < model.num_layers


@pytest.mark.parametrize("name", SHAPES)
def test_no_stage_beats_the_hardware(name: str) -> None:
    tensor = 8 if name == "deepseek-r1" else 1
    model = CATALOG.model(name)
    for part in stage_models(model, 4):
        stage = RooflineStepTime(
            part, GPU, tensor=tensor, weights=model.native_weights, kv_cache="bf16", sampling="greedy",
            calibration=CATALOG.calibration("default"),
        )  # fmt: skip
        for shape in SHAPES[name]:
            price = stage.price(shape)
            flops, moved = stage.work(shape.tokens, shape.requests, shape.context[0], shape.context[0])
            bytes_s = moved / tensor / GPU.hbm_bytes_per_s
            assert price.compute_ps + price.memory_ps > bytes_s * 1e12
            assert flops > 0
            busy, wire = stage.floor(shape)
            assert busy <= price.compute_ps + price.memory_ps and wire <= price.communication_ps


def test_noise_stretches_every_stage_alike() -> None:
    step_time, quiet = prices("llama-3.1-70b", 4, noisy=True), prices("llama-3.1-70b", 4)
    shape = decodes(32, 32_000)
    before = quiet.stages(shape)
    shape.stretch = 1.25
    for old, new in zip(before, step_time.stages(shape), strict=True):
        assert new.compute_ps + new.memory_ps == math.ceil(1.25 * (old.compute_ps + old.memory_ps))
    assert step_time.hand_offs(shape) == quiet.hand_offs(shape)
