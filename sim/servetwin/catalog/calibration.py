"""Calibrations: the YAML of ``hardware_profiles/calibrations``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from servetwin.catalog.fields import Fields
from servetwin.catalog.yaml_file import read_mapping
from servetwin.specs import AttentionCurve, Calibration, ExpertsCurve, KernelConstants, ProductCurve
from servetwin.specs.calibration import SAMPLING
from servetwin.specs.dtypes import KV_DTYPES, WEIGHT_DTYPES

_Curve = TypeVar("_Curve")


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
        tile_attention=model.share("tile_attention"),
        element_wise=model.share("element_wise"),
        expert_overlap=model.number("expert_overlap", high=16.0),
        link_efficiency=model.share("link_efficiency"),
        link_latency_s=model.quantity("link_latency", "seconds"),
        step_s=step.quantity("host", "seconds"),
        mixed_step_s=step.quantity("mixed", "seconds"),
        experts_launch=step.share("experts_launch"),
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
        products=_curves(fields, "products", WEIGHT_DTYPES, _product),
        experts=_curves(fields, "experts", WEIGHT_DTYPES, _experts),
        attention=_curves(fields, "attention", KV_DTYPES, _attention),
        mixed_query_tile=fields.number("mixed_query_tile", low=1.0, high=256.0),
        sort=fields.number("sort", low=0.01, high=100.0),
        quantise_product_s=fields.quantity("quantise_product", "seconds"),
        quantise_experts_s=fields.quantity("quantise_experts", "seconds"),
    )
    fields.done()
    return constants


def _curves(
    fields: Fields, name: str, allowed: tuple[str, ...], read: Callable[[Fields], _Curve]
) -> tuple[tuple[str, _Curve], ...]:
    """The curves of one class of kernels by data type; that of bf16 stands in for the types that were not measured."""
    inner = fields.inner(name)
    curves = []
    for dtype in inner.names():
        inner.choice_of(dtype, allowed)
        part = inner.inner(dtype)
        curves.append((dtype, read(part)))
        part.done()
    if "bf16" not in dict(curves):
        raise inner.error("the curve of bf16 is missing", found=inner.names(), allowed=allowed)
    return tuple(curves)


def _product(fields: Fields) -> ProductCurve:
    quantise = fields.share("quantise") if fields.has("quantise") else None
    fields.take("quantise", None)
    return ProductCurve(fields.share("memory"), fields.share("compute"), fields.quantity("launch", "seconds"), quantise)


def _experts(fields: Fields) -> ExpertsCurve:
    return ExpertsCurve(
        fields.share("memory"), fields.share("compute"), fields.quantity("launch", "seconds"), fields.share("routing")
    )


def _attention(fields: Fields) -> AttentionCurve:
    return AttentionCurve(
        fields.share("memory"), fields.quantity("launch", "seconds"), fields.quantity("per_head", "seconds"),
        fields.share("compute"), fields.number("ramp_tokens", high=1e5),
    )  # fmt: skip
