"""Single operators against measured kernels: the tables beside the repository, which the curves are fitted to."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from servetwin.catalog import Catalog
from servetwin.physics.overheads import Machine
from servetwin.studies.calibration.collectives import COLLECTIVES
from servetwin.studies.calibration.curves import alone
from servetwin.studies.calibration.page import BEGIN, END
from servetwin.studies.calibration.read import PER_TENSOR, measured
from servetwin.studies.calibration.residuals import Residual, markdown
from servetwin.studies.calibration.samples import is_held_out
from servetwin.studies.calibration.study import KernelFits, calibrate_kernels
from servetwin.studies.calibration.tables import DECODE, GEMM, MOE, PREFILL, gpus_in, rows

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT.parent / "shared" / "kernels"
CATALOG = Catalog()
BUNDLED = CATALOG.calibration("default")
GPUS = ("a100_sxm", "b200_sxm", "gb200", "h100_sxm", "h200_sxm", "l40s")
CLASSES = {GEMM: "products", MOE: "experts", DECODE: "decode attention", PREFILL: "prefill attention"}


@cache
def fits() -> KernelFits:
    """All curves, fitted again. Only an absent folder is a reason to skip."""
    if not TABLES.parent.exists():
        pytest.skip(f"the measured kernels are not here: {TABLES}")
    return calibrate_kernels(TABLES, CATALOG)


def test_the_tables_are_complete() -> None:
    fits()
    assert tuple(gpus_in(TABLES)) == GPUS
    assert all(len(kinds) == 4 for kinds in gpus_in(TABLES).values())
    classes = {(item.operator, item.gpu, item.dtype) for item in fits().residuals}
    assert len(classes) == len(fits().residuals) == 75 + 2 * 17


@pytest.mark.parametrize("operator", [*CLASSES.values(), "all-reduce"])
def test_shapes_that_were_left_out_of_the_fit_are_within_fifteen_per_cent(operator: str) -> None:
    found = [item for item in fits().residuals if item.operator == operator]
    assert len(found) >= 11
    for item in found:
        assert item.held_out.count >= 5, item
        assert item.held_out.median is not None
        assert item.held_out.median <= 0.15, item
        # A curve that only knows its own shapes would be a table.
        if item.dtype != PER_TENSOR and operator != "all-reduce":
            assert item.fitted.count >= 4 * item.numbers, item


@pytest.mark.parametrize(("operator", "sizes"), [("all-gather", 3), ("reduce-scatter", 12)])
def test_gathers_between_their_sizes_and_backwards(operator: str, sizes: int) -> None:
    """Reduce-scatters are priced as all-gathers; L40S on PCIe take times that hardly follow the size."""
    found = [item for item in fits().residuals if item.operator == operator]
    assert len(found) == 17
    for item in found:
        assert item.held_out.count == sizes
        assert item.held_out.median is not None
        assert item.held_out.median <= (0.25 if item.gpu == "l40s" else 0.12), item


@pytest.mark.parametrize("gpu", GPUS)
def test_the_bundled_curves_are_what_the_command_fits(gpu: str) -> None:
    name = CATALOG.gpu(gpu).name
    again, bundled = fits().fitted[name], dict(BUNDLED.kernels)[name]
    for group in ("products", "experts", "attention"):
        new, old = dict(getattr(again, group)), dict(getattr(bundled, group))
        assert list(new) == list(old)
        for dtype, curve in new.items():
            for field in fields(curve):
                expected = getattr(old[dtype], field.name)
                assert getattr(curve, field.name) == (expected and pytest.approx(expected, rel=0.01))


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("gpu", GPUS)
def test_the_simulator_prices_what_was_scored(gpu: str, kind: str) -> None:
    """The errors of the table, once more, from the bundled file and the operators of the simulator alone."""
    fits()
    profile = CATALOG.gpu(gpu)
    machine = Machine.of(profile, alone(BUNDLED))
    assert profile.l2_bytes is not None
    for dtype, samples in measured(TABLES, kind, gpu, profile.l2_bytes).samples.items():
        if dtype == PER_TENSOR:
            continue
        errors = [abs(s.seconds(machine) / s.measured_s - 1.0) for s in samples if is_held_out(s.shape)]
        (scored,) = _scored(CLASSES[kind], profile.name, dtype)
        assert median(errors) == pytest.approx(scored.held_out.median, abs=1e-9)


def _scored(operator: str, gpu: str, dtype: str) -> list[Residual]:
    return [i for i in fits().residuals if (i.operator, i.gpu, i.dtype) == (operator, gpu, dtype)]


@pytest.mark.parametrize("gpu", GPUS)
def test_no_bundled_curve_beats_a_measured_kernel_by_much(gpu: str) -> None:
    """A mean far below zero would be a curve that hides slow shapes behind its median."""
    for item in fits().residuals:
        if item.operator in COLLECTIVES[1:]:
            continue  # nothing is fitted; see the test of gathers
        if item.gpu == CATALOG.gpu(gpu).name and item.held_out.mean is not None:
            assert -0.12 < item.held_out.mean < 0.16, item


def test_the_documented_residuals_are_current() -> None:
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    written = page.partition(BEGIN)[2].partition(END)[0].strip()
    command = "servetwin calibrate kernels ../shared/kernels --table docs/kernels.md"
    assert written == markdown(fits().residuals), f"run: {command}"
    sources = {what: text for what, text, _ in BUNDLED.sources}
    assert fits().error() in sources["kernels.*.products, experts, attention"]


@pytest.mark.parametrize("gpu", ["a100_sxm", "l40s"])
def test_attention_over_short_contexts(gpu: str) -> None:
    """The share of peak arithmetic of FlashAttention 2 that ``tile_attention`` stands for."""
    fits()
    shares = [
        float(row.text("frac_of_peak_bf16"))
        for row in rows(TABLES, PREFILL, gpu)
        if row.text("isl") in ("1024", "2048") and row.count("batch") >= 4 and row.text("kv_cache_dtype") == "bfloat16"
    ]
    share = BUNDLED.tile_attention
    assert min(shares) < share < max(shares)
    assert median(shares) == pytest.approx(share, abs=0.06)
