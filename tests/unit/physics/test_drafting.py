"""What drafters weigh, cache and take, worked by hand from published shapes and the constants of the calibration."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.physics.drafting import HeadDrafting, LookupDrafting, ModelDrafting, products
from servetwin.physics.overheads import Machine
from servetwin.physics.protocols import StepShape
from servetwin.physics.speculative_step_time import SpeculativeStepTime
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs.drafter import DrafterSpec, draft_model, eagle, eagle3, lookup, medusa, mtp, parallel_model

CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")
LLAMA, QWEN = CATALOG.model("llama-3.1-8b"), CATALOG.model("qwen3-8b")
SMALL, R1 = CATALOG.model("qwen3-0.6b"), CATALOG.model("deepseek-r1")
SIZES = (1, 2, 4, 8, 16, 24, 32)

#: One layer of Llama-3.1-8B: queries, keys and values; output; feed-forward; two norms.
LLAMA_LAYER = 2 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336) + 2 * 2 * 4096


def verifying(
    drafts: int, requests: int = 8, drafted: int = 24, context: int = 10_000,
    chunks: tuple[tuple[int, int], ...] = (),
) -> StepShape:  # fmt: skip
    """A step of ``requests`` decodes in a captured graph."""
    tokens = requests + drafted + sum(new for new, _ in chunks)
    padded = next(size for size in (*SIZES, tokens) if size >= tokens)
    return StepShape(
        tokens, padded, tokens <= SIZES[-1], requests + len(chunks), requests, (context,), (requests,), chunks, drafted,
        drafts=drafts,
    )  # fmt: skip


def drafting(
    drafter: DrafterSpec, gpu: str = "h100-sxm", weights: str = "auto", branching: int = 1, synchronous: bool = False
) -> ModelDrafting:
    """The drafter on one GPU."""
    assert drafter.model is not None
    machine = Machine.of(CATALOG.gpu(gpu), CALIBRATION)
    prices = RooflineStepTime(
        drafter.model, CATALOG.gpu(gpu), tensor=1, weights=weights, kv_cache="bf16", sampling="greedy",
        calibration=CALIBRATION,
    )  # fmt: skip
    return ModelDrafting(
        prices, once=products(drafter.once, 1, machine), each=products(drafter.each + drafter.whole, 1, machine),
        parallel=drafter.works == "parallel", on_states=drafter.on_states, branching=branching, graph_sizes=SIZES,
        synchronous=synchronous, calibration=CALIBRATION,
    )  # fmt: skip


# -- memory ------------------------------------------------------------------------------------------------------


def test_an_eagle_head_is_a_layer_and_a_matrix() -> None:
    head = eagle(LLAMA)
    assert head.weight_bytes(3) == LLAMA_LAYER + 2 * 4096 * 2 * 4096
    assert head.kv_bytes_per_token() == 2 * 8 * 128 * 2


def test_an_eagle3_head_weighs_what_its_file_does() -> None:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: 850 MB."""
    head = eagle3(LLAMA)
    own_output, states, deeper = 32_000 * 4096, 4096 * 3 * 4096, (4096 + 2 * 1024) * 4096
    assert head.weight_bytes(3) == LLAMA_LAYER + 2 * (own_output + states + deeper)
    assert head.weight_bytes(3) == pytest.approx(850e6, rel=0.01)
    assert head.weight_bytes(3) == head.weight_bytes(7)
    assert head.kv_bytes_per_token() == 2 * 8 * 128 * 2


def test_the_module_of_deepseek_r1_is_one_more_layer_of_experts() -> None:
    module = mtp(R1)
    latent, rest = 7168 * 1536 + 7168 * 576, 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    experts, router, joins = 257 * 3 * 7168 * 2048, 2 * 256 * 7168, 2 * 7168 * 2 * 7168
    norms = 2 * 2 * 7168
    assert module.weight_bytes(1, "fp8_block") == latent + rest + experts + router + joins + norms
    # The latent projections, the router and the product that joins state and embedding are on every rank.
    share = (rest + experts) / 8
    assert module.weight_bytes(1, "fp8_block", 8) == latent + share + joins + router + norms
    # One layer caches 512 + 64 values, which no rank can share out.
    assert module.kv_bytes_per_token("bf16", 8) == 2 * 576
    # The 14 B parameters of the checkpoint have copies of the embedding and of the output matrix.
    both = 2 * 129_280 * 7168
    assert (latent + rest + experts + 256 * 7168 + 7168 * 2 * 7168 + both) == pytest.approx(R1.mtp_parameters, rel=1e-4)


def test_a_small_model_has_all_of_its_own_weights_and_cache() -> None:
    """1.77 times the KV cache per token, as published (arXiv 2601.11580)."""
    assert draft_model(SMALL).weight_bytes(3) == SMALL.weight_bytes()
    both = QWEN.kv_bytes_per_token() + draft_model(SMALL).kv_bytes_per_token()
    assert both / QWEN.kv_bytes_per_token() == pytest.approx(1.77, abs=0.01)
    assert parallel_model(SMALL).weight_bytes(8) == SMALL.weight_bytes()


def test_medusa_has_a_head_for_each_draft_and_no_cache() -> None:
    assert medusa(LLAMA).weight_bytes(4) == 4 * 2 * (4096 * 4096 + 128_256 * 4096)
    # Each GPU has the residual blocks, and its part of the output matrices.
    assert medusa(LLAMA).weight_bytes(4, tensor=2) == 4 * 2 * (4096 * 4096 + 128_256 * 4096 / 2)
    assert medusa(LLAMA).kv_bytes_per_token() == 0


def test_looking_up_takes_no_memory_of_the_gpu() -> None:
    assert lookup("ngram").weight_bytes(4) == 0 and lookup("ngram").kv_bytes_per_token() == 0


# -- time ---------------------------------------------------------------------------------------------------------


def seconds_of_product(
    gpu: str, dtype: str = "bf16", quantised: float = 0.0, weight: float = 2.0
) -> Callable[..., float]:
    """The formula of a matrix product of so many columns and rows, by hand."""
    profile = CATALOG.gpu(gpu)
    curve = Machine.of(profile, CALIBRATION).kernels.product(dtype)

    def seconds(rows: int, columns: float, deep: float) -> float:
        memory = (weight * columns * deep + 2 * rows * (columns + deep)) / (curve.memory * profile.hbm_bytes_per_s)
        compute = 2 * rows * columns * deep / (curve.compute * profile.peak(dtype))
        more = 0.0
        if quantised:
            more = 2e-6 + rows * deep * (2 + weight) / (quantised * profile.hbm_bytes_per_s)
        return float((memory**3 + compute**3) ** (1 / 3)) + 0.998 * curve.launch_s + more

    return seconds


def test_three_passes_of_eagle3_by_hand() -> None:
    product = seconds_of_product("h100-sxm")
    bandwidth = CATALOG.gpu("h100-sxm").hbm_bytes_per_s

    def layer(rows: int) -> float:
        parts = [(6144, 4096), (4096, 4096), (2 * 14336, 4096), (4096, 14336), (6144, 4096)]
        other = rows * (10 * 4096 + 3 * 14336) * 2 / (0.7 * bandwidth) + 0.998 * 18e-6
        return sum(product(rows, *part) for part in parts) + other

    def rest(requests: int, context: float) -> float:
        """Logits, greedy sampling, the heads of attention, and the context: 4,096 bytes per token."""
        attending = requests * 32 * 1.74e-9 + context * 4096 / (0.945 * bandwidth)
        return product(requests, 32_000, 4096) + requests * 0.3e-6 + attending

    # The first reads 32 tokens; the others one of each request, on a context that has grown by 1 and 2 tokens.
    first = layer(32) + product(32, 4096, 3 * 4096) + rest(8, 10_000)
    later = layer(8) + rest(8, 10_000 + 8 * 1.5)
    total, growth = drafting(eagle3(LLAMA)).cost(verifying(3))
    # A token of context is a whole number of picoseconds.
    assert total == pytest.approx((first + 2 * later) * 1e12, rel=1e-5)
    assert growth == pytest.approx(3 * 8 * 4096 / (0.945 * bandwidth) * 1e12, rel=1e-3)


def test_one_pass_of_the_module_of_deepseek_r1_by_hand() -> None:
    """With weights in blocks of 8 bits, but for what joins state and embedding and the output matrix."""
    wide, narrow = seconds_of_product("h200-sxm"), seconds_of_product("h200-sxm", "fp8_block", 0.986, 1.0)
    bandwidth = CATALOG.gpu("h200-sxm").hbm_bytes_per_s
    rows = 16
    projections = [(1536 + 576, 7168), (128 * 192, 1536), (128 * 256, 512), (7168, 128 * 128)]
    shared = [(2 * 2048, 7168), (7168, 2048)]
    dense = sum(narrow(rows, *part) for part in projections + shared) + wide(rows, 7168, 2 * 7168)
    other = rows * (10 * 7168 + 3 * 9 * 2048) * 2 / (0.7 * bandwidth) + 0.998 * 16e-6
    heads = 128 * 2.22e-9 * 8
    prices = drafting(mtp(R1), "h200-sxm", "fp8_block").prices
    (experts,) = [operator.cost(rows).seconds for _, operator in prices.operators if operator.name == "experts"]
    touched = 256 * (1 - (1 - 8 / 256) ** ((1 - 4.8 * (8 / 256) ** 2) * rows))
    assert experts > touched * 3 * 7168 * 2048 / bandwidth
    logits = wide(8, 129_280, 7168) + 8 * 0.3e-6 * 129_280 / 32_000
    total, _ = drafting(mtp(R1), "h200-sxm", "fp8_block").cost(verifying(1, drafted=8, context=0))
    assert total == pytest.approx((dense + other + heads + experts + logits) * 1e12, rel=1e-9)


def test_the_gpu_waits_for_launches_only_where_scheduling_is_synchronous() -> None:
    ahead, behind = drafting(eagle3(LLAMA)), drafting(eagle3(LLAMA), synchronous=True)
    for shape in (verifying(3), verifying(3, context=10_000_000)):
        waiting = [cost.waiting_ps for _, cost in behind.passes(shape)]
        busy = [cost.total_ps - cost.waiting_ps for _, cost in behind.passes(shape)]
        assert [cost.total_ps for _, cost in ahead.passes(shape)] == busy
        assert all(cost.waiting_ps == 0 for _, cost in ahead.passes(shape))
        # A pass of the one layer is launched in 710 us; what its context takes is not overlapped with that.
        read = [count * sum(ps for ps in ahead.prices.slopes_of(shape)[0]) for count, _ in ahead.passes(shape)]
        contexts = [shape.context[0], shape.context[0] + 12]
        for place, count in enumerate((1, 2)):
            alone = busy[place] - read[place] * contexts[place]
            assert waiting[place] == max(0, count * 710_000_000 - alone) > 0


def test_a_large_drafter_keeps_its_launches_busy() -> None:
    slow = drafting(draft_model(LLAMA), synchronous=True)
    assert all(cost.waiting_ps == 0 for _, cost in slow.passes(verifying(3, requests=4, drafted=12)))


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_pass_without_a_captured_graph_has_its_kernels_launched_one_by_one(synchronous: bool) -> None:
    """28 layers of 300 us each, where 40 tokens are more than the 32 of the largest graph."""
    found = drafting(draft_model(SMALL), synchronous=synchronous)
    begun_ps = 640_000_000 if synchronous else 0
    (_, eager), (_, captured) = found.passes(verifying(2))
    price = found.prices.price(StepShape(40, 40, False, 8, 8, (0,), (8,), (), 0, width=5.0, rows=8))
    assert eager.waiting_ps == begun_ps + 28 * 300_000_000 - price.total_ps + price.host_ps > 0
    assert (captured.waiting_ps > 0) == synchronous
    # With graphs that hold it, the CPU is as fast as for any other pass.
    (_, fits), _ = found.passes(verifying(2, requests=6, drafted=18))
    assert fits.waiting_ps <= begun_ps + 28 * 70_000_000


@pytest.mark.parametrize(("drafter", "more"), [(eagle3(LLAMA), 4.5), (draft_model(SMALL), 7.5)])
def test_later_passes_read_what_was_drafted_before_them(drafter: DrafterSpec, more: float) -> None:
    """Of 3 requests, two passes after the first: 3 and 6 tokens more, in the mean, and a draft model's slots."""
    found = drafting(drafter)
    shapes = [verifying(3, requests=3, drafted=9, context=context) for context in (0, 1)]
    (_, later), (_, grown) = (found.passes(shape)[1] for shape in shapes)
    by_token = grown.total_ps - later.total_ps
    alone = found.prices.price(StepShape(3, 4, True, 3, 3, (0,), (3,), ()))
    besides = sum(found._besides(4, False))
    assert later.total_ps == 2 * (alone.total_ps - alone.host_ps + besides) + math.ceil(more) * by_token


def test_a_draft_model_computes_the_newest_token_beside_those_of_the_step() -> None:
    """A head on hidden states puts it in the place of the oldest one (vLLM ``net_num_new_slots_per_request``)."""
    shape = verifying(1, requests=4, drafted=12)
    small, head = drafting(draft_model(SMALL)), drafting(eagle(LLAMA))
    same = StepShape(20, 24, True, 4, 4, (10_004,), (4,), (), 0, width=5.0, rows=4)
    price = small.prices.price(same)
    assert small.cost(shape)[0] == price.total_ps - price.host_ps
    same = StepShape(16, 16, True, 4, 4, (10_000,), (4,), (), 0, width=4.0, rows=4)
    price, besides = head.prices.price(same), sum(head._besides(16, True))
    assert head.cost(shape)[0] == price.total_ps - price.host_ps + besides


def test_a_parallel_drafter_has_one_pass_with_more_tokens_and_rows() -> None:
    one, many = drafting(parallel_model(SMALL)), drafting(draft_model(SMALL))
    shape = verifying(4, requests=4, drafted=16)
    assert [count for count, _ in one.passes(shape)] == [1]
    assert [count for count, _ in many.passes(shape)] == [1, 3]
    # 20 tokens of the step and four more for each request; 16 rows of logits.
    same = StepShape(36, 36, False, 4, 4, (10_016,), shape.growing, (), 0, width=9.0, rows=16)
    (_, only) = one.passes(shape)[0]
    assert only.total_ps - only.waiting_ps == one.prices.price(same).total_ps - one.prices.price(same).host_ps
    shape = verifying(4, requests=3, drafted=12)
    assert one.cost(shape)[0] < many.cost(shape)[0]


@pytest.mark.parametrize("drafts", [1, 4])
def test_a_parallel_drafter_reads_prompts_where_nobody_decodes(drafts: int) -> None:
    shape = verifying(drafts, requests=0, drafted=0, context=0, chunks=((100, 0), (50, 7)))
    assert drafting(parallel_model(SMALL)).cost(shape)[0] > 0


def test_branches_of_a_tree_are_more_tokens_in_each_later_pass() -> None:
    chain, tree = drafting(eagle(LLAMA)), drafting(eagle(LLAMA), branching=4)
    (_, first), (_, later) = chain.passes(verifying(3))
    (_, wide_first), (_, wide_later) = tree.passes(verifying(3))
    assert wide_first == first
    assert wide_later.total_ps > later.total_ps
    one = StepShape(32, 32, True, 8, 8, (10_012,), (8,), (), 24)
    assert wide_later.memory_ps + wide_later.compute_ps == pytest.approx(
        2 * (tree.prices.price(one).compute_ps + tree.prices.price(one).memory_ps
             + sum(tree._besides(32, False)))
    )  # fmt: skip


def test_prompts_are_read_by_the_first_pass() -> None:
    plain, mixed = verifying(3), verifying(3, chunks=((500, 0),))
    costs = drafting(eagle3(LLAMA)).passes(mixed), drafting(eagle3(LLAMA)).passes(plain)
    assert costs[0][0][1].total_ps > costs[1][0][1].total_ps
    # Later passes draft for the prompt too, and read its tokens.
    assert costs[0][1][1].memory_ps > costs[1][1][1].memory_ps


def test_medusa_by_hand() -> None:
    product = seconds_of_product("h100-sxm")
    machine = Machine.of(CATALOG.gpu("h100-sxm"), CALIBRATION)
    head = product(8, 4096, 4096) + product(8, 128_256, 4096)
    head_of = medusa(LLAMA)
    alone = speculative()._verifying.links
    found = HeadDrafting(products(head_of.each + head_of.whole, 1, machine), alone)
    total, growth = found.cost(verifying(3))
    assert total == pytest.approx(3 * head * 1e12, rel=1e-9)
    assert growth == 0
    # On four GPUs the logits are put together after each head.
    shared = RooflineStepTime(
        LLAMA, CATALOG.gpu("h100-sxm"), tensor=4, weights="auto", kv_cache="bf16", sampling="greedy",
        calibration=CALIBRATION,
    ).links  # fmt: skip
    ((count, cost),) = HeadDrafting(products(head_of.each, 4, machine), shared).passes(verifying(3))
    assert (count, cost.communication_ps) == (3, 3 * shared.gather_ps(8, 1.0))


def test_looking_up_is_a_constant_of_the_cpu() -> None:
    found = LookupDrafting(CALIBRATION)
    assert found.cost(verifying(5)) == found.cost(verifying(1, context=1)) == (39_000_000, 0)
    assert [(phase.resource, phase.ps) for phase in found.phases(verifying(5))] == [("host", 39_000_000)]


def speculative(**changes: Any) -> SpeculativeStepTime:
    plain = RooflineStepTime(
        LLAMA, CATALOG.gpu("h100-sxm"), tensor=1, weights="auto", kv_cache="bf16", sampling="greedy",
        calibration=CALIBRATION,
    )  # fmt: skip
    return SpeculativeStepTime(plain, drafting(eagle3(LLAMA), **changes))


def test_a_step_that_verifies_reads_the_weights_once_and_samples_every_draft() -> None:
    """The layers at 32 tokens, the output matrix at 32 rows."""
    steps = speculative()
    plain, drafted = verifying(0, requests=32, drafted=0), verifying(0)
    more = steps.price(drafted), steps.price(plain)
    assert more[0].memory_ps == pytest.approx(more[1].memory_ps, rel=0.02)
    without = [steps.price(verifying(drafts)).total_ps - steps.price(verifying(drafts)).draft_ps for drafts in (0, 3)]
    assert without[0] == without[1]


def test_where_nothing_is_drafted_the_drafter_reads_along() -> None:
    """Its first pass runs without logits, as in vLLM (``propose``: "to keep the drafter KV cache in sync")."""
    head = drafting(eagle3(LLAMA))
    shape = verifying(0, chunks=((500, 30),))
    ((count, kept),) = head.passes(shape)
    (_, first), *_ = head.passes(verifying(3, chunks=((500, 30),)))
    product = seconds_of_product("h100-sxm")
    logits_ps = (product(9, 32_000, 4096) + 9 * 0.3e-6) * 1e12
    assert count == 1
    assert kept.total_ps == pytest.approx(first.total_ps - logits_ps, rel=1e-6)
    assert drafting(parallel_model(SMALL)).cost(shape)[0] > 0
    assert HeadDrafting([], speculative()._verifying.links).passes(verifying(0)) == []
    assert LookupDrafting(CALIBRATION).passes(verifying(0)) == []


def test_a_drafter_on_several_gpus_waits_for_them() -> None:
    """Two all-reduces of its one layer and the gather of its logits in each pass, as for the model."""
    prices = RooflineStepTime(
        eagle3(LLAMA).model, CATALOG.gpu("h100-sxm"), tensor=4, weights="auto", kv_cache="bf16", sampling="greedy",
        calibration=CALIBRATION,
    )  # type: ignore[arg-type]  # fmt: skip
    machine = Machine.of(CATALOG.gpu("h100-sxm"), CALIBRATION)
    found = ModelDrafting(
        prices, once=products(eagle3(LLAMA).once, 1, machine), each=products(eagle3(LLAMA).each, 4, machine),
        parallel=False, on_states=True, branching=1, graph_sizes=SIZES, synchronous=False, calibration=CALIBRATION,
    )  # fmt: skip
    (_, first), (_, later) = found.passes(verifying(3))
    assert first.communication_ps == prices.links.layers_ps(32, 1.0) + prices.links.gather_ps(8, 1.0)
    assert later.communication_ps == 2 * (prices.links.layers_ps(8, 1.0) + prices.links.gather_ps(8, 1.0))
    shared = verifying(3).sharing(0.5)
    assert found.passes(shared)[0][1].communication_ps > first.communication_ps
    assert sum(phase.ps for phase in found.phases(shared) if phase.resource == "link") == sum(
        cost.communication_ps for _, cost in found.passes(shared)
    )
    assert first.communication_ps > 2 * 32 * 4096 * 2 / CATALOG.gpu("h100-sxm").link_bytes_per_s * 1e12
