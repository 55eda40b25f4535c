"""How many tokens (or turns): the distributions of whole numbers that a workload may draw from.

In a file a bare number means that constant; otherwise ``distribution:`` names one of the classes below.
Draws are rounded to whole numbers and then *clipped* to ``[min, max]``: what lies outside is moved to the
bound, not drawn again, so the mean shifts a little where the bounds bite.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import pairwise, repeat
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from servetwin.errors import TraceError
from servetwin.workload.base import MAX_TOKENS, BareNumber, Count, NonNegative, Part, Positive, check_bounds
from servetwin.workload.draws import choices, endless, lognormal, whole
from servetwin.workload.traces.format import as_count
from servetwin.workload.traces.lines import line_blocks, resolve


class Length(Part):
    """Base of the distributions of lengths."""

    @property
    def longest(self) -> int | None:
        """The length that no draw exceeds; None = there is none, or a file says it."""
        return None

    @property
    def shortest(self) -> int:
        """The length that every draw has at least."""
        return 1

    @property
    def only(self) -> int | None:
        """The length of every draw; None = they differ, or a file says it."""
        return self.shortest if self.shortest == self.longest else None

    @abstractmethod
    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """``count`` lengths, each at least 1."""

    def stream(self, generator: np.random.Generator, base: Path) -> Iterator[int]:
        """Lengths without end, drawn in blocks.

        Args:
            generator: the random stream that belongs to this purpose alone.
            base: the folder that relative file names are meant from.
        """
        del base
        return endless(lambda count: self.draw(generator, count))


class Clipped(Length):
    """A distribution with bounds."""

    min: Count = Field(1, description="Shortest length; what falls below is moved here.")
    max: Count = Field(MAX_TOKENS, description="Longest length; what falls above is moved here.")

    @model_validator(mode="after")
    def _ordered(self) -> Clipped:
        check_bounds(self.min, self.max)
        return self

    @property
    def fixed(self) -> int | None:
        """The length before clipping, where nothing is random."""
        return None

    @property
    def longest(self) -> int | None:
        """``max``, where it is given, or the only length."""
        if self.fixed is not None:
            return self._clipped(self.fixed)
        return self.max if self.max < MAX_TOKENS else None

    @property
    def shortest(self) -> int:
        """``min``, or the only length."""
        return self.min if self.fixed is None else self._clipped(self.fixed)

    def _clipped(self, length: int) -> int:
        return min(max(length, self.min), self.max)


class ConstantLength(Length):
    """Always the same length."""

    distribution: Literal["constant"] = "constant"
    value: Count = Field(description="The length.")

    @property
    def longest(self) -> int:
        """The value."""
        return self.value

    @property
    def shortest(self) -> int:
        """The value."""
        return self.value

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """``count`` times the value; nothing is drawn."""
        del generator
        return [self.value] * count

    def stream(self, generator: np.random.Generator, base: Path) -> Iterator[int]:
        """The value without end."""
        del generator, base
        return repeat(self.value)


class NormalLength(Clipped):
    """Normal (Gaussian), rounded and clipped."""

    distribution: Literal["normal"]
    mean: Positive = Field(description="Mean before clipping.")
    std: NonNegative = Field(description="Standard deviation before clipping.")

    @property
    def fixed(self) -> int | None:
        """The mean, without a deviation."""
        return round(self.mean) if self.std == 0 else None

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """``count`` lengths, each at least 1."""
        return whole(self.mean + self.std * generator.standard_normal(count), self.min, self.max)


class LognormalLength(Clipped):
    """Lognormal by its own mean and standard deviation: skewed, as real prompts and answers are."""

    distribution: Literal["lognormal"]
    mean: Positive = Field(description="Mean of the lengths themselves, not of their logarithm, before clipping.")
    std: NonNegative = Field(description="Standard deviation of the lengths themselves, before clipping.")

    @property
    def fixed(self) -> int | None:
        """The mean, without a deviation."""
        return round(self.mean) if self.std == 0 else None

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """``count`` lengths, each at least 1."""
        return whole(lognormal(generator, count, self.mean, self.std), self.min, self.max)


class UniformLength(Length):
    """Every whole number from min to max with equal probability."""

    distribution: Literal["uniform"]
    min: Count = Field(description="Shortest length, included.")
    max: Count = Field(description="Longest length, included.")

    @model_validator(mode="after")
    def _ordered(self) -> UniformLength:
        check_bounds(self.min, self.max)
        return self

    @property
    def longest(self) -> int:
        """``max``."""
        return self.max

    @property
    def shortest(self) -> int:
        """``min``."""
        return self.min

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """``count`` lengths, each at least 1."""
        lengths: list[int] = generator.integers(self.min, self.max, count, endpoint=True).tolist()
        return lengths


class ExponentialLength(Clipped):
    """Exponential, rounded and clipped (the service time of M/M/1)."""

    distribution: Literal["exponential"]
    mean: Positive = Field(description="Mean before rounding and clipping.")

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """``count`` lengths, each at least 1."""
        return whole(self.mean * generator.standard_exponential(count), self.min, self.max)


class EmpiricalLength(Length):
    """Drawn from given lengths, with weights if you like.

    The lengths stand in the workload itself (``values``, ``weights``) or in a text file, one a line,
    optionally with a comma and its weight behind it; ``.gz`` is read too.
    """

    distribution: Literal["empirical"]
    values: tuple[Count, ...] = Field((), description="The lengths to draw from.")
    weights: tuple[NonNegative, ...] = Field((), description="The weight of each value; empty = all equal.")
    file: str | None = Field(None, description="Text file with a length, or length,weight, on each line.")

    @model_validator(mode="after")
    def _consistent(self) -> EmpiricalLength:
        if (self.file is None) == (not self.values):
            raise ValueError("give either values or file")
        if self.weights and self.file is not None:
            raise ValueError("weights has no effect beside file, whose lines may have weights: length,weight")
        if self.weights and len(self.weights) != len(self.values):
            raise ValueError(f"{len(self.values)} values need as many weights, found {len(self.weights)}")
        if self.weights and not sum(self.weights) > 0:
            raise ValueError("at least one weight must be above 0")
        return self

    @property
    def longest(self) -> int | None:
        """The largest of ``values``; None = the file says it."""
        return max(self.values, default=None)

    @property
    def shortest(self) -> int:
        """The smallest of ``values``."""
        return min(self.values, default=1)

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """``count`` lengths, each at least 1, from ``values``; those of a file come through ``stream``."""
        weights = np.asarray(self.weights or np.ones(len(self.values)), dtype=np.float64)
        picks = choices(generator, count, np.cumsum(weights))
        lengths: list[int] = np.asarray(self.values, dtype=np.int64)[picks].tolist()
        return lengths

    def stream(self, generator: np.random.Generator, base: Path) -> Iterator[int]:
        """Lengths without end; the file is read once, now."""
        loaded = self if self.file is None else _load(self.file, base)
        values = np.asarray(loaded.values, dtype=np.int64)
        cumulative = np.cumsum(np.asarray(loaded.weights or np.ones(len(values)), dtype=np.float64))
        return endless(lambda count: values[choices(generator, count, cumulative)].tolist())


Percentile = Annotated[float, Field(strict=True, ge=0, le=100)]
"""A percentile, 0 to 100."""


class PercentileLength(Length):
    """By its percentiles, as dashboards and papers give them: straight lines between the points given.

    That the lengths between two percentiles are spread evenly is an assumption: the mean is right only if enough points
    are given, above all in the tail.
    """

    distribution: Literal["percentiles"]
    points: tuple[tuple[Percentile, Count], ...] = Field(
        min_length=2,
        max_length=10_000,
        description="Pairs of a percentile (0 to 100) and the length at it, in ascending order; the first percentile "
        "is 0 (the shortest length), the last 100 (the longest).",
    )

    @model_validator(mode="after")
    def _ascending(self) -> PercentileLength:
        percentiles = [percentile for percentile, _ in self.points]
        if percentiles[0] != 0 or percentiles[-1] != 100:
            raise ValueError("the first percentile is 0, the last 100")
        if any(low >= high for low, high in pairwise(percentiles)):
            raise ValueError("the percentiles must ascend")
        if any(low > high for (_, low), (_, high) in pairwise(self.points)):
            raise ValueError("a length must not be below that of a lower percentile")
        return self

    @property
    def longest(self) -> int:
        """The length at percentile 100."""
        return self.points[-1][1]

    @property
    def shortest(self) -> int:
        """The length at percentile 0."""
        return self.points[0][1]

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """``count`` lengths, each at least 1."""
        percentiles, lengths = zip(*self.points, strict=True)
        return whole(np.interp(100 * generator.random(count), percentiles, lengths), lengths[0], lengths[-1])


def _load(file: str, base: Path) -> EmpiricalLength:
    values: list[int] = []
    weights: list[float] = []
    for first, lines in line_blocks(resolve(file, base), file):
        for offset, line in enumerate(lines):
            text = line.strip()
            if not text:
                continue
            length, comma, weight = text.partition(",")
            value, share = as_count(length.strip()), _weight(weight) if comma else 1.0
            if value is None or share is None:
                raise TraceError(
                    "this line is no length",
                    file=file,
                    path=f"line {first + offset}",
                    found=text,
                    allowed="a whole number ≥ 1, optionally followed by a comma and a weight ≥ 0",
                )
            values.append(value)
            weights.append(share)
    if not sum(weights) > 0:
        raise TraceError("the file holds no length with a weight above 0", file=file)
    return EmpiricalLength(distribution="empirical", values=tuple(values), weights=tuple(weights))


def _weight(text: str) -> float | None:
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if 0 <= weight <= 1e9 else None


Lengths = Annotated[
    ConstantLength
    | NormalLength
    | LognormalLength
    | UniformLength
    | ExponentialLength
    | EmpiricalLength
    | PercentileLength,
    Field(discriminator="distribution"),
    BareNumber("integer"),
]
"""Any distribution of lengths; a bare number is that constant."""
