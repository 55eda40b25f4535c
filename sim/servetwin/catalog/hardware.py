"""GPU profiles and calibrations: the YAML of ``hardware_profiles/gpus`` and ``hardware_profiles/calibrations``."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from servetwin.catalog.fields import Fields
from servetwin.catalog.figures import Figures
from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import nearest_name
from servetwin.specs import Calibration, Gpu, KernelConstants
from servetwin.specs.calibration import SAMPLING

_MATH = ("bf16", "fp8", "fp4")

PEAKS = ("bf16", "fp8", "int8", "fp4")
"""Data types whose peak a profile may give: bf16 it must, and bf16 stands for those that it leaves out."""


def read_gpu(path: Path) -> Gpu:
    """The GPU that a profile describes. Every figure in it carries its source and date.

    Raises:
        CatalogError: where the profile is malformed.
    """
    fields, figures = Fields(read_mapping(path, "GPU"), str(path)), Figures()
    name, architecture = fields.text("name"), fields.text("architecture")
    fields.strings("aliases")
    flops = fields.inner("flops")
    gpu = Gpu(
        name=name,
        architecture=architecture,
        memory_bytes=round(figures.required(fields, "memory", "bytes")),
        hbm_bytes_per_s=figures.required(fields, "hbm", "bytes/s"),
        flops=tuple((dtype, figures.required(flops, dtype, "flops")) for dtype in flops.names()),
        nvlink_bytes_per_s=figures.required(fields, "link", "bytes/s"),
        price_per_hour_usd=figures.optional(fields, "price_per_hour_usd", None),
        tdp_watts=figures.optional(fields, "tdp", "watts"),
        all_reduce=_all_reduce(fields, figures),
        sources=figures.sources,
        nvlink_domain=_nvlink_domain(fields),
    )
    fields.done()
    peaks = dict(gpu.flops)
    if "bf16" not in peaks:
        raise flops.error("the profile must give the bf16 peak", "bf16", allowed=list(peaks))
    for dtype in peaks:
        if dtype not in PEAKS:
            raise flops.error(
                "this is no data type with a peak of its own", dtype, found=dtype, allowed=PEAKS,
                nearest=nearest_name(dtype, PEAKS),
            )  # fmt: skip
    return gpu


def _nvlink_domain(fields: Fields) -> int:
    """GPUs of a node; a profile states it where there are more or fewer than 8."""
    if not fields.has("nvlink_domain"):
        fields.take("nvlink_domain", None)
        return 8
    value = fields.take("nvlink_domain")
    if type(value) is not int or not 1 <= value <= 1024:
        raise fields.error("a number of GPUs is expected", "nvlink_domain", found=value, allowed="from 1 to 1024")
    return value


def _all_reduce(fields: Fields, figures: Figures) -> tuple[tuple[int, tuple[tuple[int, float], ...]], ...]:
    """Latency tables by number of GPUs; optional."""
    if not fields.has("all_reduce"):
        fields.take("all_reduce", None)
        return ()
    inner = fields.inner("all_reduce")
    figures.add("all_reduce", "table", inner)
    sizes = inner.take("bytes")
    if not _ascending(sizes, int) or len(sizes) < 2:
        raise inner.error(
            "ascending message sizes are expected", "bytes", found=sizes, allowed="at least two, in bytes"
        )
    by_gpus = inner.take("latency_us")
    inner.done()
    if not isinstance(by_gpus, dict):
        raise inner.error("a mapping from the number of GPUs is expected", "latency_us", found=by_gpus)
    tables = []
    for gpus, latencies in by_gpus.items():
        path = f"latency_us.{gpus}"
        if not isinstance(gpus, int) or gpus < 2:
            raise inner.error("a number of GPUs is expected", path, found=gpus, allowed="a whole number ≥ 2")
        if not _ascending(latencies, int, float) or len(latencies) != len(sizes):
            raise inner.error(
                "one latency per message size is expected, none below the one before", path, found=latencies
            )
        tables.append((gpus, tuple((size, us * 1e-6) for size, us in zip(sizes, latencies, strict=True))))
    return tuple(sorted(tables))


def _ascending(values: Any, *kinds: type) -> bool:
    """Whether ``values`` is a list of positive numbers of these types, none below the one before."""
    if not isinstance(values, list) or not all(type(value) in kinds and value > 0 for value in values):
        return False
    return all(left <= right for left, right in pairwise(values))


def read_calibration(path: Path) -> Calibration:
    """The constants in a calibration file.

    Raises:
        CatalogError: where the file is malformed, or an efficiency is not in (0, 1].
    """
    fields = Fields(read_mapping(path, "calibration"), str(path))
    name, engine = fields.text("name"), fields.text("engine")
    fields.strings("aliases")
    sources = tuple(
        (item.text("what"), item.text("source"), str(item.take("date"))) for item in fields.items("sources")
    )
    model, step, sampling = fields.inner("roofline"), fields.inner("step"), fields.inner("sampling")
    front, output, memory = fields.inner("front_end"), fields.inner("output"), fields.inner("memory")
    kernels, architectures = fields.inner("kernels"), fields.inner("architectures")
    calibration = Calibration(
        name=name,
        engine=engine,
        roofline_power=model.number("power", low=1.0, high=64.0),
        prefill_attention=model.share("prefill_attention"),
        tile_attention=model.share("tile_attention"),
        element_wise=model.share("element_wise"),
        moe_compute=model.share("moe_compute"),
        eight_bit_compute=model.share("eight_bit_compute"),
        expert_overlap=model.number("expert_overlap", high=16.0),
        link_efficiency=model.share("link_efficiency"),
        link_latency_s=model.quantity("link_latency", "seconds"),
        step_s=step.quantity("host", "seconds"),
        mixed_step_s=step.quantity("mixed", "seconds"),
        sampling_s=tuple((mode, sampling.quantity(mode, "seconds")) for mode in SAMPLING),
        front_end_s=front.quantity("per_request", "seconds"),
        front_end_s_per_token=front.quantity("per_prompt_token", "seconds"),
        output_s_per_request=output.quantity("per_request", "seconds"),
        unavailable_bytes=memory.quantity("unavailable", "bytes"),
        overhead_bytes=memory.quantity("overhead", "bytes"),
        collectives_bytes=memory.quantity("collectives", "bytes"),
        kernels=tuple((gpu, _kernel_constants(kernels.inner(gpu))) for gpu in kernels.names()),
        architectures=tuple((item, architectures.text(item)) for item in architectures.names()),
        sources=sources,
    )
    for part in (model, step, sampling, front, output, memory, fields):
        part.done()
    for _, representative in calibration.architectures:
        if representative not in dict(calibration.kernels):
            raise architectures.error("this GPU has no constants here", found=representative, allowed=kernels.names())
    return calibration


def _kernel_constants(fields: Fields) -> KernelConstants:
    constants = KernelConstants(
        gemm_memory=fields.share("gemm_memory"),
        gemm_compute=fields.share("gemm_compute"),
        gemm_launch_s=fields.quantity("gemm_launch", "seconds"),
        kv_memory=fields.share("kv_memory"),
        attention_per_request_s=fields.quantity("attention_per_request", "seconds"),
        layer_s=fields.quantity("layer", "seconds"),
        moe_memory=fields.share("moe_memory"),
        moe_launch_s=fields.quantity("moe_launch", "seconds"),
        mixed_query_tile=fields.number("mixed_query_tile", low=1.0, high=256.0),
        sort=fields.number("sort", low=0.01, high=100.0),
        quantise_gemm_s=fields.quantity("quantise_gemm", "seconds"),
        quantise_moe_s=fields.quantity("quantise_moe", "seconds"),
        moe_4bit_memory=fields.share("moe_4bit_memory"),
        moe_4bit_math=fields.choice("moe_4bit_math", _MATH),
    )
    fields.done()
    return constants
