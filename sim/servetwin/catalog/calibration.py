"""Calibrations: the YAML of ``hardware_profiles/calibrations``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from servetwin.catalog.fields import Fields
from servetwin.catalog.yaml_file import read_mapping
from servetwin.specs import AttentionCurve, Calibration, ExpertsCurve, KernelConstants, ProductCurve
from servetwin.specs.calibration import SAMPLING
from servetwin.specs.dtypes import KV_DTYPES, WEIGHT_DTYPES

_OWN = ("name", "aliases", "engine", "base", "sources")
"""What a calibration says of itself, whatever its base."""

MOST_OF_A_LAUNCH, MOST_OF_AN_ALL_REDUCE = 1.0, 4.0
"""The largest shares that a step may have: a launch is measured alone, an all-reduce between ranks that are there."""

_Curve = TypeVar("_Curve")


def read_calibration(path: Path, find: Callable[[str], Path]) -> Calibration:
    """The constants in a calibration file; what it does not say is that of its ``base``.

    Args:
        path: the file.
        find: finds the file of another calibration by its name.

    Raises:
        CatalogError: where the file is malformed, or an efficiency is not in (0, 1].
    """
    content = read_mapping(path, "calibration")
    found = _base_of(content, path, find)
    if found is not None:
        below = read_mapping(found[0], "calibration")
        content = _over({name: below[name] for name in below if name not in _OWN}, content)
    fields = Fields(content, str(path))
    name, engine = fields.text("name"), fields.text("engine")
    fields.strings("aliases")
    base = fields.text("base", "")
    sources = tuple(
        (item.text("what"), item.text("source"), str(item.take("date"))) for item in fields.items("sources")
    )
    model, step, sampling = fields.inner("roofline"), fields.inner("step"), fields.inner("sampling")
    front, output, memory = fields.inner("front_end"), fields.inner("output"), fields.inner("memory")
    kernels, architectures, draft = fields.inner("kernels"), fields.inner("architectures"), fields.inner("draft")
    calibration = Calibration(
        name=name,
        engine=engine,
        base=base,
        roofline_power=model.number("power", low=1.0, high=64.0),
        tile_attention=model.share("tile_attention"),
        element_wise=model.share("element_wise"),
        expert_overlap=model.number("expert_overlap", high=16.0),
        link_efficiency=model.share("link_efficiency"),
        link_latency_s=model.quantity("link_latency", "seconds"),
        send_efficiency=model.share("send_efficiency"),
        across_efficiency=model.share("across_efficiency"),
        across_duplex=model.share("across_duplex"),
        across_latency_s=model.quantity("across_latency", "seconds"),
        step_s=step.quantity("host", "seconds"),
        request_step_s=step.quantity("per_request", "seconds"),
        mixed_step_s=step.quantity("mixed", "seconds"),
        scheduling_s=step.quantity("scheduling", "seconds"),
        scheduling_s_per_request=step.quantity("scheduling_per_request", "seconds"),
        draft_pass_s=draft.quantity("pass", "seconds"),
        draft_layer_s=draft.quantity("layer", "seconds"),
        lookup_s=draft.quantity("lookup", "seconds"),
        eager_s=step.quantity("eager", "seconds"),
        experts_eager_s=step.quantity("experts_eager", "seconds"),
        launch=step.number("launch", high=MOST_OF_A_LAUNCH),
        experts_launch=step.number("experts_launch", high=MOST_OF_A_LAUNCH),
        router_s=step.quantity("router", "seconds"),
        all_reduce=step.number("all_reduce", high=MOST_OF_AN_ALL_REDUCE),
        sampling_s=tuple((mode, sampling.quantity(mode, "seconds")) for mode in SAMPLING),
        front_end_s=front.quantity("per_request", "seconds"),
        front_end_s_per_token=front.quantity("per_prompt_token", "seconds"),
        output_s_per_request=output.quantity("per_request", "seconds"),
        unavailable_bytes=memory.quantity("unavailable", "bytes"),
        overhead_bytes=memory.quantity("overhead", "bytes"),
        collectives_bytes=memory.quantity("collectives", "bytes"),
        kernels=tuple((gpu, _kernel_constants(kernels.inner(gpu))) for gpu in kernels.names()),
        architectures=tuple((item, architectures.text(item)) for item in architectures.names()),
        sources=sources if found is None else (*sources, *found[1].sources),
    )
    for part in (model, step, draft, sampling, front, output, memory, fields):
        part.done()
    for _, representative in calibration.architectures:
        if representative not in dict(calibration.kernels):
            raise architectures.error("this GPU has no constants here", found=representative, allowed=kernels.names())
    return calibration


def _base_of(content: dict[str, Any], path: Path, find: Callable[[str], Path]) -> tuple[Path, Calibration] | None:
    """The file that a calibration names as its base, and its constants."""
    if content.get("base") is None:
        return None
    fields = Fields(content, str(path))
    file = find(fields.text("base"))
    # Faults of that file are told with its own name.
    base = read_calibration(file, find)
    if base.base:
        raise fields.error(
            "the base of a calibration has no base of its own", "base", found=content["base"], allowed=base.base
        )
    return file, base


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``; mappings merge."""
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = _over(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


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
