"""GPU profiles and calibrations: every figure with its source, and mistakes named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from servetwin.catalog import Catalog
from servetwin.errors import CatalogError

CATALOG = Catalog()
ROOT = Path(__file__).resolve().parents[3] / "hardware_profiles"


@pytest.mark.parametrize("name", CATALOG.names("hardware"))
def test_every_figure_has_a_source_and_a_date(name: str) -> None:
    gpu = CATALOG.gpu(name)
    named = {source.figure for source in gpu.sources}
    assert {"memory", "hbm", "flops.bf16", "link", "price_per_hour_usd", "tdp", "all_reduce"} <= named
    for source in gpu.sources:
        assert len(source.text) > 8
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", source.date)
    assert {gpus for gpus, _ in gpu.all_reduce} == {2, 4, 8}


def test_the_h100() -> None:
    gpu = CATALOG.gpu("h100-sxm")
    assert gpu.memory_bytes == 81_559 * 2**20
    assert gpu.hbm_bytes_per_s == 3.35e12
    assert (gpu.peak("bf16"), gpu.peak("fp8"), gpu.peak("fp16")) == (989e12, 1979e12, 989e12)
    assert gpu.peak("mxfp4") == gpu.peak("bf16"), "it has no 4-bit units"
    assert (gpu.nvlink_bytes_per_s, gpu.tdp_watts) == (450e9, 700)
    assert CATALOG.gpu("a100").peak("fp8") == 312e12
    assert CATALOG.gpu("b200").peak("nvfp4") == 9000e12


@pytest.mark.parametrize("stated", [None, 72, 0, "8", True])
def test_the_gpus_of_a_node(stated: Any, tmp_path: Path) -> None:
    """Eight, unless the profile says otherwise."""
    text = (ROOT / "gpus" / "h100-sxm.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text) | ({} if stated is None else {"nvlink_domain": stated})
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "mine.yaml").write_text(yaml.safe_dump(data))
    if stated in (None, 72):
        assert Catalog([tmp_path]).gpu("mine").nvlink_domain == (stated or 8)
        return
    with pytest.raises(CatalogError, match="number of GPUs") as caught:
        Catalog([tmp_path]).gpu("mine")
    assert caught.value.path == "nvlink_domain"


def test_every_gpu_has_constants() -> None:
    calibration = CATALOG.calibration("default")
    assert {name for name, _ in calibration.kernels} == set(CATALOG.names("hardware"))
    assert calibration.front_end_s == pytest.approx(1.6e-3)
    assert calibration.front_end_s_per_token == pytest.approx(8.4e-6)
    assert calibration.output_s_per_request == pytest.approx(36e-6)


def test_no_constant_is_keyed_by_a_model_and_their_number_is_known() -> None:
    data = yaml.safe_load((ROOT / "calibrations" / "default.yaml").read_text(encoding="utf-8"))
    keys: list[str] = []

    def walk(value: Any) -> int:
        if not isinstance(value, dict):
            return 1
        keys.extend(value)
        return sum(walk(inner) for inner in value.values())

    constants = sum(walk(data[part]) for part in ("roofline", "step", "sampling", "front_end", "output", "memory"))
    assert constants == 18
    assert {walk(kernels) for kernels in data["kernels"].values()} == {14}
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
        (("tdp",), ..., "missing", None),
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
        (("kernels", "h100-sxm", "gemm_memory"), 1.2, "from 0 to 1"),
        (("kernels", "h100-sxm", "kv_memory"), 0, "forever"),
        (("kernels", "h100-sxm", "gemm_launch"), 4.0, "unit"),
        (("kernels", "h100-sxm", "moe_4bit_math"), "int3", "known names"),
        (("kernels", "h100-sxm", "kv_memry"), 0.9, "unknown"),
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
