"""``explain`` of every bundled model on every GPU that it fits: it adds up, is quick, and never beats the floor."""

from __future__ import annotations

import time
from functools import cache

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.properties.test_floor import GPUS, MODELS, Floor

from servetwin.catalog import Catalog
from servetwin.errors import CapacityError
from servetwin.scenario.load import validate_mapping
from servetwin.scenario.schema import Scenario
from servetwin.studies.explain import explain
from servetwin.studies.step import Step

CATALOG = Catalog()
PARTS = ("compute_us", "memory_us", "communication_us", "overhead_us")
MOST_CPU_S = 2.0


@cache
def smallest(model: str, gpu: str) -> Scenario | None:
    """The model on as few of these GPUs as it fits on; None where no node has enough."""
    for tensor in (1, 2, 4, 8):
        raw = {
            "name": "test",
            "model": model,
            "cluster": {"hardware": gpu, "parallel": {"tensor": tensor}, "engine": {"max_model_len": "auto"}},
            "workload": {"arrivals": {"rate_per_s": 1}, "prompts": 10, "outputs": 10},
        }
        try:
            return validate_mapping(raw, CATALOG)
        except CapacityError:
            continue
    return None


@settings(max_examples=150, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(GPUS),
    batch=st.integers(0, 700),
    context=st.integers(1, 200_000),
    prefill=st.one_of(st.just(0), st.integers(1, 10_000)),
)
def test_every_step_adds_up_and_keeps_the_floor(model: str, gpu: str, batch: int, context: int, prefill: int) -> None:
    assume(batch or prefill)
    scenario = smallest(model, gpu)
    assume(scenario is not None)
    assert scenario is not None
    step = Step.of(batch, context, prefill)
    before = time.process_time()
    document = explain(scenario, step, CATALOG)
    assert time.process_time() - before < MOST_CPU_S
    whole, operators, intensity = document["step"], document["operators"], document["intensity"]
    assert abs(whole["total_us"] - sum(whole[part] for part in PARTS)) < 1e-5
    for part in ("total_us", *PARTS):
        assert abs(sum(operator[part] for operator in operators) - whole[part]) < 1e-4
    assert abs(sum(phase["us"] for phase in document["phases"]) - whole["total_us"]) < 1e-4
    assert "other" not in {operator["name"] for operator in operators}
    for operator in operators:
        # A picosecond may be lost in rounding.
        assert operator["total_us"] + 1e-6 >= operator["floor_us"], operator["name"]
        assert operator["efficiency"] is None or operator["efficiency"] <= 1 + 1e-6
    assert whole["total_us"] >= whole["floor_us"] - 1e-5
    assert 0 < intensity["share_of_peak_bandwidth"] <= 1
    # The floor of lines of its own, from the YAML alone.
    inputs = document["inputs"]
    chunks = [(prefill, step.before)] if prefill else []
    floor = Floor(model, gpu, inputs["gpus_per_replica"], "auto", inputs["kv_cache"])
    rows = batch + len(chunks)
    bounds = floor.seconds(inputs["tokens"], rows, [context] * batch, chunks)
    assert whole["total_us"] + 1e-3 >= max(bounds) * 1e6
    assert whole["communication_us"] + 1e-3 >= bounds[2] * 1e6
