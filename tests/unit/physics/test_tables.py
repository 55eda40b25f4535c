"""Steps priced from measured operators: by hand on a small database, and what happens where it has nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.physics.fake_tables import FakeTables

from servetwin.catalog import Catalog
from servetwin.physics.itemize import itemize
from servetwin.physics.measured import Heads, NotMeasuredError
from servetwin.physics.protocols import StepShape
from servetwin.physics.step_time import RooflineStepTime
from servetwin.physics.table_attention import CONTEXTS, relative_line
from servetwin.physics.tables import TableStepTime

CATALOG = Catalog()
CALIBRATION = CATALOG.calibration("default")
H100 = CATALOG.gpu("h100-sxm")


def prices(
    model: str = "llama-3.1-8b", tensor: int = 1, tables: FakeTables | None = None, **more: Any
) -> TableStepTime:
    return TableStepTime(
        CATALOG.model(model), H100, tensor=tensor, weights="auto", kv_cache="bf16", sampling="greedy",
        calibration=CATALOG.calibration("default"), database=tables or FakeTables(), **more,
    )  # fmt: skip


def roofline(model: str = "llama-3.1-8b", tensor: int = 1) -> RooflineStepTime:
    return RooflineStepTime(
        CATALOG.model(model), H100, tensor=tensor, weights="auto", kv_cache="bf16", sampling="greedy",
        calibration=CATALOG.calibration("default"),
    )  # fmt: skip


def step(
    of: RooflineStepTime, batch: int, context: int, chunks: tuple[tuple[int, int], ...] = (), width: int = 1
) -> StepShape:
    kinds = (None, *of.windows)
    tokens = batch * width + sum(new for new, _ in chunks)
    return StepShape(
        tokens, tokens, not chunks, batch + len(chunks), batch,
        tuple(batch * (context if kind is None else min(context, kind)) for kind in kinds),
        tuple(batch if kind is None or context < kind else 0 for kind in kinds), chunks, batch * (width - 1),
    )  # fmt: skip


def by_name(of: TableStepTime, shape: StepShape) -> dict[str, Any]:
    return {item.name: item for item in itemize(of, shape, H100)}


def test_a_decode_step_by_hand() -> None:
    """32 requests at 1,000 tokens on Llama-3.1-8B: 32 layers, 6,144 × 4,096 for queries, keys and values."""
    of = prices()
    items = by_name(of, step(of, 32, 1_000))
    qkv = 32 * (5e-6 + 6_144 * 4_096 * 2 / 2e12 + 32 * 6_144 * 4_096 / 2e14)
    assert items["attention.qkv"].total_ps == pytest.approx(qkv * 1e12, rel=1e-9)
    # The fake attention is a straight line, which the fit finds: constant and slope.
    assert items["attention.decode"].total_ps == pytest.approx(32 * 32_000 * 8 * 128 * 4 / 3e12 * 1e12, rel=1e-4)
    assert items["attention.requests"].total_ps == pytest.approx(32 * (8e-6 + 32 * 0.1e-6) * 1e12, rel=1e-4)
    # Of the 18 us that launching attention takes by its curve, the table has 8.1 too; a share of the rest is left.
    traffic = 32 * (10 * 4_096 + 3 * 14_336) * 2 / (0.7 * 3.35e12)
    assert items["element-wise"].total_ps == pytest.approx(
        32 * (traffic + CALIBRATION.launch * (18e-6 - 8.1e-6)) * 1e12, rel=1e-4
    )
    assert items["host"].ps == {
        "compute": 0,
        "memory": 0,
        "communication": 0,
        "overhead": round(CALIBRATION.step_s * 1e12),
    }
    assert of.remarks() == []


def test_chunks_by_hand() -> None:
    """Each chunk without its launch, and one launch: of the decodes, or of the chunks where nobody decodes."""
    of = prices()
    alone = of.price(step(of, 0, 0, ((512, 0),))).total_ps
    chunk = 4 * 512 * 513 / 2 * 32 * 128 / 4e14
    items = by_name(of, step(of, 0, 0, ((512, 0),)))
    launch = 10e-6 + 4 * 1 * 32 * 128 / 4e14
    assert items["attention.requests"].total_ps == pytest.approx(32 * launch * 1e12, rel=1e-6)
    assert items["attention.prefill"].total_ps == pytest.approx(32 * (10e-6 + chunk - launch) * 1e12, rel=1e-4)
    two = by_name(of, step(of, 0, 0, ((512, 0), (512, 0))))["attention.prefill"].total_ps
    assert two == pytest.approx(2 * items["attention.prefill"].total_ps, rel=1e-6)
    assert by_name(of, step(of, 32, 1_000, ((512, 0),)))["attention.requests"].total_ps == pytest.approx(
        32 * (8e-6 + 3.2e-6) * 1e12, rel=1e-4
    )
    assert alone == sum(item.total_ps for item in items.values())


class _FewTables(FakeTables):
    """Attention of one request, and of chunks up to 100 tokens."""

    def decode(self, requests: int, context: int, heads: Heads) -> float:
        if requests > 1:
            raise NotMeasuredError("no such batch")
        return super().decode(requests, context, heads)

    def prefill(self, new: int, before: int, heads: Heads) -> float:
        if new > 100:
            raise NotMeasuredError("no such chunk")
        return super().prefill(new, before, heads)


def test_batches_and_chunks_that_are_not_measured_follow_the_curve_of_attention() -> None:
    """Curve of H100 in bf16: 0.945 of 3.35 TB/s, 1.74 ns per head; 0.693 of 989 TFLOPS, 502 tokens of ramp."""
    of = prices(tables=_FewTables())
    launch = 10e-6 + 4 * 1 * 32 * 128 / 4e14
    decode = by_name(of, step(of, 32, 1_000))
    read = 32_000 * 8 * 128 * 4 / (0.945 * 3.35e12)
    assert decode["attention.decode"].total_ps == pytest.approx(32 * read * 1e12, rel=1e-4)
    assert decode["attention.requests"].total_ps == pytest.approx(32 * (launch + 32 * 32 * 1.74e-9) * 1e12, rel=1e-4)
    chunk = by_name(of, step(of, 0, 0, ((512, 0),)))
    pairs = 512 * 513 / 2 + 512 * 502
    assert chunk["attention.prefill"].total_ps == pytest.approx(
        32 * pairs * 4 * 32 * 128 / (0.693 * H100.peak("bf16")) * 1e12, rel=1e-4
    )


def test_all_reduces_by_hand() -> None:
    of = prices("llama-3.1-70b", 4)
    found = by_name(of, step(of, 64, 500))["all-reduce"].total_ps
    each_s = CALIBRATION.all_reduce * (6e-6 + 64 * 8_192 * 2 / 2e11)
    assert found == pytest.approx(160 * each_s * 1e12, rel=1e-9)


def test_experts_come_from_the_table() -> None:
    of = prices("mixtral-8x7b", 2)
    assert by_name(of, step(of, 16, 300))["experts"].total_ps == pytest.approx(32 * 416e-6 * 1e12, rel=1e-6)


@pytest.mark.parametrize(
    ("without", "same", "said"),
    [
        ("gemm", ("attention.qkv", "attention.out", "mlp.up", "mlp.down", "logits"), "attention.qkv"),
        ("decode", ("attention.decode", "attention.requests", "element-wise"), "attention.decode"),
        ("prefill", ("attention.decode", "attention.requests", "element-wise"), "attention.prefill"),
        ("experts", ("experts",), "experts"),
        ("all_reduce", ("all-reduce",), "all-reduce"),
    ],
)
def test_what_is_not_measured_falls_back_on_the_roofline(without: str, same: tuple[str, ...], said: str) -> None:
    model = "mixtral-8x7b" if without == "experts" else "llama-3.1-70b"
    of, plain = prices(model, 4, FakeTables(without=[without])), roofline(model, 4)
    items = by_name(of, step(of, 32, 1_000))
    expected = {item.name: item for item in itemize(plain, step(plain, 32, 1_000), H100)}
    for name in same:
        assert items[name].total_ps == pytest.approx(expected[name].total_ps, abs=100), name
    (remark,) = of.remarks()
    assert said in remark and f"no {without}" in remark and "the roofline prices" in remark
    provenance = {name: item.provenance for name, item in items.items()}
    measured = {"attention.decode", "all-reduce", "attention.qkv", "experts"} & provenance.keys()
    assert {name for name in measured if provenance[name] == "fallback"} == measured & {*same, said}


def test_without_any_table_the_price_is_that_of_the_roofline() -> None:
    nothing = FakeTables(without=["gemm", "decode", "prefill", "experts", "all_reduce"])
    for model in ("llama-3.1-70b", "gpt-oss-120b", "deepseek-r1"):
        of, plain = prices(model, 8, nothing), roofline(model, 8)
        for shape in (step(of, 32, 1_000), step(of, 3, 90, ((700, 0), (30, 2_000))), step(of, 8, 500, width=4)):
            found, expected = of.price(shape), plain.price(shape)
            assert found.total_ps == pytest.approx(expected.total_ps, abs=10)
            assert found.growth_ps == pytest.approx(expected.growth_ps, abs=10 * max(shape.decodes, 1))


def test_latent_attention_is_not_looked_up() -> None:
    of = prices("deepseek-r1", 8)
    of.price(step(of, 8, 100))
    (remark,) = [text for text in of.remarks() if "does not have" in text]
    assert "attention.decode, attention.prefill (of attention, only the grouped kind is looked up)" in remark


def test_provenance() -> None:
    of = prices()
    found = {name: item.provenance for name, item in by_name(of, step(of, 32, 1_000)).items()}
    assert found["attention.qkv"] == found["logits"] == "table"
    assert found["attention.decode"] == found["attention.requests"] == "interpolated"
    assert found["element-wise"] == found["host"] == found["sampling"] == "roofline"
    other = prices()
    assert by_name(other, step(other, 33, 1_000))["attention.qkv"].provenance == "interpolated"
    plain = roofline()
    assert {item.provenance for item in itemize(plain, step(plain, 32, 1_000), H100)} == {"roofline"}


def test_a_slower_machine_is_slower_by_as_much() -> None:
    of, slow = prices(), prices(slowdown=3.0)
    one, three = (x.price(step(x, 32, 1_000)).memory_ps for x in (of, slow))
    # Only measurements are multiplied here; GPU and calibration are slowed down by the scenario.
    assert 2.5 < three / one < 3.0


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "gpt-oss-20b"])
def test_impossible_measurements_are_raised_to_the_floor_and_counted(model: str) -> None:
    of = prices(model, 2, FakeTables(scale=1e-3))
    for shape in (step(of, 64, 4_000), step(of, 0, 0, ((2_048, 0),)), step(of, 5, 100, ((100, 3_000),))):
        price, (busy, wire) = of.price(shape), of.floor(shape)
        assert price.compute_ps + price.memory_ps > busy or not of.windows
        flops, moved = of.work(
            shape.tokens, shape.requests, shape.context[0] + sum(n + b for n, b in shape.chunks),
            shape.context[0] + sum(n * b + n * (n + 1) // 2 for n, b in shape.chunks),
        )  # fmt: skip
        if not of.windows:
            least = max(flops / H100.peak("bf16"), moved / H100.hbm_bytes_per_s) / 2
            assert price.compute_ps + price.memory_ps >= least * 1e12
        assert price.communication_ps >= wire >= 0
    (remark,) = [text for text in of.remarks() if "beat the data sheet" in text]
    assert "attention.qkv (" in remark and "attention.decode" in remark and "all-reduce (" in remark


@settings(deadline=None)
@given(
    batch=st.integers(0, 300), context=st.integers(1, 9_000), new=st.integers(0, 900), before=st.integers(0, 9_000),
    width=st.sampled_from([1, 4]), model=st.sampled_from(["llama-3.1-8b", "gpt-oss-20b"]),
)  # fmt: skip
def test_prices_are_affine_and_phases_add_up(
    batch: int, context: int, new: int, before: int, width: int, model: str
) -> None:
    if not batch and not new:
        return
    of = prices(model)
    shape = step(of, batch, context, ((new, before),) if new else (), width)
    price = of.price(shape)
    assert sum(phase.ps for phase in of.phases(shape)) == price.total_ps
    assert sum(item.total_ps for item in itemize(of, shape, H100)) == price.total_ps
    for later in (1, 1_000):
        if later >= price.lasts:
            continue
        shape.context = tuple(
            c + later * g for c, g in zip(step(of, batch, context).context, shape.growing, strict=True)
        )
        assert of.price(shape).total_ps == price.total_ps + later * price.growth_ps
        assert of.price(shape).compute_ps == price.compute_ps + later * price.compute_growth_ps


def test_tables_are_asked_once() -> None:
    tables = FakeTables()
    of = prices(tables=tables)
    shape = step(of, 32, 1_000, ((100, 0),))
    of.price(shape)
    asked = len(tables.asked)
    for _ in range(3):
        of.price(shape)
    assert len(tables.asked) == asked
    of.price(step(of, 32, 5_000, ((100, 0),)))
    assert len(tables.asked) == asked, "another context is the same line"


def test_the_line_of_least_relative_squares() -> None:
    assert relative_line([1, 2, 4], [3e-6, 5e-6, 9e-6], 0.0) == pytest.approx((1e-6, 2e-6))
    # A flat beginning, as of a cache that fits into the chip: the slope of the hardware holds.
    constant, slope = relative_line([1, 2, 4], [1e-6, 1e-6, 1e-6], 1e-7)
    assert slope == 1e-7 and 0 < constant < 1e-6
    # No negative constant: then the line goes through the origin.
    constant, slope = relative_line([1, 2, 4], [1e-9, 2e-6, 9e-6], 0.0)
    assert constant == 0.0 and slope > 0


@given(
    constant=st.floats(1e-7, 1e-4), slope=st.floats(1e-10, 1e-6), floor=st.floats(0, 1e-6),
    noise=st.lists(st.floats(0.7, 1.3), min_size=len(CONTEXTS), max_size=len(CONTEXTS)),
)  # fmt: skip
def test_a_line_never_undercuts_its_floor(constant: float, slope: float, floor: float, noise: list[float]) -> None:
    seconds = [(constant + slope * x) * f for x, f in zip(CONTEXTS, noise, strict=True)]
    found, per_token = relative_line([float(x) for x in CONTEXTS], seconds, floor)
    assert found >= 0.0 and per_token >= floor
