"""The price of whole steps: figures that others measured, and how the price moves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.errors import CapacityError, CatalogError
from servetwin.physics.protocols import StepShape, StepTime
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs.span import Span

CATALOG = Catalog()


def padded(tokens: int) -> int:
    """The CUDA-graph sizes of vLLM: 1, 2, 4, multiples of 8 to 256, of 16 to 512."""
    if tokens <= 4:
        return 4 if tokens == 3 else tokens
    step = 8 if tokens <= 256 else 16
    return -(-tokens // step) * step if tokens <= 512 else tokens


def prices(model: str = "llama-3.1-8b", gpu: str = "h100-sxm", tensor: int = 1, **changes: Any) -> RooflineStepTime:
    settings: dict[str, Any] = {"weights": "auto", "kv_cache": "bf16", "sampling": "greedy"}
    return RooflineStepTime(
        CATALOG.model(model), CATALOG.gpu(gpu), tensor=tensor,
        **{"calibration": CATALOG.calibration("default"), **settings, **changes},
    )  # fmt: skip


def decode(price: RooflineStepTime, batch: int, context: int, **changes: Any) -> StepShape:
    contexts = (batch * context, *(batch * min(context, window) for window in price.windows))
    growing = (batch, *(batch * (context < window) for window in price.windows))
    whole: dict[str, Any] = {
        "tokens": batch, "padded_tokens": padded(batch), "graph": True, "requests": batch, "decodes": batch,
        "context": contexts, "growing": growing,
    }  # fmt: skip
    return StepShape(**{**whole, **changes})


def milliseconds(price: RooflineStepTime, batch: int, context: int) -> float:
    return price.price(decode(price, batch, context)).total_ps / 1e9


# Llama-3.1-8B on one H100, greedy: vLLM 0.10.1 as fitted by SpecDecode-Bench (5.886 ms + 21.01 µs per request
# + 39.26 ns per token of context) at 500 tokens.
@pytest.mark.parametrize(("batch", "measured", "tolerance"), [(1, 5.9, 0.13), (64, 8.5, 0.03), (128, 11.1, 0.08)])
def test_decode_of_llama_8b_on_an_h100(batch: int, measured: float, tolerance: float) -> None:
    assert milliseconds(prices(), batch, 500) == pytest.approx(measured, rel=tolerance)


# Microseconds per running request and step in the traces of public vLLM 0.15.1 runs on H100.
@pytest.mark.parametrize(
    ("model", "tensor", "sampling", "running", "low", "high"),
    [
        ("llama-2-7b", 1, "top-p", 10, 120, 140),
        ("qwen3-14b", 1, "top-p", 30, 55, 80),
        ("codellama-34b", 2, "greedy", 20, 25, 51),
        ("mixtral-8x7b", 2, "greedy", 10, 110, 150),
        ("mixtral-8x7b", 2, "greedy", 40, 20, 35),
    ],
)
def test_slope_per_running_request(
    model: str, tensor: int, sampling: str, running: int, low: float, high: float
) -> None:
    price = prices(model, tensor=tensor, sampling=sampling)
    slope = (milliseconds(price, running + 16, 700) - milliseconds(price, running, 700)) / 16 * 1e3
    assert low <= slope <= high


def test_all_reduces_of_llama_70b() -> None:
    """Four H100 spend about 0.9 ms a step on all-reduces at 8 running and 2.4 ms at 64, as they were measured."""
    price, share = prices("llama-2-70b", tensor=4), CATALOG.calibration("default").all_reduce
    assert price.price(decode(price, 8, 700)).communication_ps / 1e9 / share == pytest.approx(0.9, rel=0.1)
    assert price.price(decode(price, 64, 700)).communication_ps / 1e9 / share == pytest.approx(2.4, rel=0.05)


def test_it_implements_the_protocol() -> None:
    price: StepTime = prices()
    assert price.windows == ()


def test_logits_are_priced_on_requests_not_on_prompt_tokens() -> None:
    price = prices()
    shape = StepShape(2_000, 2_000, False, 1, 0, (0,), (0,), ((2_000, 0),))
    logits = [phase for phase in price.phases(shape) if phase.kind == "logits"]
    # One row: the matrix is read once, 128,256 · 4,096 · 2 bytes at the measured share of 3.35 TB/s, plus a constant.
    curve = CATALOG.calibration("default").kernels_for("h100-sxm", "hopper").product("bf16")
    assert [phase.resource for phase in logits] == ["hbm"]
    assert logits[0].ps / 1e6 == pytest.approx(
        (128_256 * 4_096 * 2 / (curve.memory * 3.35e12) + curve.launch_s) * 1e6, rel=0.002
    )


def test_sorting_the_logits_costs_by_vocabulary() -> None:
    greedy, sorting = prices("qwen3-14b"), prices("qwen3-14b", sampling="top-p")
    per_request = (milliseconds(sorting, 32, 500) - milliseconds(greedy, 32, 500)) / 32 * 1e3
    assert per_request == pytest.approx((5.0 - 0.3) * 151_936 / 32_000, rel=1e-6)
    slower = [prices("qwen3-14b", "a100-sxm-80gb", sampling=mode) for mode in ("greedy", "top-p")]
    on_a100 = (milliseconds(slower[1], 32, 500) - milliseconds(slower[0], 32, 500)) / 32 * 1e3
    assert on_a100 == pytest.approx(1.7 * per_request, rel=1e-6)


def test_prefill_shares_the_pass_over_the_weights() -> None:
    price = prices()
    alone = price.price(decode(price, 32, 500)).total_ps
    chunk = price.price(StepShape(7, 8, True, 1, 0, (0,), (0,), ((7, 583),))).total_ps
    both = StepShape(39, 40, True, 33, 32, (16_000,), (32,), ((7, 583),))
    assert price.price(both).total_ps < 0.6 * (alone + chunk)


def test_a_big_prefill_is_bound_by_arithmetic() -> None:
    price = prices()
    step = price.price(StepShape(8_192, 8_192, False, 4, 0, (0,), (0,), ((2_048, 0),) * 4))
    assert step.compute_ps > 0.75 * step.total_ps
    flops, _ = price.work(8_192, 4, 8_192, 4 * 2_048 * 2_049 // 2)
    assert 0.5 < flops / (step.total_ps / 1e12) / 989e12 < 0.8


def test_more_ranks_are_faster_but_not_in_proportion() -> None:
    one, two, four = (milliseconds(prices(tensor=t), 32, 500) for t in (1, 2, 4))
    assert one > two > four
    assert two > one / 2
    assert four > two / 2


def test_a_smaller_share_of_the_links_slows_the_collectives_only() -> None:
    price = prices("llama-3.1-70b", tensor=4)
    full, half = (price.price(decode(price, 64, 500, link_share=share)) for share in (1.0, 0.5))
    assert half.communication_ps > 1.1 * full.communication_ps
    assert (half.compute_ps, half.memory_ps, half.host_ps) == (full.compute_ps, full.memory_ps, full.host_ps)
    shape = decode(price, 64, 500, link_share=0.5)
    assert sum(phase.ps for phase in price.phases(shape)) == half.total_ps


def test_quantised_weights_are_faster_where_memory_binds() -> None:
    plain, quantised = prices("llama-3.1-70b", tensor=4), prices("llama-3.1-70b", tensor=4, weights="fp8")
    assert milliseconds(quantised, 8, 500) < 0.75 * milliseconds(plain, 8, 500)


def test_experts_of_four_bits_may_meet_activations_of_eight() -> None:
    """As gpt-oss on Blackwell: faster, most where arithmetic binds; Hopper has no units for it."""
    b200, b200_mxfp8 = (prices("gpt-oss-120b", "b200-sxm", weights=weights) for weights in ("auto", "mxfp4_mxfp8"))
    few = milliseconds(b200_mxfp8, 32, 100) / milliseconds(b200, 32, 100)
    many = milliseconds(b200_mxfp8, 4096, 100) / milliseconds(b200, 4096, 100)
    assert many < few < 0.9
    h100 = [milliseconds(prices("gpt-oss-120b", weights=weights), 32, 100) for weights in ("auto", "mxfp4_mxfp8")]
    assert h100[0] == h100[1]


def test_verifying_drafts_costs_rows_of_logits() -> None:
    price = prices()
    plain = price.price(decode(price, 32, 500))
    verify = price.price(decode(price, 32, 500, drafted=96, tokens=128, padded_tokens=128))
    assert plain.total_ps < verify.total_ps < 2 * plain.total_ps
    assert verify.growth_ps == plain.growth_ps


def test_layers_are_interleaved_with_their_all_reduces() -> None:
    price = prices("llama-3.1-70b", tensor=4)
    phases = price.phases(decode(price, 8, 500))
    assert [phase.kind for phase in phases] == ["host", "layers", "all-reduce", "logits", "gather", "sampling"]
    assert [phase.count for phase in phases] == [1, 80, 80, 1, 1, 1]


def part(price: RooflineStepTime, shape: StepShape, kind: str) -> float:
    """What the phases of a kind take [us]."""
    return sum(phase.ps for phase in price.phases(shape) if phase.kind == kind) / 1e6


def test_the_logits_of_all_ranks_are_gathered() -> None:
    """By hand: 64 rows of a vocabulary of 128,256 in bf16, between measured 8 and 32 MiB on four H100."""
    price = prices("llama-3.1-70b", tensor=4)
    table = dict(dict(price.gpu.all_gather)[4])
    size, (low, high) = 64 * 128_256 * 2, (8 * 2**20, 32 * 2**20)
    expected = table[low] * (table[high] / table[low]) ** (math.log(size / low) / math.log(high / low))
    assert part(price, decode(price, 64, 500), "gather") == pytest.approx(expected * 1e6, rel=1e-6)
    # A chunk has one row, a verified draft one per token.
    chunk = StepShape(2_000, 2_000, False, 1, 0, (0,), (0,), ((2_000, 0),))
    assert part(price, chunk, "gather") < 12
    drafts = decode(price, 16, 500, drafted=48, tokens=64, padded_tokens=64)
    assert part(price, drafts, "gather") == part(price, decode(price, 64, 500), "gather")
    assert part(prices("llama-3.1-8b"), chunk, "gather") == 0


def test_a_share_of_the_links_slows_the_gather_too() -> None:
    price = prices("llama-3.1-70b", tensor=4)
    full, half = (part(price, decode(price, 64, 500, link_share=share), "gather") for share in (1.0, 0.5))
    assert full < half <= 2 * full


def test_a_replica_across_servers_pays_for_its_network_only() -> None:
    one = Span(16, 1, (16,), 450e9)
    two = Span(16, 2, (8, 8), 450e9, 50e9, 5e-6)
    inside, across = (prices("llama-3.1-405b", tensor=16, span=span) for span in (one, two))
    shape = decode(inside, 64, 1000)
    near, far = inside.price(shape), across.price(shape)
    assert far.communication_ps > 2 * near.communication_ps
    assert (far.compute_ps, far.memory_ps, far.host_ps) == (near.compute_ps, near.memory_ps, near.host_ps)
    assert prices("llama-3.1-405b", tensor=16).price(shape).total_ps == near.total_ps
    # Two tensor groups, each in a server of its own, do not feel the network.
    assert prices(tensor=8, span=two).price(shape).total_ps == prices(tensor=8).price(shape).total_ps
    assert sum(phase.ps for phase in across.phases(shape)) == far.total_ps
    assert across.floor(shape)[1] <= far.communication_ps


def test_the_price_does_not_depend_on_what_was_priced_before() -> None:
    fresh, used = prices("mixtral-8x7b", tensor=2), prices("mixtral-8x7b", tensor=2)
    for batch in range(1, 40):
        used.price(decode(used, batch, 100 * batch))
    assert fresh.price(decode(fresh, 17, 900)).total_ps == used.price(decode(used, 17, 900)).total_ps


def test_work_is_what_the_model_needs() -> None:
    price = prices()
    flops, moved = price.work(1, 1, 1_000, 1_000)
    assert flops == pytest.approx(CATALOG.model("llama-3.1-8b").flops_per_token(1_000))
    assert moved == pytest.approx(2 * 7.505e9 + 1_000 * 131_072, rel=1e-3)
    _, four_ranks = prices(tensor=4).work(1, 1, 1_000, 1_000)
    assert four_ranks == pytest.approx(moved, rel=1e-3), "the ranks share the weights and the heads out"


def test_mistakes_are_named() -> None:
    with pytest.raises(CapacityError, match="shared out evenly"):
        prices("llama-4-scout", tensor=16)
    with pytest.raises(CapacityError, match="nearest: bf16"):
        prices(weights="bf61")
    with pytest.raises(CapacityError, match="sampling"):
        prices(sampling="beam")


def test_a_gpu_without_constants_is_refused() -> None:
    import dataclasses

    gpu = dataclasses.replace(CATALOG.gpu("h100-sxm"), name="mine", architecture="volta")
    with pytest.raises(CatalogError, match="mine"):
        RooflineStepTime(
            CATALOG.model("llama-3.1-8b"), gpu, tensor=1, weights="auto", kv_cache="auto", sampling="greedy",
            calibration=CATALOG.calibration("default"),
        )  # fmt: skip
    known = dataclasses.replace(gpu, architecture="hopper")
    price = RooflineStepTime(
        CATALOG.model("llama-3.1-8b"), known, tensor=1, weights="auto", kv_cache="auto", sampling="greedy",
        calibration=CATALOG.calibration("default"),
    )  # fmt: skip
    assert milliseconds(price, 8, 500) == milliseconds(prices(), 8, 500)


@pytest.mark.parametrize(
    ("change", "added_us"),
    [
        ({"request_step_s": 10e-6}, 10.0 * 8),
        ({"router_s": 100e-9}, 32 * 8 * 0.1),
        # Two products and attention in each layer, and the logits.
        ({"launch": 0.5}, -0.5 * (32 * (2 * 3.8 + 18.0) + 3.8)),
        ({"experts_launch": 1.0}, 0.5 * 32 * 35.0),
    ],
)
def test_what_an_engine_adds_to_a_step(change: dict[str, float], added_us: float) -> None:
    default = CATALOG.calibration("default")
    base = replace(default, request_step_s=0.0, router_s=0.0, launch=1.0, experts_launch=0.5)
    before = prices("mixtral-8x7b", tensor=2, calibration=base)
    after = prices("mixtral-8x7b", tensor=2, calibration=replace(base, **change))
    for context in (100, 1_000):
        shape = decode(before, 8, context)
        gained = (after.price(shape).total_ps - before.price(shape).total_ps) / 1e6
        assert gained == pytest.approx(added_us, abs=0.01)


def test_fused_all_reduces_take_a_share_of_their_latency() -> None:
    default = replace(CATALOG.calibration("default"), all_reduce=1.0)
    whole = prices("llama-3.1-70b", tensor=4, calibration=default)
    fused = prices("llama-3.1-70b", tensor=4, calibration=replace(default, all_reduce=0.25))
    shape = decode(whole, 8, 100)
    assert part(fused, shape, "all-reduce") == pytest.approx(part(whole, shape, "all-reduce") / 4, abs=2e-6)
    assert part(fused, shape, "gather") == part(whole, shape, "gather")


def test_without_a_graph_layers_are_launched_one_by_one() -> None:
    default = CATALOG.calibration("default")
    slow = prices(calibration=replace(default, eager_s=1e-3))
    bare = prices(calibration=replace(default, eager_s=0.0))
    # 32 layers at 1 ms: longer than 512 tokens take, shorter than 8,192.
    for tokens, waits in ((512, True), (8_192, False)):
        shape = StepShape(tokens, tokens, False, 1, 0, (0,), (0,), ((tokens, 0),))
        launched, alone = slow.price(shape), bare.price(shape)
        assert (launched.total_ps > alone.total_ps) is waits
        if waits:
            gpu = alone.compute_ps + alone.memory_ps
            assert launched.total_ps > 32e9 > gpu
    graph = decode(bare, 8, 100)
    assert slow.price(graph).total_ps == bare.price(graph).total_ps


def test_what_decodes_read_hides_behind_the_launch_of_layers() -> None:
    """Llama-3.1-8B on H100: 32 layers at 300 us take longer than the GPU, until the context of eight requests does."""
    found = prices(calibration=replace(CATALOG.calibration("default"), eager_s=300e-6))
    first = found.price(decode(found, 8, 100, graph=False))
    assert first.growth_ps == 0 < first.host_ps
    assert 1_000 < first.lasts < 20_000
    shapes = [decode(found, 8, 100 + later, graph=False) for later in range(first.lasts - 1, first.lasts + 2)]
    last, longer, longest = (found.price(shape) for shape in shapes)
    assert (last.total_ps, last.lasts) == (first.total_ps, 1)
    # From where the GPU takes longer, context adds what it does in a graph.
    by_context = found.price(decode(found, 8, 100)).growth_ps
    assert last.total_ps < longer.total_ps < last.total_ps + by_context
    assert longer.growth_ps == longest.total_ps - longer.total_ps == by_context
    assert longer.host_ps == found.price(decode(found, 8, 100)).host_ps
    for shape, price in zip(shapes, (last, longer, longest), strict=True):
        assert sum(phase.ps for phase in found.phases(shape)) == price.total_ps


def test_a_step_without_a_graph_takes_what_was_measured() -> None:
    """Qwen3-1.7B on H100 in vLLM without a graph: 8.54 ms for 32 tokens and 8.35 ms for 64 of 8 requests, whether with
    a context of 8,192 each or without (github.com/adixg/vllm-specdecode-cost-model, E6)."""
    found = prices("qwen3-1.7b", calibration=replace(CATALOG.calibration("default"), step_s=0.0, eager_s=300e-6))
    for context in (0, 8_192):
        for tokens in (32, 64):
            shape = StepShape(tokens, tokens, False, 8, 8, (8 * context,), (8,), (), tokens - 8)
            assert found.price(shape).total_ps / 1e9 == pytest.approx(8.45, rel=0.05)


def test_fp8_with_scales_by_blocks_has_kernels_of_its_own() -> None:
    """On H100 a prompt of 2,049 tokens takes longer than with a scale per tensor: in TensorRT-LLM's tables
    (aiconfigurator-core 0.12.0) products of that many rows reach 680 to 1,060 instead of 1,180 to 1,380 TFLOP/s. In
    vLLM the difference is smaller, for it quantises apart from the product."""
    prompt = StepShape(2_049, 2_049, False, 1, 0, (0,), (0,), ((2_049, 0),))
    for calibration, low, high in (("default", 1.03, 1.2), ("trtllm", 1.15, 1.4)):
        plain, blocks = (
            prices("qwen3-32b", weights=weights, calibration=CATALOG.calibration(calibration)).price(prompt).total_ps
            for weights in ("fp8", "fp8_block")
        )
        assert low < blocks / plain < high


def test_fp8_with_scales_by_blocks_is_priced_as_fp8_where_it_was_not_measured() -> None:
    plain, blocks = (prices("qwen3-8b", "l40s", weights=weights) for weights in ("fp8", "fp8_block"))
    assert blocks.price(decode(blocks, 8, 500)).total_ps == plain.price(decode(plain, 8, 500)).total_ps
