"""No step is faster than the hardware allows.

The floor is computed here from the YAML of the model and of the GPU, in lines of its own: arithmetic at the data
sheet's peak, every needed byte once through HBM, all-reduces and the gather of the logits over the wire. It shares no
code with the physics.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.catalog import Catalog
from servetwin.errors import CapacityError
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs.span import Span

ROOT = Path(__file__).resolve().parents[2] / "hardware_profiles"
MODELS = sorted(path.stem for path in (ROOT / "models").glob("*.yaml"))
GPUS = sorted(path.stem for path in (ROOT / "gpus").glob("*.yaml"))
SCALE = {"TFLOPS": 1e12, "TB/s": 1e12, "GB/s": 1e9}
BYTES = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "mxfp4": 17 / 32,
    "mxfp4_mxfp8": 17 / 32,
    "nvfp4": 9 / 16,
    "int4": 9 / 16,
}
CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")


def figure(text: str) -> float:
    number, unit = text.split()
    return float(number) * SCALE[unit]


def load(folder: str, name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / folder / f"{name}.yaml").read_text(encoding="utf-8"))


class Floor:
    """The least arithmetic, traffic and wire time of a step on one of ``tensor`` ranks."""

    def __init__(
        self, model: str, gpu: str, tensor: int, weights: str, kv_cache: str, domains: int = 1, nic: float = 0.0,
        context: int = 1,
    ) -> None:  # fmt: skip
        self.model, self.tensor = load("models", model), tensor
        profile = load("gpus", gpu)
        flops = {dtype: figure(entry["value"]) for dtype, entry in profile["flops"].items()}
        published = self.model["weights"]
        native = weights in ("auto", published["dtype"])
        self.dtype = published["dtype"] if native else weights
        self.parts = published.get("quantised", []) if native else ["attention", "dense", "experts", "shared"]
        # Where anything is stored in 8 or 4 bits, all arithmetic is granted the fastest units of the chip.
        wide = self.dtype in ("bf16", "fp16") and kv_cache == "bf16"
        # Indexers score in 8 bits whatever the rest does.
        sparse = any("top_k" in group["attention"] for group in self.model["layers"])
        self.peak = flops["bf16"] if wide and not sparse else max(flops.values())
        self.hbm, self.wire = figure(profile["hbm"]["value"]), figure(profile["link"]["value"])
        self.kv_bytes = BYTES[kv_cache]
        self.domains, self.nic, self.context = domains, nic, context

    def size(self, part: str) -> float:
        return BYTES[self.dtype] if part in self.parts or self.dtype in ("bf16", "fp16") else 2.0

    def seconds(
        self, tokens: int, rows: int, contexts: list[int], chunks: list[tuple[int, int]]
    ) -> tuple[float, float, float]:
        model, t = self.model, self.tensor
        hidden, vocab = model["hidden"], model["vocab"]
        flops, moved = 2.0 * rows * vocab * hidden / t, 2.0 * vocab * hidden / t
        layers, kept = 0, 0.0
        for group in model["layers"]:
            layers += group["count"]
            weights, heads, kv_values, pair_decode, pair_prefill = self.attention(group["attention"], hidden)
            part = weights * self.size("attention")
            per_token = heads
            mlp = group["mlp"]
            if mlp["kind"] == "moe":
                expert = 3 * hidden * mlp["intermediate"] / t
                shared = 3 * hidden * mlp.get("shared_intermediate", 0) / t
                part += mlp["top_k"] * expert * self.size("experts") + shared * self.size("shared")
                per_token += mlp["top_k"] * expert + shared
            else:
                dense = (3 if mlp.get("gated", True) else 2) * hidden * mlp["intermediate"] / t
                part += dense * self.size("dense")
                per_token += dense
            kept += group["count"] * kv_values * 2.0
            attention = group["attention"]
            window = attention.get("window") or attention.get("top_k") or 10**12
            read = sum(min(c, window) for c in contexts)
            pairs = 0
            for new, before in chunks:
                read += min(before, window - 1) + new
                pairs += sum(min(before + j, window) for j in range(1, new + 1))
            decode_pairs = sum(min(c, window) for c in contexts)
            flops += group["count"] * (2.0 * tokens * per_token + decode_pairs * pair_decode + pairs * pair_prefill)
            moved += group["count"] * (part + read * kv_values * self.kv_bytes)
            more_flops, more_moved = self.states_and_indexes(attention, contexts, chunks)
            flops += group["count"] * more_flops
            moved += group["count"] * more_moved
        own = tokens - sum(new - ceil(new / self.context) for new, _ in chunks)
        wire = self.wire_seconds(2 * layers * own * hidden * 2.0, rows * vocab * 2.0)
        # Every group receives the keys and values of the tokens that the others compute.
        wire += sum(new - ceil(new / self.context) for new, _ in chunks) * kept / self.wire
        return flops / self.peak / self.context, moved / self.hbm, wire

    def wire_seconds(self, reduced: float, gathered: float) -> float:
        """All-reduces of ``reduced`` bytes: every rank sends its tensor once, even where the switch adds up, and every
        domain the sum of its ranks. Of ``gathered`` bytes every rank and every domain receives what others hold."""
        t = self.tensor
        if t == 1:
            return 0.0
        if self.domains == 1:
            return (reduced + gathered * (t - 1) / t) / self.wire
        nics = t // self.domains * self.nic
        return (reduced + gathered * (self.domains - 1) / self.domains) / nics

    def states_and_indexes(
        self, a: dict[str, Any], contexts: list[int], chunks: list[tuple[int, int]]
    ) -> tuple[float, float]:
        """Arithmetic and traffic of what is no attention: states once per step, indexes for the whole context."""
        if a["kind"] == "state":
            held = a["state"] * a["value_bytes"] / self.tensor
            return 0.0, held * (2 * len(contexts) + len(chunks))
        if "index_heads" not in a:
            return 0.0, 0.0
        pairs = sum(contexts) + sum(new * before + new * (new + 1) // 2 for new, before in chunks)
        read = sum(contexts) + sum(new + before for new, before in chunks)
        return 2.0 * a["index_heads"] * a["index_dim"] * pairs, float(a["index_dim"]) * read

    def attention(self, a: dict[str, Any], hidden: int) -> tuple[float, float, float, float, float]:
        """Weights, multiplied weights per token, cached values per token, FLOP per decode and per prefill pair."""
        t, heads = self.tensor, a["heads"] / self.tensor
        if a["kind"] == "grouped":
            kv = max(1, ceil(a["kv_heads"] / t))
            weights = hidden * a["head_dim"] * ((3 if a.get("gated") else 2) * heads + 2 * kv)
            pair = 4 * heads * a["head_dim"]
            return weights, weights, 2 * kv * a["head_dim"], pair, pair
        if a["kind"] == "state":
            weights = hidden * (a["inputs"] + a["inner"]) / t
            return weights, weights, 0.0, 0.0, 0.0
        nope, rope, v, rank = a["nope_dim"], a["rope_dim"], a["v_dim"], a["kv_rank"]
        query = heads * (nope + rope)
        query = hidden * a["q_rank"] + a["q_rank"] * query if "q_rank" in a else hidden * query
        weights = query + hidden * (rank + rope) + rank * heads * (nope + v) + heads * v * hidden
        return weights, weights, rank + rope, 2 * heads * (2 * rank + rope), 2 * heads * (nope + rope + v)


def step(contexts: list[int], chunks: list[tuple[int, int]], windows: tuple[int, ...]) -> StepShape:
    tokens = len(contexts) + sum(new for new, _ in chunks)
    kinds = [None, *windows]
    context = tuple(sum(c if w is None else min(c, w) for c in contexts) for w in kinds)
    growing = tuple(sum(w is None or c < w for c in contexts) for w in kinds)
    return StepShape(tokens, tokens, False, len(contexts) + len(chunks), len(contexts), context, growing, tuple(chunks))


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    length = draw(st.sampled_from([1, 300, 8_000, 100_000]))
    contexts = draw(st.lists(st.integers(1, length), max_size=24)) * draw(st.sampled_from([1, 1, 10]))
    sizes = st.tuples(st.integers(1, 2_048), st.integers(0, length))
    chunks = draw(st.lists(sizes, max_size=3, min_size=0 if contexts else 1))
    return contexts, chunks


@settings(max_examples=400, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(GPUS),
    tensor=st.sampled_from([1, 2, 4, 8]),
    weights=st.sampled_from(["auto", "bf16", "fp8", "mxfp4_mxfp8"]),
    kv_cache=st.sampled_from(["bf16", "fp8"]),
    sampling=st.sampled_from(["greedy", "top-p"]),
    domains=st.sampled_from([1, 1, 2, 4]),
    nic=st.sampled_from([2e9, 25e9, 100e9]),
    context=st.sampled_from([1, 1, 2, 3]),
    drawn=steps(),
)
def test_no_step_beats_the_hardware(
    model: str, gpu: str, tensor: int, weights: str, kv_cache: str, sampling: str, domains: int, nic: float,
    context: int, drawn: tuple[list[int], list[tuple[int, int]]],
) -> None:  # fmt: skip
    contexts, chunks = drawn
    domains = 1 if context > 1 else min(domains, tensor)
    wires = (nic, 0.0) if domains > 1 else (0.0, 0.0)
    link = CATALOG.gpu(gpu).link_bytes_per_s
    gpus = tensor * context
    span = Span(gpus, domains, (gpus // domains,) * domains, link, *wires)
    try:
        prices = RooflineStepTime(
            CATALOG.model(model), CATALOG.gpu(gpu), tensor=tensor, weights=weights, kv_cache=kv_cache,
            sampling=sampling, calibration=CALIBRATION, span=span, context=context,
        )  # fmt: skip
    except CapacityError:
        return  # these ranks do not divide the heads, or prompts cannot be shared out
    shape = step(contexts, chunks, prices.windows)
    price = prices.price(shape)
    floor = Floor(model, gpu, tensor, weights, kv_cache, domains, nic, context)
    compute, memory, wire = floor.seconds(shape.tokens, shape.requests, contexts, chunks)
    assert price.communication_ps >= wire * 1e12
    assert price.compute_ps + price.memory_ps >= max(compute, memory) * 1e12
    flops, moved = prices.work(
        shape.tokens, shape.requests, sum(contexts) + sum(n + c for n, c in chunks),
        sum(contexts) + sum(n * c + n * (n + 1) // 2 for n, c in chunks),
    )  # fmt: skip
    seconds = price.total_ps / 1e12 * tensor * context
    if not prices.windows:  # with windows, ``work`` takes equal contexts and is no floor for unequal ones
        assert flops / seconds <= floor.peak
        assert moved / seconds <= floor.hbm


@settings(max_examples=200, deadline=None)
@given(model=st.sampled_from(MODELS), tensor=st.sampled_from([1, 2, 4]), drawn=steps(), width=st.sampled_from([1, 4]))
def test_price_is_affine_for_as_long_as_it_says_and_its_parts_add_up(
    model: str, tensor: int, drawn: tuple[list[int], list[tuple[int, int]]], width: int
) -> None:
    contexts, chunks = drawn
    try:
        prices = RooflineStepTime(
            CATALOG.model(model), CATALOG.gpu("h100-sxm"), tensor=tensor, weights="auto", kv_cache="auto",
            sampling="greedy", calibration=CALIBRATION,
        )  # fmt: skip
    except CapacityError:
        return
    shape = step(contexts, chunks, prices.windows)
    shape.drafted = len(contexts) * (width - 1)
    shape.tokens = shape.padded_tokens = len(contexts) * width + sum(new for new, _ in chunks)
    price = prices.price(shape)
    assert price.total_ps == price.compute_ps + price.memory_ps + price.communication_ps + price.host_ps
    assert price.growth_ps == price.compute_growth_ps + price.memory_growth_ps + price.host_growth_ps
    assert sum(phase.ps for phase in prices.phases(shape)) == price.total_ps
    by_resource = {"sm": 0, "hbm": 0, "link": 0, "host": 0}
    for phase in prices.phases(shape):
        by_resource[phase.resource] += phase.ps
    assert by_resource == {
        "sm": price.compute_ps, "hbm": price.memory_ps, "link": price.communication_ps, "host": price.host_ps
    }  # fmt: skip
    # The same shape a few steps later, as long as every decode that grows keeps growing.
    for later in (1, 7, min(price.lasts - 1, 10**6)):
        if later >= price.lasts:
            continue
        grown = step(contexts, chunks, prices.windows)
        grown.drafted, grown.tokens, grown.padded_tokens = shape.drafted, shape.tokens, shape.padded_tokens
        grown.context = tuple(c + later * g for c, g in zip(shape.context, shape.growing, strict=True))
        again = prices.price(grown)
        assert again.total_ps == price.total_ps + later * price.growth_ps
        assert again.compute_ps == price.compute_ps + later * price.compute_growth_ps


@pytest.mark.parametrize("gpu", GPUS)
def test_measured_collectives_respect_the_wire(gpu: str) -> None:
    profile = load("gpus", gpu)
    wire = figure(profile["link"]["value"])
    for name in ("all_reduce", "all_gather"):
        for gpus, latencies in profile.get(name, {"latency_us": {}})["latency_us"].items():
            sent = 1.0 if name == "all_reduce" else (gpus - 1) / gpus
            for size, latency in zip(profile[name]["bytes"], latencies, strict=True):
                assert latency * 1e-6 >= sent * size / wire
