"""A database of measured operators that is small enough to work out by hand."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from servetwin.physics.measured import ExpertShape, Heads, NotMeasuredError


@dataclass
class FakeTables:
    """Straight lines, everything in seconds.

    Attributes:
        without: methods that have nothing.
        scale: multiplies every answer; far below 1 they beat the hardware.
        grid: rows at which matrix products were measured.
        asked: every question.
    """

    without: Collection[str] = ()
    scale: float = 1.0
    grid: Collection[int] = (1, 32)
    name: str = "fake tables"
    asked: list[tuple[object, ...]] = field(default_factory=list)

    def _answer(self, method: str, seconds: float, *arguments: object) -> float:
        if method in self.without:
            raise NotMeasuredError(f"no {method}")
        self.asked.append((method, *arguments))
        return self.scale * seconds

    def gemm(self, rows: int, outer: int, inner: int, dtype: str) -> float:
        size = {"bf16": 2, "fp8": 1}.get(dtype)
        if size is None:
            raise NotMeasuredError(f"no matrix products in {dtype}")
        return self._answer(
            "gemm", 5e-6 + outer * inner * size / 2e12 + rows * outer * inner / 2e14, rows, outer, inner
        )

    def experts(self, rows: int, shape: ExpertShape) -> float:
        return self._answer("experts", 400e-6 + rows * 1e-6, rows, shape)

    def decode(self, requests: int, context: int, heads: Heads) -> float:
        read = requests * min(context, heads.window or context) * heads.keys * heads.dim * 4 / 3e12
        return self._answer("decode", 8e-6 + 0.1e-6 * requests + read, requests, context, heads)

    def prefill(self, new: int, before: int, heads: Heads) -> float:
        pairs = new * before + new * (new + 1) / 2
        return self._answer("prefill", 10e-6 + 4 * pairs * heads.queries * heads.dim / 4e14, new, before, heads)

    def all_reduce(self, values: int, gpus: int) -> float:
        return self._answer("all_reduce", 6e-6 + values * 2 / 2e11, values, gpus)

    def on_grid(self, operator: str, *arguments: object) -> bool:
        return operator == "gemm" and arguments[0] in self.grid
