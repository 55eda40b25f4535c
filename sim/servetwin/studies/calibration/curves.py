"""Fitting the curves of one GPU to its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from servetwin.errors import InputError
from servetwin.physics.overheads import Machine
from servetwin.specs import AttentionCurve, Calibration, ExpertsCurve, Gpu, KernelConstants, ProductCurve
from servetwin.studies.calibration.least_squares import fit
from servetwin.studies.calibration.read import PER_TENSOR, Measured, measured
from servetwin.studies.calibration.residuals import Residual, residual
from servetwin.studies.calibration.samples import Sample, is_held_out
from servetwin.studies.calibration.tables import DECODE, GEMM, MOE, PREFILL

_SHARE = (0.02, 1.0)
_LAUNCH_S = (1e-6, 1e-3)
_PER_HEAD_S = (1e-10, 1e-5)
_RAMP_TOKENS = (1.0, 4_000.0)
_DIGITS = 3
_FEWEST = 8
"""Samples that a curve needs, fitted ones only."""

_Curve = TypeVar("_Curve", ProductCurve, ExpertsCurve, AttentionCurve)
_Curves = tuple[tuple[str, _Curve], ...]


@dataclass(frozen=True)
class GpuFit:
    """What was fitted for one GPU.

    Attributes:
        gpu: the GPU.
        kernels: its curves.
        residuals: how well they fit, by class of kernels and data type.
    """

    gpu: Gpu
    kernels: KernelConstants
    residuals: tuple[Residual, ...]


def fit_gpu(folder: Path, table: str, kinds: Sequence[str], gpu: Gpu, base: Calibration) -> GpuFit:
    """Fit the curves of a GPU.

    Args:
        folder: where the tables are.
        table: the GPU, as the names of the files have it.
        kinds: which tables the folder holds of it.
        gpu: the same GPU in the catalogue.
        base: where the curves of classes that were not measured come from, and what is not fitted to kernels.

    Returns:
        curves, rounded to three digits as they are written, and their residuals.

    Raises:
        InputError: where the profile does not say how large the L2 cache is, or ``base`` has nothing to stand on.
    """
    if gpu.l2_bytes is None:
        raise InputError(
            "the size of the L2 cache is needed, to tell which kernels time it instead of the memory",
            file=f"profile of {gpu.name}", path="l2", allowed="{value: 50 MB, source: …, date: …}",
        )  # fmt: skip
    kernels = base.kernels_for(gpu.name, gpu.architecture) or next((found for _, found in base.kernels), None)
    if kernels is None:
        raise InputError("the calibration to start from has no kernels", found=base.name)
    fitting = _Fitting(gpu, alone(base), kernels)
    tables = {kind: measured(folder, kind, table, gpu.l2_bytes) for kind in kinds}
    if GEMM in tables:
        fitting.products(tables[GEMM])
    if MOE in tables:
        fitting.experts(tables[MOE])
    if DECODE in tables:
        fitting.attention(tables[DECODE], tables.get(PREFILL))
    return GpuFit(gpu, fitting.kernels, tuple(fitting.residuals))


class _Fitting:
    """The curves of one GPU while they are fitted.

    Args:
        gpu: the GPU.
        alone: the calibration with kernels by themselves, outside a captured graph.
        kernels: curves to start from.
    """

    def __init__(self, gpu: Gpu, alone: Calibration, kernels: KernelConstants) -> None:
        self._gpu, self._alone = gpu, alone
        self.kernels = kernels
        self.residuals: list[Residual] = []

    def products(self, table: Measured) -> None:
        """Curves of matrix products."""
        curves = {}
        for dtype, samples in _enough(table):
            quantised = dtype != "bf16"

            def curve(numbers: Sequence[float]) -> ProductCurve:
                return ProductCurve(*numbers)

            def using(made: ProductCurve, dtype: str = dtype) -> KernelConstants:
                return replace(self.kernels, products=_with_bf16(dtype, made))

            bounds = [_SHARE, _SHARE, _LAUNCH_S, *([_SHARE] if quantised else [])]
            start = [0.85, 0.7, 4e-6, *([0.3] if quantised else [])]
            curves[dtype] = self._fit(curve, using, samples, start, bounds)
            self._score("products", dtype, len(start), samples, using(curves[dtype]), table)
        self.kernels = replace(self.kernels, products=_ordered(curves, self.kernels.products))

    def experts(self, table: Measured) -> None:
        """Curves of mixtures of experts."""
        curves = {}
        for label, samples in _enough(table):
            dtype = "fp8" if label == PER_TENSOR else label

            def curve(numbers: Sequence[float]) -> ExpertsCurve:
                return ExpertsCurve(*numbers)

            def using(made: ExpertsCurve, dtype: str = dtype) -> KernelConstants:
                return replace(self.kernels, experts=_with_bf16(dtype, made))

            made = self._fit(curve, using, samples, [0.8, 0.5, 30e-6, 0.3], [_SHARE, _SHARE, _LAUNCH_S, _SHARE])
            if label != PER_TENSOR:
                curves[label] = made
            self._score("experts", label, 4, samples, using(made), table)
        self.kernels = replace(self.kernels, experts=_ordered(curves, self.kernels.experts))

    def attention(self, decode: Measured, prefill: Measured | None) -> None:
        """Curves of attention: the cache and the constants from decodes, then the arithmetic from prompts."""
        curves = {}
        prompts = dict(_enough(prefill)) if prefill else {}
        for dtype, samples in _enough(decode):
            before = self.kernels.attending(dtype)

            def reading(numbers: Sequence[float], before: AttentionCurve = before) -> AttentionCurve:
                memory, launch_s, per_head_s = numbers
                return replace(before, memory=memory, launch_s=launch_s, per_head_s=per_head_s)

            def using(made: AttentionCurve, dtype: str = dtype) -> KernelConstants:
                return replace(self.kernels, attention=_with_bf16(dtype, made))

            made = self._fit(reading, using, samples, [0.85, 17e-6, 1e-8], [_SHARE, _LAUNCH_S, _PER_HEAD_S])
            self._score("decode attention", dtype, 3, samples, using(made), decode)
            if prefill and dtype in prompts:

                def computing(numbers: Sequence[float], made: AttentionCurve = made) -> AttentionCurve:
                    return replace(made, compute=numbers[0], ramp_tokens=numbers[1])

                made = self._fit(computing, using, prompts[dtype], [0.6, 100.0], [_SHARE, _RAMP_TOKENS])
                self._score("prefill attention", dtype, 2, prompts[dtype], using(made), prefill)
            curves[dtype] = made
        self.kernels = replace(self.kernels, attention=_ordered(curves, self.kernels.attention))

    def _fit(
        self, curve: Callable[[Sequence[float]], _Curve], using: Callable[[_Curve], KernelConstants],
        samples: Sequence[Sample], start: Sequence[float], bounds: Sequence[tuple[float, float]],
    ) -> _Curve:  # fmt: skip
        fitted = [sample for sample in samples if not is_held_out(sample.shape)]

        def model(numbers: Sequence[float]) -> list[float]:
            machine = Machine(self._gpu, given_scales(using(curve(numbers))), self._alone)
            return [sample.seconds(machine) for sample in fitted]

        numbers = fit(model, [sample.measured_s for sample in fitted], start, bounds)
        return curve([_rounded(number) for number in numbers])

    def _score(
        self, operator: str, dtype: str, numbers: int, samples: Sequence[Sample], kernels: KernelConstants,
        table: Measured,
    ) -> None:  # fmt: skip
        machine = Machine(self._gpu, given_scales(kernels), self._alone)
        pairs = [(is_held_out(sample.shape), sample.seconds(machine) / sample.measured_s - 1.0) for sample in samples]
        left_out = table.left_out.get(dtype, {})
        self.residuals.append(residual(operator, self._gpu.name, dtype, numbers, pairs, left_out))


def alone(calibration: Calibration) -> Calibration:
    """A calibration of kernels by themselves, as a benchmark runs them: outside an engine, with given scales."""
    kernels = tuple((gpu, given_scales(constants)) for gpu, constants in calibration.kernels)
    return replace(calibration, launch=1.0, experts_launch=1.0, router_s=0.0, kernels=kernels)


def given_scales(kernels: KernelConstants) -> KernelConstants:
    """Constants of kernels that are given the scales of 8-bit activations."""
    return replace(kernels, quantise_product_s=0.0, quantise_experts_s=0.0)


def _enough(table: Measured) -> Iterable[tuple[str, list[Sample]]]:
    """The samples by data type, bf16 first, of the types that have enough of them."""
    for dtype in sorted(table.samples, key=lambda name: (name != "bf16", name)):
        samples = table.samples[dtype]
        if sum(not is_held_out(sample.shape) for sample in samples) >= _FEWEST:
            yield dtype, samples


def _with_bf16(dtype: str, made: _Curve) -> _Curves[_Curve]:
    """A curve where the data type alone is asked for; bf16 must be there too."""
    return ((dtype, made),) if dtype == "bf16" else ((dtype, made), ("bf16", made))


def _ordered(curves: dict[str, _Curve], before: _Curves[_Curve]) -> _Curves[_Curve]:
    """New curves, and the old ones of the types that were not measured; that of bf16 comes first."""
    old = dict(before)
    return tuple({"bf16": curves.get("bf16", old["bf16"]), **curves, **old, **curves}.items())


def _rounded(number: float) -> float:
    """Three significant digits, for that is what the file holds."""
    return float(f"{number:.{_DIGITS - 1}e}")
