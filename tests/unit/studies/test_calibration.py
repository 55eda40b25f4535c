"""Fitting curves to tables: by hand, against known curves, and what is refused."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servetwin.catalog import Catalog
from servetwin.errors import InputError
from servetwin.physics.overheads import Machine
from servetwin.specs import AttentionCurve, Calibration, ExpertsCurve, KernelConstants, ProductCurve
from servetwin.studies.calibration.curves import alone
from servetwin.studies.calibration.least_squares import fit
from servetwin.studies.calibration.page import BEGIN, END, put_into_page
from servetwin.studies.calibration.read import measured
from servetwin.studies.calibration.residuals import markdown, plain, residual
from servetwin.studies.calibration.samples import (
    DecodeSample,
    ExpertsSample,
    PrefillSample,
    ProductSample,
    Sample,
    is_held_out,
)
from servetwin.studies.calibration.study import calibrate_kernels
from servetwin.studies.calibration.tables import gpus_in
from servetwin.studies.calibration.write import gpu_text

CATALOG = Catalog()
BASE = CATALOG.calibration("default")
H100 = CATALOG.gpu("h100-sxm")
TRUE = KernelConstants(
    products=(("bf16", ProductCurve(0.8, 0.6, 5e-6)), ("fp8", ProductCurve(0.7, 0.5, 8e-6, 0.3))),
    experts=(("bf16", ExpertsCurve(0.7, 0.4, 33e-6, 0.2)),),
    attention=(("bf16", AttentionCurve(0.75, 12e-6, 3e-9, 0.55, 250.0)),),
    mixed_query_tile=1.0,
    sort=1.0,
    quantise_product_s=9e-6,
    quantise_experts_s=9e-6,
)
SHAPES = ((4096, 4096), (8192, 7168), (4096, 14336), (16384, 8192), (65536, 8192), (2048, 2048))


def truth() -> Machine:
    """The kernels of ``TRUE`` by themselves."""
    return Machine(H100, alone(replace(BASE, kernels=(("h100-sxm", TRUE),))).kernels[0][1], alone(BASE))


def samples() -> Iterator[tuple[str, dict[str, object], Sample]]:
    """Shapes as the tables have them."""
    for dtype, name in (("bf16", "bfloat16"), ("fp8", "fp8")):
        for outer, inner in SHAPES:
            for exponent in range(0, 16, 2):
                rows = 2**exponent
                cells: dict[str, object] = {"dtype": name, "m": rows, "n": outer, "k": inner}
                yield "gemm", cells, ProductSample(rows, outer, inner, dtype, 6, 1.0)
    for hidden, inner, top_k, experts in ((4096, 14336, 2, 8), (4096, 1536, 8, 128), (2048, 768, 8, 128)):
        for tensor in (1, 4):
            for tokens in (1, 4, 16, 64, 256, 1024, 4096, 16384):
                visited = float(min(experts, tokens * top_k))
                cells = {
                    "dtype": "bfloat16", "hidden": hidden, "inter": inner, "topk": top_k, "num_experts": experts,
                    "moe_tp": tensor, "moe_ep": 1, "num_tokens": tokens, "token_distribution": "balanced",
                }  # fmt: skip
                yield (
                    "moe",
                    cells,
                    ExpertsSample(tokens, hidden, inner, top_k, experts, tensor, 1, visited, "bf16", 1.0),
                )
    for heads, kv_heads in ((32, 8), (8, 1), (64, 8)):
        for batch in (1, 4, 16, 64, 256):
            for context in (512, 2048, 8192, 32768):
                cells = {
                    "num_heads": heads, "num_kv_heads": kv_heads, "head_dim": 128, "kv_cache_dtype": "bfloat16",
                    "batch": batch,
                }  # fmt: skip
                yield (
                    "decode_attention",
                    {**cells, "context": context},
                    DecodeSample(heads, kv_heads, 128, batch, context, "bf16", 1.0),
                )
                if batch <= 16:
                    yield (
                        "prefill_attention",
                        {**cells, "isl": context},
                        PrefillSample(heads, kv_heads, 128, batch, context, "bf16", 1.0),
                    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tables of an H100 with the kernels of ``TRUE``, without noise."""
    tables: dict[str, list[dict[str, object]]] = {}
    machine = truth()
    for kind, cells, sample in samples():
        tables.setdefault(kind, []).append({**cells, "latency_us": repr(sample.seconds(machine) * 1e6)})
    for kind, rows in tables.items():
        write(tmp_path / f"kernels_{kind}_h100_sxm.csv", rows)
    return tmp_path


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_known_curves_are_found_again(folder: Path) -> None:
    found = calibrate_kernels(folder, CATALOG)
    assert list(found.fitted) == ["h100-sxm"]
    kernels = found.fitted["h100-sxm"]
    for group in ("products", "experts", "attention"):
        for dtype, curve in getattr(TRUE, group):
            made = dict(getattr(kernels, group))[dtype]
            for name in curve.__slots__:
                expected = getattr(curve, name)
                assert getattr(made, name) == (expected and pytest.approx(expected, rel=0.02)), name
    for item in found.residuals:
        assert item.fitted.median is not None and item.fitted.median < 0.003
        assert item.held_out.median is not None and item.held_out.median < 0.003
    # What was not measured comes from the calibration to start from: types, and what is not fitted to kernels.
    before = dict(BASE.kernels)["h100-sxm"]
    assert dict(kernels.experts)["mxfp4"] == dict(before.experts)["mxfp4"]
    assert [dtype for dtype, _ in kernels.attention] == ["bf16", "fp8"]
    assert kernels.quantise_experts_s == dict(BASE.kernels)["h100-sxm"].quantise_experts_s
    assert "0%" in found.error()


def test_the_file_is_the_one_it_starts_from_with_new_curves(folder: Path, tmp_path: Path) -> None:
    found = calibrate_kernels(folder, CATALOG, gpu="H100")
    text = found.text(name="mine", source='a "lab"', date="2026-12-01")
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    read = CATALOG.calibration(str(path))
    assert read.name == "mine"
    # As written: reading a time from microseconds may move its last bit.
    assert gpu_text("h100-sxm", dict(read.kernels)["h100-sxm"]) == gpu_text("h100-sxm", found.fitted["h100-sxm"])
    others = {name: kernels for name, kernels in read.kernels if name != "h100-sxm"}
    assert others == {name: kernels for name, kernels in BASE.kernels if name != "h100-sxm"}
    assert replace(read, name="default", kernels=BASE.kernels, sources=BASE.sources) == BASE
    (entry,) = [(what, said, date) for what, said, date in read.sources if what.startswith("kernels")]
    assert entry[1].startswith('a "lab"; median error') and entry[2] == "2026-12-01"
    assert len(read.sources) == len(BASE.sources)
    assert "# not hidden by asynchronous scheduling" in text, "comments stay"
    # Fitting once more on top of the new file changes nothing but the name.
    again = calibrate_kernels(folder, CATALOG, base=str(path))
    assert again.text(name="mine", source='a "lab"', date="2026-12-01") == text


def test_a_third_of_the_shapes_is_held_out() -> None:
    held = [is_held_out((m, n)) for m in range(60) for n in range(60)]
    assert sum(held) / len(held) == pytest.approx(1 / 3, abs=0.04)
    # Pinned, so that nobody moves the split by accident.
    assert [rows for rows in range(12) if is_held_out((rows, 4096, 4096))] == [4, 7, 9, 10, 11]


def test_rows_that_time_the_cache_are_left_out(folder: Path) -> None:
    """2,048² products in 8 bits: six sets of 4.2 MB lie in the 50 MB of an H100 up to 2,048 rows or so."""
    table = measured(folder, "gemm", "h100_sxm", 50e6)
    left = table.left_out["fp8"]["in L2"]
    small = [2**e for e in range(0, 16, 2) if 6 * 2048 * 2048 + 2 * 2**e * (2048 + 2048) <= 50e6]
    assert left == len(small) == 6
    assert "bf16" not in table.left_out, "six sets of 8.4 MB do not fit"


def test_experts_that_a_benchmark_visits(tmp_path: Path) -> None:
    row: dict[str, object] = {
        "dtype": "bfloat16", "hidden": 4096, "inter": 1536, "topk": 8, "num_experts": 128, "moe_tp": 1, "moe_ep": 8,
        "num_tokens": 4, "token_distribution": "balanced", "latency_us": 90,
    }  # fmt: skip
    skewed = {**row, "token_distribution": "power_law_1.2"}
    write(tmp_path / "kernels_moe_a100.csv", [row, skewed, {**skewed, "moe_ep": 1, "num_tokens": 1000}])
    table = measured(tmp_path, "moe", "a100", 40e6)
    balanced, alone_on_one = table.samples["bf16"]
    # 4 tokens to 8 experts each are 32 of 128, and a rank of eight has 4 of these.
    assert balanced.operand_bytes() == 4 * 3 * 4096 * 1536 * 2
    # 1,000 tokens to 8 of 128 experts each: the power law leaves none idle, for the least loaded gets several.
    assert alone_on_one.operand_bytes() == pytest.approx(128 * 3 * 4096 * 1536 * 2, rel=0.05)
    assert table.left_out["bf16"] == {"load of the rank not recorded": 1}


@given(
    slope=st.floats(1e-3, 1e3), base=st.floats(1e-3, 1e3), spoiled=st.integers(0, 29)
)  # fmt: skip
def test_the_fit_finds_a_line_and_ignores_an_outlier(slope: float, base: float, spoiled: int) -> None:
    points = [1.5**i for i in range(30)]
    line = [base + slope * point for point in points]
    line[spoiled] *= 5.0

    def model(numbers: object) -> list[float]:
        b, s = numbers  # type: ignore[misc]
        return [b + s * point for point in points]

    bounds = [(1e-6, 1e6), (1e-6, 1e6)]
    found = model(fit(model, line, [1.0, 1.0], bounds))
    for index, (priced, measured_) in enumerate(zip(found, line, strict=True)):
        if index != spoiled:
            assert abs(math.log(priced / measured_)) < 0.05


def test_the_fit_stays_within_its_bounds() -> None:
    assert fit(lambda n: [n[0]] * 5, [3.0] * 5, [0.5], [(0.1, 1.0)]) == [pytest.approx(1.0)]
    assert fit(lambda n: [n[0]] * 5, [0.01] * 5, [0.5], [(0.1, 1.0)]) == [pytest.approx(0.1)]

    def of_a_share(numbers: Sequence[float]) -> list[float]:
        assert numbers[0] <= 1.0, "there is nothing beyond the bound"
        return [numbers[0]] * 5

    assert fit(of_a_share, [3.0] * 5, [1.0], [(0.1, 1.0)]) == [1.0]


def test_residuals_by_hand() -> None:
    pairs = [(False, 0.1), (False, -0.3), (False, 0.2), (True, -0.05)]
    item = residual("experts", "h100-sxm", "bf16", 4, pairs, {"in L2": 2})
    assert (item.fitted.count, item.fitted.median, item.fitted.p90) == (3, 0.2, 0.3)
    assert item.fitted.mean == pytest.approx(0.0)
    assert (item.held_out.count, item.held_out.median, item.held_out.mean) == (1, 0.05, -0.05)
    assert "| experts | `h100-sxm` | bf16 | 4 | 3 | 20.0 | 30.0 |" in markdown([item])
    assert markdown([item]).endswith("| 1 | 5.0 | 5.0 | -5.0 | 2 in L2 |")
    assert plain([item]).splitlines()[-1].split()[:6] == ["experts", "h100-sxm", "bf16", "4", "3", "20.0"]
    empty = residual("experts", "h100-sxm", "bf16", 4, [], {})
    assert empty.document()["held_out"] == {"n": 0, "median": None, "p90": None, "mean": None}


def test_a_page_keeps_all_but_the_residuals(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n", encoding="utf-8")
    put_into_page(page, "| new |")
    assert page.read_text(encoding="utf-8") == f"# Title\n\n{BEGIN}\n\n| new |\n\n{END}\n\nThe end.\n"
    put_into_page(tmp_path / "fresh.md", "| new |")
    assert "| new |" in (tmp_path / "fresh.md").read_text(encoding="utf-8")
    page.write_text("# Title\n", encoding="utf-8")
    with pytest.raises(InputError, match="no place"):
        put_into_page(page, "| new |")


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("m", "0", "number"), ("m", "1.5", "number"), ("m", "", "missing"), ("latency_us", "nan", "number"),
        ("latency_us", "-3", "number"), ("dtype", "fp17", "data type"),
    ],
)  # fmt: skip
def test_bad_rows_are_refused_with_their_line(tmp_path: Path, column: str, value: str, complaint: str) -> None:
    good = {"dtype": "bfloat16", "m": "1", "n": "4096", "k": "4096", "latency_us": "20"}
    write(tmp_path / "kernels_gemm_h100.csv", [dict(good), {**good, column: value}])
    with pytest.raises(InputError, match=complaint) as caught:
        calibrate_kernels(tmp_path, CATALOG)
    assert caught.value.path == f"line 3, {column}"


def test_folders_and_gpus_that_are_not_there(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        gpus_in(tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no table of kernels"):
        gpus_in(empty)
    with pytest.raises(InputError, match="no table of this GPU"):
        calibrate_kernels(folder, CATALOG, gpu="b200")
    (folder / "kernels_gemm_rtx9999.csv").write_text("m\n", encoding="utf-8")
    with pytest.raises(InputError, match="no GPU of that name"):
        calibrate_kernels(folder, CATALOG)
    assert list(calibrate_kernels(folder, CATALOG, gpu="h100").fitted) == ["h100-sxm"], "others are not looked at"


def test_a_profile_without_an_l2_size_is_refused(folder: Path) -> None:
    class Without(Catalog):
        def gpu(self, name: str):  # type: ignore[no-untyped-def]
            return replace(super().gpu(name), l2_bytes=None)

    with pytest.raises(InputError, match="L2 cache"):
        calibrate_kernels(folder, Without())


def test_a_new_gpu_gets_curves_and_an_all_reduce_for_its_profile(folder: Path) -> None:
    """One that the calibration has no kernels of, and whose profile has no all-reduce."""

    class Bare(Catalog):
        def gpu(self, name: str):  # type: ignore[no-untyped-def]
            return replace(super().gpu(name), name="mine", all_reduce=())

        def calibration(self, name: str) -> Calibration:
            found = super().calibration(name)
            return replace(found, kernels=tuple(item for item in found.kernels if item[0] == "h200-sxm"))

    sizes = [2**e for e in range(9, 31, 2)]
    rows: list[dict[str, object]] = [
        {"gpu": "h100_sxm", "library": library, "num_gpus": gpus, "bytes": size, "latency_us": 5 + size / 1e5}
        for library in ("vllm 0.24.0 vllm_graph", "nccl 2.29.2") for gpus in (2, 4) for size in sizes
    ]  # fmt: skip
    write(folder / "kernels_allreduce_intranode.csv", rows)
    found = calibrate_kernels(folder, Bare())
    assert list(found.fitted) == ["mine"]
    formula = [item for item in found.residuals if item.operator == "all-reduce"]
    assert [(item.dtype, item.numbers, item.held_out.count) for item in formula] == [
        ("2 GPUs", 0, len(sizes)), ("4 GPUs", 0, len(sizes)),
    ]  # fmt: skip
    text = found.collectives["mine"]
    assert text.startswith("all_reduce:\n  bytes: [512, ")
    assert "    2: [5.01, " in text
