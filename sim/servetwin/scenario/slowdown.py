"""A slower machine: ``cluster.slowdown`` multiplies the time of every step, exactly."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar

from servetwin.specs import AttentionCurve, Calibration, ExpertsCurve, Gpu, KernelConstants, ProductCurve
from servetwin.specs.span import Span

_Constants = TypeVar("_Constants", KernelConstants, ProductCurve, ExpertsCurve, AttentionCurve)

_Latencies = tuple[tuple[int, tuple[tuple[int, float], ...]], ...]

NOT_IN_STEPS = ("front_end_s", "front_end_s_per_token", "output_s_per_request")
"""Times of a calibration that are no part of a step: a request's way to the waiting queue and its tokens' way out."""


def slow_down(gpu: Gpu, calibration: Calibration, factor: float) -> tuple[Gpu, Calibration]:
    """A GPU and constants whose every step takes ``factor`` times as long.

    All rates are divided and all times multiplied, so that the prices keep their exact form: rounding a
    finished price would break the rule that equal steps differ by a constant. What is no part of a step
    takes as long as before: a request's way to the waiting queue and its tokens' way out (``NOT_IN_STEPS``).

    >>> from servetwin.catalog.find import Catalog
    >>> gpu = Catalog().gpu("h100-sxm")
    >>> slow, _ = slow_down(gpu, Catalog().calibration("default"), 2.0)
    >>> slow.hbm_bytes_per_s * 2 == gpu.hbm_bytes_per_s
    True
    """
    if factor == 1.0:
        return gpu, calibration
    slow_gpu = replace(
        gpu,
        hbm_bytes_per_s=gpu.hbm_bytes_per_s / factor,
        flops=tuple((dtype, peak / factor) for dtype, peak in gpu.flops),
        link_bytes_per_s=gpu.link_bytes_per_s / factor,
        all_reduce=_slow_latencies(gpu.all_reduce, factor),
        all_gather=_slow_latencies(gpu.all_gather, factor),
    )
    times = {
        field.name: getattr(calibration, field.name) * factor
        for field in fields(calibration)
        if is_time(field.name) and field.name not in (*NOT_IN_STEPS, "sampling_s")
    }
    slow_calibration = replace(
        calibration,
        **times,
        sampling_s=tuple((mode, seconds * factor) for mode, seconds in calibration.sampling_s),
        kernels=tuple((name, _slow_kernels(kernels, factor)) for name, kernels in calibration.kernels),
    )
    return slow_gpu, slow_calibration


def is_time(name: str) -> bool:
    """Whether a constant of this name is a time, or one for each of something.

    >>> [is_time(name) for name in ("step_s", "scheduling_s_per_request", "hbm_bytes_per_s", "launch")]
    [True, True, False, False]
    """
    return not name.endswith("_per_s") and (name.endswith("_s") or "_s_per_" in name)


def slow_span(span: Span | None, factor: float) -> Span | None:
    """The wires of a replica, as slow as ``slow_down`` makes the rest."""
    if span is None or factor == 1.0:
        return span
    return replace(
        span,
        inside_bytes_per_s=span.inside_bytes_per_s / factor,
        across_bytes_per_s=span.across_bytes_per_s / factor,
        across_latency_s=span.across_latency_s * factor,
    )


def _slow_latencies(tables: _Latencies, factor: float) -> _Latencies:
    return tuple((gpus, tuple((size, seconds * factor) for size, seconds in table)) for gpus, table in tables)


def _slow_kernels(kernels: KernelConstants, factor: float) -> KernelConstants:
    return _slow_times(
        replace(
            kernels,
            products=tuple((dtype, _slow_times(curve, factor)) for dtype, curve in kernels.products),
            experts=tuple((dtype, _slow_times(curve, factor)) for dtype, curve in kernels.experts),
            attention=tuple((dtype, _slow_times(curve, factor)) for dtype, curve in kernels.attention),
        ),
        factor,
    )


def _slow_times(constants: _Constants, factor: float) -> _Constants:
    """The same with every field that is a time multiplied."""
    times = {field.name: getattr(constants, field.name) * factor for field in fields(constants) if is_time(field.name)}
    return replace(constants, **times)
