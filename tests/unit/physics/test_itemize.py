"""The items of a step: by hand for one model, and their sum for every shape."""

from __future__ import annotations

import pytest

from servetwin.catalog import Catalog
from servetwin.errors import InvariantError
from servetwin.physics.itemize import COLUMNS, Item, _Account, itemize
from servetwin.physics.operators import Work
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.scenario.slowdown import slow_down

CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")
H100 = CATALOG.gpu("h100-sxm")
KERNELS = CALIBRATION.kernels_for("h100-sxm", "hopper")
assert KERNELS is not None
HOST_PS = round(CALIBRATION.step_s * 1e12)
PRODUCT, ATTENTION = KERNELS.product("bf16"), KERNELS.attending("bf16")


def prices(model: str, gpu: str, tensor: int = 1, weights: str = "auto", sampling: str = "greedy") -> RooflineStepTime:
    return RooflineStepTime(
        CATALOG.model(model), CATALOG.gpu(gpu), tensor=tensor, weights=weights, kv_cache="auto", sampling=sampling,
        calibration=CALIBRATION,
    )  # fmt: skip


def shape(
    batch: int, context: int, windows: tuple[int, ...] = (), chunks: tuple[tuple[int, int], ...] = (), width: int = 1
) -> StepShape:
    tokens = batch * width + sum(new for new, _ in chunks)
    kinds = (None, *windows)
    contexts = tuple(batch * (context if kind is None else min(kind, context)) for kind in kinds)
    growing = tuple(batch if kind is None or context < kind else 0 for kind in kinds)
    return StepShape(
        tokens, tokens, not chunks, batch + len(chunks), batch, contexts, growing, chunks, batch * (width - 1)
    )


def by_name(items: list[Item]) -> dict[str, Item]:
    found = {item.name: item for item in items}
    assert len(found) == len(items)
    return found


def test_a_decode_step_of_llama_by_hand() -> None:
    """Llama-3.1-8B: 32 layers, hidden 4096, 32 heads and 8 KV heads of 128, MLP 14336, vocabulary 128256."""
    items = by_name(itemize(prices("llama-3.1-8b", "h100-sxm"), shape(32, 2000), H100))
    assert set(items) == {
        "attention.qkv", "attention.out", "mlp.up", "mlp.down", "element-wise", "attention.decode",
        "attention.requests", "host", "logits", "sampling",
    }  # fmt: skip
    qkv = items["attention.qkv"]
    assert qkv.layers == 32
    # Weights 6144 x 4096 in bf16, and 32 rows in and out.
    assert qkv.bytes_moved == 32 * 2 * (6144 * 4096 + 32 * (6144 + 4096))
    assert qkv.flops == 32 * 2 * 32 * 6144 * 4096
    memory = qkv.bytes_moved / 32 / (PRODUCT.memory * 3.35e12)
    compute = qkv.flops / 32 / (PRODUCT.compute * 989e12)
    each = (memory**3 + compute**3) ** (1 / 3) + CALIBRATION.launch * PRODUCT.launch_s
    assert qkv.total_ps == pytest.approx(32 * each * 1e12, abs=100)
    assert qkv.floor_s == pytest.approx(qkv.bytes_moved / 3.35e12)
    decode = items["attention.decode"]
    # Keys and values of 8 heads of 128 in bf16, for each token of context; 4 FLOP per head, value and token.
    assert decode.bytes_moved == 32 * 32 * 2000 * 2 * 8 * 128 * 2
    assert decode.flops == 32 * 32 * 2000 * 4 * 32 * 128
    # The price per token of context is a whole number of picoseconds, rounded up.
    assert (
        decode.ps["memory"] == decode.total_ps == 64_000 * -(-(32 * 4096 * 10**12) // round(ATTENTION.memory * 3.35e12))
    )
    assert items["attention.requests"].total_ps == pytest.approx(32 * 32 * 32 * ATTENTION.per_head_s * 1e12, abs=40)
    assert items["host"].ps == {"compute": 0, "memory": 0, "communication": 0, "overhead": HOST_PS}
    assert items["sampling"].total_ps == pytest.approx(32 * 0.3e6 * 128_256 / 32_000, rel=1e-6)


def test_a_prefill_chunk_by_hand() -> None:
    step = shape(0, 0, chunks=((2048, 100),))
    items = by_name(itemize(prices("llama-3.1-8b", "h100-sxm"), step, H100))
    prefill = items["attention.prefill"]
    pairs = 2048 * 100 + 2048 * 2049 // 2
    assert prefill.flops == 32 * pairs * 4 * 32 * 128
    assert prefill.bytes_moved == 32 * 2148 * 2 * 8 * 128 * 2
    assert (
        prefill.ps["compute"]
        == prefill.total_ps
        == pytest.approx(
            (pairs + 2048 * ATTENTION.ramp_tokens) * 32 * 4 * 32 * 128 / (ATTENTION.compute * 989e12) * 1e12, abs=10
        )
    )
    assert "attention.decode" not in items
    # The CPU launches 32 layers while the GPU computes for longer: nothing is added.
    assert items["host"].total_ps == HOST_PS + 50_000_000
    assert items["logits"].flops == 2 * 128_256 * 4096


def test_communication_and_its_floor() -> None:
    items = by_name(itemize(prices("llama-3.1-70b", "h100-sxm", 4), shape(64, 500), H100))
    reduce = items["all-reduce"]
    assert reduce.wire_bytes == 2 * 80 * 64 * 8192 * 2
    assert reduce.ps["communication"] == reduce.total_ps > reduce.wire_bytes / 450e9 * 1e12
    assert reduce.floor_s == pytest.approx(reduce.wire_bytes / 450e9)
    gather = items["gather"]
    # Three quarters of 64 rows of 128,256 logits are with the others.
    assert gather.wire_bytes == 0.75 * 64 * 128_256 * 2
    assert gather.ps["communication"] == gather.total_ps > gather.wire_bytes / 450e9 * 1e12
    assert gather.floor_s == gather.wire_s == pytest.approx(gather.wire_bytes / 450e9)


def test_collectives_are_told_one_by_one() -> None:
    items = by_name(itemize(prices("llama-3.1-70b", "h100-sxm", 4), shape(64, 500), H100))
    reduce, gather = items["all-reduce"].exchange, items["gather"].exchange
    assert reduce is not None and gather is not None and items["logits"].exchange is None
    assert (reduce.calls, reduce.message_bytes, reduce.algorithm) == (160, 64 * 8192 * 2, "measured")
    assert reduce.bus_bytes == 2 * 0.75 * 64 * 8192 * 2
    assert (gather.calls, gather.message_bytes, gather.algorithm) == (1, 64 * 128_256 * 2, "measured")
    assert gather.bus_bytes == 0.75 * gather.message_bytes


def test_the_floor_of_collectives_is_that_of_the_data_sheet_whatever_the_slowdown() -> None:
    gpu, calibration = slow_down(H100, CALIBRATION, 2.0)
    slow = RooflineStepTime(
        CATALOG.model("llama-3.1-70b"), gpu, tensor=4, weights="auto", kv_cache="auto", sampling="greedy",
        calibration=calibration,
    )  # fmt: skip
    plain = prices("llama-3.1-70b", "h100-sxm", 4)
    found, expected = (by_name(itemize(price, shape(64, 500), H100)) for price in (slow, plain))
    for name in ("all-reduce", "gather"):
        assert found[name].wire_s == pytest.approx(expected[name].wire_s)
        assert found[name].total_ps == pytest.approx(2 * expected[name].total_ps, rel=1e-6)


SHAPES = [
    (32, 2000, (), 1), (0, 0, ((2048, 0),), 1), (64, 500, ((512, 100), (30, 0)), 1), (1, 1, (), 1), (200, 900, (), 4),
    (8, 40_000, ((3000, 9000),), 3),
]  # fmt: skip


@pytest.mark.parametrize(("batch", "context", "chunks", "width"), SHAPES)
@pytest.mark.parametrize(
    ("model", "gpu", "tensor", "weights"),
    [
        ("llama-3.1-8b", "h100-sxm", 1, "auto"), ("gpt-oss-120b", "a100-sxm-80gb", 2, "auto"),
        ("deepseek-r1", "b200-sxm", 8, "auto"), ("llama-4-scout", "h200-sxm", 8, "fp8"), ("qwen3-32b", "l4", 8, "int4"),
    ],
)  # fmt: skip
def test_items_add_up_and_nothing_is_left_over(
    model: str, gpu: str, tensor: int, weights: str, batch: int, context: int, chunks: tuple[tuple[int, int], ...],
    width: int,
) -> None:  # fmt: skip
    step_time = prices(model, gpu, tensor, weights, "top-p")
    step = shape(batch, context, step_time.windows, chunks, width)
    items = itemize(step_time, step, CATALOG.gpu(gpu))
    price = step_time.price(step)
    columns = {column: sum(item.ps[column] for item in items) for column in COLUMNS.values()}
    assert columns == {
        "compute": price.compute_ps, "memory": price.memory_ps, "communication": price.communication_ps,
        "overhead": price.host_ps,
    }  # fmt: skip
    for item in items:
        assert item.total_ps + 1 >= item.floor_s * 1e12, item.name


@pytest.mark.parametrize("price", [999, 5000])
def test_operators_add_up_to_the_price_and_what_cannot_is_a_bug(price: int) -> None:
    account = _Account(H100)
    account.operator("a", 1, "memory", 1000.7, [Work(1.0, 1.0)])
    account.operator("b", 1, "memory", 10.6, [Work(1.0, 1.0)])
    account.settle("memory", 1012)
    assert {name: item.ps["memory"] for name, item in account.items.items()} == {"a": 1002, "b": 10}
    wrong = _Account(H100)
    wrong.operator("a", 1, "memory", 1000.7, [])
    with pytest.raises(InvariantError):
        wrong.settle("memory", price)
    with pytest.raises(InvariantError):
        wrong.settle("compute", 1)


def test_only_layers_that_attend_have_prefill_attention() -> None:
    step_time = prices("qwen3-next-80b-a3b", "h100-sxm", 4, "bf16", "greedy")
    items = {item.name: item for item in itemize(step_time, shape(0, 0, step_time.windows, ((100, 0),), 1), H100)}
    assert items["attention.prefill"].layers == 12
