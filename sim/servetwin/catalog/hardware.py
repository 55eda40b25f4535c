"""GPU profiles: the YAML of ``hardware_profiles/gpus``."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from servetwin.catalog.fields import Fields
from servetwin.catalog.figures import Figures
from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import nearest_name
from servetwin.specs import Gpu

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
        link_bytes_per_s=figures.required(fields, "link", "bytes/s"),
        price_per_hour_usd=figures.optional(fields, "price_per_hour_usd", None),
        tdp_watts=figures.optional(fields, "tdp", "watts"),
        all_reduce=_latencies(fields, figures, "all_reduce"),
        all_gather=_latencies(fields, figures, "all_gather"),
        switch_reduces=fields.flag("switch_reduces"),
        l2_bytes=figures.optional(fields, "l2", "bytes"),
        sources=figures.sources,
        link_domain=_link_domain(fields),
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


def _link_domain(fields: Fields) -> int:
    """GPUs of a node; a profile states it where there are more or fewer than 8."""
    if not fields.has("link_domain"):
        fields.take("link_domain", None)
        return 8
    value = fields.take("link_domain")
    if type(value) is not int or not 1 <= value <= 1024:
        raise fields.error("a number of GPUs is expected", "link_domain", found=value, allowed="from 1 to 1024")
    return value


def _latencies(fields: Fields, figures: Figures, name: str) -> tuple[tuple[int, tuple[tuple[int, float], ...]], ...]:
    """Latency tables of a collective by number of GPUs; optional."""
    if not fields.has(name):
        fields.take(name, None)
        return ()
    inner = fields.inner(name)
    figures.add(name, "table", inner)
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
