"""GPU profiles and calibrations: every figure with its source, and mistakes named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from servetwin.catalog import Catalog
from servetwin.errors import CatalogError
from servetwin.specs import Source

CATALOG = Catalog()
ROOT = Path(__file__).resolve().parents[3] / "hardware_profiles"


MEASURED = ("a100-sxm-80gb", "b200-sxm", "gb200-nvl72", "h100-sxm", "h200-sxm", "l40s", "rtx-4090", "rtx-pro-6000")
"""GPUs whose kernels were measured, and but for the RTX 4090 all-reduces too; others take the constants of these."""


def check_sources(sources: tuple[Source, ...]) -> None:
    for source in sources:
        assert len(source.text) > 5
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", source.date)


@pytest.mark.parametrize("name", CATALOG.names("hardware"))
def test_every_figure_has_a_source_and_a_date(name: str) -> None:
    gpu = CATALOG.gpu(name)
    assert gpu.name == name
    named = {source.figure for source in gpu.sources}
    assert {"memory", "hbm", "flops.bf16", "link", "tdp"} <= named
    assert ("price_per_hour_usd" in named) == (gpu.price_per_hour_usd is not None)
    assert ("all_reduce" in named) == bool(gpu.all_reduce)
    check_sources(gpu.sources)
    if name in MEASURED:
        degrees = {"gb200-nvl72": {2, 4}, "rtx-4090": set()}.get(name, {2, 4, 8})
        assert {gpus for gpus, _ in gpu.all_reduce} == degrees
        assert gpu.l2_bytes is not None and 40e6 <= gpu.l2_bytes <= 128 * 2**20
        assert "l2" in named


@pytest.mark.parametrize("name", CATALOG.names("hardware"))
def test_figures_are_of_the_right_size(name: str) -> None:
    """Slips of a factor of a thousand, and sparse peaks: no GPU of these generations does more FLOP per byte."""
    gpu = CATALOG.gpu(name)
    peaks = dict(gpu.flops)
    assert 20 < gpu.memory_bytes / 2**30 < 300
    assert gpu.memory_bytes % 2**20 == 0, "drivers report whole MiB"
    assert 0.29e12 < gpu.hbm_bytes_per_s <= 8e12
    assert 30 < peaks["bf16"] / gpu.hbm_bytes_per_s < 420
    assert peaks.get("fp8", 2 * peaks["bf16"]) == pytest.approx(2 * peaks["bf16"], rel=0.02)
    assert 1.9 <= peaks.get("fp4", 2 * 2 * peaks["bf16"]) / 2 / peaks["bf16"] <= 3.1
    assert 16e9 <= gpu.link_bytes_per_s <= 900e9
    assert gpu.tdp_watts is not None and 70 <= gpu.tdp_watts <= 1400
    assert gpu.price_per_hour_usd is None or 0.3 < gpu.price_per_hour_usd < 15


def test_what_the_units_of_a_gpu_lack_runs_as_bf16() -> None:
    a100, h100, b200 = (CATALOG.gpu(name) for name in ("a100-pcie-80gb", "h100-nvl", "b300-sxm"))
    assert a100.peak("fp8") == a100.peak("bf16") and a100.peak("int8") == 2 * a100.peak("bf16")
    assert h100.peak("nvfp4") == h100.peak("mxfp4") == h100.peak("bf16") < h100.peak("fp8")
    assert b200.peak("nvfp4") > b200.peak("fp8") == b200.peak("mxfp4_mxfp8")
    assert h100.peak("mxfp4_mxfp8") == h100.peak("bf16"), "it has no units for 4 bits with scales"


def test_a_price_and_a_power_are_optional(tmp_path: Path) -> None:
    text = (ROOT / "gpus" / "h100-sxm.yaml").read_text(encoding="utf-8")
    for absent in ({}, {"price_per_hour_usd": None, "tdp": None, "all_reduce": None, "link_domain": None}):
        data = {key: value for key, value in yaml.safe_load(text).items() if key not in ("price_per_hour_usd", "tdp")}
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(data | absent), encoding="utf-8")
        gpu = Catalog().gpu(str(path))
        assert gpu.price_per_hour_usd is None and gpu.tdp_watts is None
        assert bool(gpu.all_reduce) == (not absent)


def test_the_h100() -> None:
    gpu = CATALOG.gpu("h100-sxm")
    assert gpu.memory_bytes == 81_559 * 2**20
    assert gpu.hbm_bytes_per_s == 3.35e12
    assert (gpu.peak("bf16"), gpu.peak("fp8"), gpu.peak("fp16")) == (989e12, 1979e12, 989e12)
    assert gpu.peak("mxfp4") == gpu.peak("bf16"), "it has no 4-bit units"
    assert (gpu.link_bytes_per_s, gpu.tdp_watts) == (450e9, 700)
    assert CATALOG.gpu("a100").peak("fp8") == 312e12
    assert CATALOG.gpu("b200").peak("nvfp4") == 9000e12


@pytest.mark.parametrize("stated", [None, 72, 0, "8", True])
def test_the_gpus_of_a_node(stated: Any, tmp_path: Path) -> None:
    """Eight, unless the profile says otherwise."""
    text = (ROOT / "gpus" / "h100-sxm.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text) | ({} if stated is None else {"link_domain": stated})
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "mine.yaml").write_text(yaml.safe_dump(data))
    if stated in (None, 72):
        assert Catalog([tmp_path]).gpu("mine").link_domain == (stated or 8)
        return
    with pytest.raises(CatalogError, match="number of GPUs") as caught:
        Catalog([tmp_path]).gpu("mine")
    assert caught.value.path == "link_domain"


def test_every_gpu_has_constants() -> None:
    calibration = CATALOG.calibration("default")
    assert sorted(name for name, _ in calibration.kernels) == sorted(MEASURED)
    for name in CATALOG.names("hardware"):
        gpu = CATALOG.gpu(name)
        assert calibration.kernels_for(gpu.name, gpu.architecture) is not None, name


def test_constants_are_read_in_their_units() -> None:
    """Against the text of the file, by hand."""
    written = yaml.safe_load(Path(CATALOG.describe("calibrations", "default")["file"]).read_text(encoding="utf-8"))
    calibration = CATALOG.calibration("default")
    seconds = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    for found, section, name in (
        (calibration.step_s, "step", "host"),
        (calibration.router_s, "step", "router"),
        (calibration.front_end_s, "front_end", "per_request"),
        (calibration.front_end_s_per_token, "front_end", "per_prompt_token"),
        (calibration.output_s_per_request, "output", "per_request"),
    ):
        number, unit = written[section][name].split()
        assert found == pytest.approx(float(number) * seconds[unit])


def test_no_constant_is_keyed_by_a_model_and_their_number_is_known() -> None:
    data = yaml.safe_load((ROOT / "calibrations" / "default.yaml").read_text(encoding="utf-8"))
    keys: list[str] = []

    def walk(value: Any) -> int:
        if not isinstance(value, dict):
            return 1
        keys.extend(value)
        return sum(walk(inner) for inner in value.values())

    constants = sum(
        walk(data[part]) for part in ("roofline", "step", "draft", "sampling", "front_end", "output", "memory")
    )
    assert constants == 32
    # Three numbers a curve of products, four where activations are quantised; four of experts, five of attention.
    curves = {
        "a100-sxm-80gb": 12, "b200-sxm": 45, "gb200-nvl72": 45, "h100-sxm": 33, "h200-sxm": 33, "l40s": 29,
        "rtx-4090": 24, "rtx-pro-6000": 33,
    }  # fmt: skip
    assert {gpu: walk(kernels) - 4 for gpu, kernels in data["kernels"].items()} == curves
    # What TensorRT-LLM's kernels have of their own: products in 8 bits, and no time to find scales.
    own = yaml.safe_load((ROOT / "calibrations" / "trtllm.yaml").read_text(encoding="utf-8"))["kernels"]
    assert {gpu: walk(kernels) for gpu, kernels in own.items()} == dict.fromkeys(
        ("b200-sxm", "gb200-nvl72", "h100-sxm", "h200-sxm"), 9
    )
    models = {re.split(r"[-.\d]", name)[0] for name in CATALOG.names("models")}
    assert not [key for key in keys if any(key.lower().startswith(model) for model in models)]


def edited(tmp_path: Path, folder: str, name: str, where: tuple[str, ...], value: Any) -> str:
    data = yaml.safe_load((ROOT / folder / f"{name}.yaml").read_text(encoding="utf-8"))
    inner = data
    for key in where[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[where[-1]]
    else:
        inner[where[-1]] = value
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("where", "value", "complaint", "path"),
    [
        (("memory", "value"), 80, "unit", "memory.value"),
        (("memory", "value"), "80 TFLOPS", "unit", "memory.value"),
        (("hbm", "source"), ..., "missing", "hbm"),
        (("hbm", "date"), ..., "missing", "hbm"),
        (
            ("flops", "tf32"),
            {"value": "1 TFLOPS", "source": "nobody", "date": "2026-11-30"},
            "no data type",
            "flops.tf32",
        ),
        (("tdp", "value"), "0 W", "above zero", "tdp.value"),
        (("price_per_hour_usd", "value"), -1, "number", "price_per_hour_usd.value"),
        (("price_per_hour_usd", "value"), float("nan"), "number", "price_per_hour_usd.value"),
        (("flops", "bf16"), ..., "bf16", "flops.bf16"),
        (("memorry",), 1, "unknown", "memorry"),
        (("all_reduce", "bytes"), [2, 1], "ascending", "all_reduce.bytes"),
        (("all_reduce", "latency_us", 2), [1.0, 2.0], "one latency per message size", "all_reduce.latency_us.2"),
        (("all_reduce", "latency_us", "two"), [1.0], "number of GPUs", "all_reduce.latency_us.two"),
    ],
)
def test_wrong_profiles_say_where(
    tmp_path: Path, where: tuple[str, ...], value: Any, complaint: str, path: str | None
) -> None:
    with pytest.raises(CatalogError, match=complaint) as caught:
        CATALOG.gpu(edited(tmp_path, "gpus", "h100-sxm", where, value))
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("where", "value", "complaint"),
    [
        (("kernels", "h100-sxm", "products", "bf16", "memory"), 1.2, "from 0 to 1"),
        (("kernels", "h100-sxm", "attention", "bf16", "memory"), 0, "forever"),
        (("kernels", "h100-sxm", "products", "bf16", "launch"), 4.0, "unit"),
        (("kernels", "h100-sxm", "experts", "int3"), {}, "known names"),
        (("kernels", "h100-sxm", "attention", "bf16", "memry"), 0.9, "unknown"),
        (("kernels", "h100-sxm", "products", "bf16"), ..., "bf16 is missing"),
        (("roofline", "power"), float("inf"), "number"),
        (("roofline", "power"), 0.5, "number"),
        (("sampling", "top-p"), ..., "missing"),
        (("architectures", "hopper"), "h900", "no constants"),
        (("sources",), [], "not empty"),
    ],
)
def test_wrong_calibrations_are_refused(tmp_path: Path, where: tuple[str, ...], value: Any, complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint):
        CATALOG.calibration(edited(tmp_path, "calibrations", "default", where, value))


def test_a_calibration_says_only_what_differs_from_its_base(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    head = 'name: mine\nengine: mine 1\nsources:\n  - {what: "step.host", source: "me", date: 2026-12-01}\n'
    path.write_text(f"{head}base: default\nstep: {{host: 2 ms}}\n", encoding="utf-8")
    mine, default = CATALOG.calibration(str(path)), CATALOG.calibration("default")
    assert (mine.name, mine.base, mine.step_s) == ("mine", "default", 2e-3)
    assert (mine.mixed_step_s, mine.kernels) == (default.mixed_step_s, default.kernels)
    assert mine.sources == (("step.host", "me", "2026-12-01"), *default.sources)


@pytest.mark.parametrize(
    ("tail", "complaint"),
    [
        ("base: defualt\n", "no calibration of that name"),
        ("base: sglang\n", "no base of its own"),
        ("base: default\nstep: {hots: 2 ms}\n", "unknown"),
        ("base: default\nstep: {launch: 1.5}\n", "from 0 to 1"),
        ("step: {host: 2 ms}\n", "missing"),
    ],
)
def test_wrong_calibrations_on_a_base_are_refused(tmp_path: Path, tail: str, complaint: str) -> None:
    path = tmp_path / "mine.yaml"
    head = 'name: mine\nengine: mine 1\nsources:\n  - {what: "x", source: "me", date: 2026-12-01}\n'
    path.write_text(head + tail, encoding="utf-8")
    with pytest.raises(CatalogError, match=complaint):
        CATALOG.calibration(str(path))
