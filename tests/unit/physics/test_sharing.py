"""What the GPUs of a replica share out: tensor ranks, uneven heads, context groups."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from servetwin.catalog import Catalog
from servetwin.errors import CapacityError
from servetwin.physics import operators
from servetwin.physics.itemize import itemize
from servetwin.physics.memory import check_tensor, kv_room
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.specs import Calibration, GroupedAttention
from servetwin.specs.span import Span

CATALOG = Catalog()
DEFAULT = CATALOG.calibration("default")
H100 = CATALOG.gpu("h100-sxm")


def ideal() -> Calibration:
    """Every share 1, every time 0, and the larger of two bounds."""
    changes: dict[str, Any] = {}
    for field in fields(DEFAULT):
        value = getattr(DEFAULT, field.name)
        if field.name.endswith("_s") and isinstance(value, float):
            changes[field.name] = 0.0
        elif field.name in ("element_wise", "link_efficiency", "launch", "experts_launch", "tile_attention"):
            changes[field.name] = 1.0
    kernels = dict(DEFAULT.kernels)["h100-sxm"]

    def best(curve: Any) -> Any:
        values = {
            field.name: 0.0 if field.name.endswith("_s") or field.name == "ramp_tokens" else 1.0
            for field in fields(curve)
        }
        return replace(curve, **values | ({"quantise": None} if "quantise" in values else {}))

    perfect = replace(
        kernels, quantise_product_s=0.0, quantise_experts_s=0.0,
        products=tuple((dtype, best(curve)) for dtype, curve in kernels.products),
        experts=tuple((dtype, best(curve)) for dtype, curve in kernels.experts),
        attention=tuple((dtype, best(curve)) for dtype, curve in kernels.attention),
    )  # fmt: skip
    return replace(DEFAULT, **changes, kernels=(("h100-sxm", perfect),), architectures=())


# Arithmetic alone, for HBM is as fast as one likes.
ARITHMETIC = replace(H100, hbm_bytes_per_s=1e30)


def prices(model: str, tensor: int, **changes: Any) -> RooflineStepTime:
    settings: dict[str, Any] = {
        "weights": "bf16", "kv_cache": "bf16", "sampling": "greedy", "calibration": DEFAULT, "gpu": H100,
    }  # fmt: skip
    settings |= changes
    return RooflineStepTime(CATALOG.model(model), settings.pop("gpu"), tensor=tensor, **settings)


REPEATED = ("attention.down", "attention.index_q", "attention.index_k")
PARTLY = ("attention.qkv", "attention.q_kv_down", "experts", "element-wise")


@pytest.mark.parametrize("tensor", [2, 4, 8, 16])
@pytest.mark.parametrize(
    "model", ["llama-3.1-70b", "deepseek-r1", "deepseek-v3.2", "mixtral-8x7b", "qwen3-next-80b-a3b"]
)
def test_ideal_operators_take_one_nth_or_are_named_as_repeated(model: str, tensor: int) -> None:
    one = prices(model, 1, gpu=ARITHMETIC, calibration=ideal())
    many = prices(model, tensor, gpu=ARITHMETIC, calibration=ideal())
    checked = set()
    for (_, alone), (_, shared) in zip([*one.operators, (1, one.head)], [*many.operators, (1, many.head)], strict=True):
        before, after = alone.cost(256).seconds, shared.cost(256).seconds
        checked.add(alone.name)
        if alone.name in REPEATED:
            assert after == before
        elif alone.name == "logits":
            assert after == pytest.approx(before / tensor, rel=1e-3)  # the vocabulary is padded
        elif alone.name not in PARTLY:
            assert after == pytest.approx(before / tensor, rel=1e-12), alone.name
        elif before:
            assert before / tensor * (1 - 1e-12) <= after < before
    assert "attention.out" in checked


def test_what_is_repeated_is_written_down() -> None:
    text = operators.layer_operators.__doc__ or ""
    for name in (*REPEATED, *PARTLY):
        assert f"``{name}``" in text


def test_weights_are_read_once_over_the_ranks() -> None:
    """One row, no arithmetic: the bytes of the weights are a quarter, those of the full-width activation stay."""
    one, four = (prices("llama-3.1-70b", tensor) for tensor in (1, 4))
    named = {operator.name: operator for _, operator in four.operators}
    for _, alone in one.operators:
        shared = named[alone.name]
        if alone.name.startswith("mlp"):
            assert shared.work(0).bytes_moved == alone.work(0).bytes_moved / 4
    assert named["mlp.up"].work(3).bytes_moved == 2 * 8192 * 2 * 28_672 / 4 + 2 * 3 * (8192 + 2 * 28_672 / 4)


def test_kv_heads_are_repeated_once_there_are_more_ranks() -> None:
    """Llama-3.1-70B has 8 KV heads: with 16 ranks each holds, and reads, one."""
    model = CATALOG.model("llama-3.1-405b")
    attention = model.layers[0].attention
    assert isinstance(attention, GroupedAttention) and attention.kv_heads == 8
    held = {tensor: attention.local_kv_heads(tensor) for tensor in (1, 2, 4, 8, 16, 32)}
    assert held == {1: 8, 2: 4, 4: 2, 8: 1, 16: 1, 32: 1}
    per_token = {tensor: model.kv_bytes_per_token("bf16", tensor) for tensor in (8, 16)}
    assert per_token[8] == per_token[16] == 2 * 126 * 128 * 2
    read = {}
    for tensor in (4, 8, 16):
        shape = StepShape(8, 8, True, 8, 8, (8_000,), (8,))
        items = {item.name: item for item in itemize(prices("llama-3.1-405b", tensor), shape, H100)}
        read[tensor] = items["attention.decode"].bytes_moved
    assert read[4] == 2 * read[8] and read[8] == read[16] == 8_000 * per_token[8]


def test_the_allowed_degrees_and_the_option_are_told() -> None:
    with pytest.raises(CapacityError, match="shared out evenly") as caught:
        check_tensor(CATALOG.model("qwen2.5-14b"), 16)  # 40 heads
    assert caught.value.allowed == ["1", "2", "4", "8"]
    assert "parallel.uneven_heads: true" in str(caught.value.hint)
    check_tensor(CATALOG.model("qwen2.5-14b"), 16, uneven_heads=True)
    with pytest.raises(CapacityError, match="none of its 40 query heads"):
        check_tensor(CATALOG.model("qwen2.5-14b"), 41, uneven_heads=True)


@pytest.mark.parametrize(
    ("tensor", "queries", "keys"),
    # 40 query heads in 8 groups of 5. Of 3 ranks the first has heads 0-13: groups 0-2, the second 14-26: groups 2-5.
    [(3, 14, 4), (5, 8, 3), (6, 7, 3), (7, 6, 2), (16, 3, 2), (40, 1, 1)],
)
def test_uneven_heads_by_hand(tensor: int, queries: int, keys: int) -> None:
    model = CATALOG.model("qwen2.5-14b")
    attention = model.layers[0].attention
    assert isinstance(attention, GroupedAttention)
    assert (attention.heads, attention.kv_heads, attention.head_dim) == (40, 8, 128)
    assert attention.heads_on(tensor) == queries
    assert attention.local_kv_heads(tensor) == keys
    assert attention.local_parameters(5120, tensor) == 5120 * 128 * (2 * queries + 2 * keys)
    if 40 % tensor:
        priced = prices("qwen2.5-14b", tensor, uneven_heads=True, gpu=ARITHMETIC, calibration=ideal())
        alone = prices("qwen2.5-14b", 1, gpu=ARITHMETIC, calibration=ideal())
        named = [{operator.name: operator for _, operator in price.operators} for price in (priced, alone)]
        out, whole = (operators_of["attention.out"].cost(64).seconds for operators_of in named)
        assert out == pytest.approx(whole * queries / 40)
        chunk = ((1000, 0),)
        assert priced.attention.chunks_ps(chunk)[0] == pytest.approx(
            alone.attention.chunks_ps(chunk)[0] * queries / 40, rel=1e-6
        )


def test_uneven_ranks_hold_more_keys_and_have_less_room() -> None:
    step = StepShape(64, 64, True, 64, 64, (64_000,), (64,))
    four, six = (prices("qwen2.5-14b", tensor, uneven_heads=True) for tensor in (4, 6))
    # Two KV heads on each of four ranks, three on the fullest of six.
    assert sum(six.slopes_of(step)[0]) == pytest.approx(1.5 * sum(four.slopes_of(step)[0]), rel=1e-4)
    model = CATALOG.model("qwen2.5-14b")
    blocks = {
        tensor: kv_room(
            model, H100, tensor=tensor, weights="bf16", kv_cache="bf16", gpu_memory_utilization=0.9,
            max_num_batched_tokens=8192, block_size=16, calibration=DEFAULT, uneven_heads=True,
        ).bytes_per_block
        for tensor in (4, 6, 8)
    }  # fmt: skip
    assert blocks[8] < blocks[4] < blocks[6]
    for price in (four, six):
        assert sum(phase.ps for phase in price.phases(step)) == price.price(step).total_ps
        assert sum(item.total_ps for item in itemize(price, step, H100)) == price.price(step).total_ps


def chunk(new: int, before: int = 0, decodes: int = 0, context: int = 1000) -> StepShape:
    tokens = new + decodes
    return StepShape(tokens, tokens, False, decodes + 1, decodes, (decodes * context,), (decodes,), ((new, before),))


def test_context_groups_share_out_prompts_and_nothing_else() -> None:
    one, two = (prices("llama-3.1-70b", 4, context=context) for context in (1, 2))
    decode = StepShape(32, 32, True, 32, 32, (32_000,), (32,))
    assert two.price(decode).total_ps == one.price(decode).total_ps
    assert [phase.kind for phase in two.phases(decode)] == [phase.kind for phase in one.phases(decode)]
    whole, half = one.price(chunk(8192)), two.price(chunk(8192))
    assert 0.5 * whole.total_ps < half.total_ps < 0.62 * whole.total_ps
    # Its own half of the tokens meets the weights, as in a step of half the tokens without groups.
    expected = one.price(chunk(4096))
    items = {item.name: item for item in itemize(two, chunk(8192), H100)}
    plain = {item.name: item for item in itemize(one, chunk(4096), H100)}
    for name in ("mlp.up", "attention.qkv", "element-wise", "all-reduce"):
        assert items[name].total_ps == pytest.approx(plain[name].total_ps, rel=1e-9)
    assert half.host_ps == expected.host_ps
    # Half of the pairs of the whole chunk.
    assert items["attention.prefill"].total_ps == pytest.approx(one.attention.chunks_ps(((8192, 0),))[0] / 2, rel=1e-6)


def test_keys_and_values_are_gathered_in_every_layer() -> None:
    """Llama-3.1-70B on two groups of four: two KV heads of 128 on a rank, keys and values, bf16."""
    price = prices("llama-3.1-70b", 4, context=2)
    step = chunk(1001, before=500, decodes=7)
    items = {item.name: item for item in itemize(price, step, H100)}
    exchange = items["kv-gather"].exchange
    assert exchange is not None
    assert (exchange.calls, exchange.message_bytes) == (80, 2 * 501 * 2 * 2 * 128 * 2)
    assert items["kv-gather"].wire_bytes == 80 * exchange.message_bytes / 2
    assert sum(item.total_ps for item in items.values()) == price.price(step).total_ps
    assert sum(phase.ps for phase in price.phases(step)) == price.price(step).total_ps
    slow = chunk(1001, before=500, decodes=7)
    slow.link_share = 0.5
    assert price.price(slow).communication_ps > price.price(step).communication_ps
    assert price.floor(step)[1] <= price.price(step).communication_ps
    far = prices("llama-3.1-70b", 4, context=2, span=Span(8, 2, (4, 4), 450e9, 50e9, 5e-6))
    near = {phase.kind: phase.ps for phase in price.phases(step)}
    across = {phase.kind: phase.ps for phase in far.phases(step)}
    assert {kind for kind in near if across[kind] != near[kind]} == {"kv-gather"}
    assert across["kv-gather"] > 2 * near["kv-gather"]


@pytest.mark.parametrize("context", [2, 3, 8])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-120b", "deepseek-v3.2", "llama-4-scout"])
def test_items_and_phases_of_context_groups_add_up(model: str, context: int) -> None:
    price = prices(model, 8, weights="auto", context=context)
    for step in (chunk(1), chunk(2047, 9000, 20), chunk(7, 0, 3)):
        step.context = (step.context[0], *(step.context[0] for _ in price.windows))
        step.growing = (step.growing[0], *(0 for _ in price.windows))
        total = price.price(step).total_ps
        assert sum(phase.ps for phase in price.phases(step)) == total
        assert sum(item.total_ps for item in itemize(price, step, H100)) == total
        busy, wire = price.floor(step)
        assert busy <= total and wire <= price.price(step).communication_ps


def test_a_token_alone_gains_nothing() -> None:
    one, eight = (prices("llama-3.1-8b", 1, context=context) for context in (1, 8))
    assert eight.price(chunk(1, 5000)).total_ps >= one.price(chunk(1, 5000)).total_ps


def test_states_cannot_be_shared_out() -> None:
    with pytest.raises(CapacityError, match="state of constant size") as caught:
        prices("qwen3-next-80b-a3b", 4, context=2)
    assert caught.value.path == "parallel.context"
