"""How far priced kernels are from measured ones: numbers, and the table that shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of some kernels.

    Attributes:
        count: how many kernels.
        median: of the absolute errors; None where there are none.
        p90: the same, exceeded by one in ten.
        mean: of the signed errors.
    """

    count: int
    median: float | None = None
    p90: float | None = None
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class Residual:
    """The residuals of one class of kernels on one GPU.

    Attributes:
        operator: products, experts, decode attention, prefill attention, all-reduce, all-gather or reduce-scatter.
        gpu: name of the GPU in the catalogue.
        dtype: data type; for a collective the number of GPUs.
        numbers: fitted numbers.
        fitted: on the shapes of the fit.
        held_out: on the shapes that were left out of it.
        left_out: rows of the table that count for neither, by reason.
    """

    operator: str
    gpu: str
    dtype: str
    numbers: int
    fitted: Errors
    held_out: Errors
    left_out: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """Plain data for JSON; shares, not percentages."""
        return {
            "operator": self.operator, "gpu": self.gpu, "dtype": self.dtype, "fitted_numbers": self.numbers,
            **{
                name: {"n": errors.count, "median": errors.median, "p90": errors.p90, "mean": errors.mean}
                for name, errors in (("fit", self.fitted), ("held_out", self.held_out))
            },
            "left_out": dict(self.left_out),
        }  # fmt: skip


def residual(
    operator: str, gpu: str, dtype: str, numbers: int, pairs: Sequence[tuple[bool, float]], left_out: Mapping[str, int]
) -> Residual:
    """Sum up signed relative errors.

    Args:
        operator, gpu, dtype, numbers, left_out: see ``Residual``.
        pairs: for each kernel whether it was held out, and its error.
    """
    fitted, held_out = (_errors([error for was, error in pairs if was is wanted]) for wanted in (False, True))
    return Residual(operator, gpu, dtype, numbers, fitted, held_out, left_out)


def _errors(errors: Sequence[float]) -> Errors:
    if not errors:
        return Errors(0)
    sizes = sorted(abs(error) for error in errors)
    ninth = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    return Errors(len(errors), median(sizes), ninth, fmean(errors))


def markdown(residuals: Sequence[Residual]) -> str:
    """The residuals as a table, in per cent."""
    lines = [
        "| kernels | GPU | type | numbers | fit: n | median | p90 | mean | held out: n | median | p90 | mean "
        "| left out |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for item in residuals:
        cells = [item.operator, f"`{item.gpu}`", item.dtype, str(item.numbers)]
        for errors in (item.fitted, item.held_out):
            cells += [
                str(errors.count),
                _percent(errors.median),
                _percent(errors.p90),
                _percent(errors.mean, sign=True),
            ]
        cells.append(", ".join(f"{count} {reason}" for reason, count in item.left_out.items()) or "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plain(residuals: Sequence[Residual]) -> str:
    """The residuals for a terminal, in per cent."""
    columns = f"{'n':>6}{'median':>8}{'p90':>8}{'mean':>8}"
    lines = [
        f"{'error in %':56}{'fit':^30}{'held out':^30}",
        f"{'kernels, GPU, type':48}{'numbers':>8}{columns}{columns}",
    ]
    for item in residuals:
        line = f"{item.operator:18}{item.gpu:15}{item.dtype:15}{item.numbers:>8}"
        for errors in (item.fitted, item.held_out):
            line += f"{errors.count:>6}{_percent(errors.median):>8}{_percent(errors.p90):>8}"
            line += f"{_percent(errors.mean, sign=True):>8}"
        reasons = ", ".join(f"{count} {reason}" for reason, count in item.left_out.items())
        lines.append(f"{line}  {reasons}".rstrip())
    return "\n".join(lines)


def _percent(share: float | None, *, sign: bool = False) -> str:
    return "–" if share is None else f"{100 * share:{'+' if sign else ''}.1f}"
