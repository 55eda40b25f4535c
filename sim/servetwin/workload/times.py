"""How long somebody waits: the distributions of durations in seconds. A bare number is that constant."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import repeat
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from servetwin.units import seconds_to_ps
from servetwin.workload.base import BareNumber, NonNegative, Part, Positive, check_bounds
from servetwin.workload.draws import Floats, endless, lognormal, picoseconds


class Duration(Part):
    """Base of the distributions of durations."""

    @property
    def only(self) -> float | None:
        """The duration of every draw [s]; None = they differ."""
        return None

    @abstractmethod
    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` durations [s], none negative."""

    def stream(self, generator: np.random.Generator) -> Iterator[int]:
        """Durations [ps] without end, drawn in blocks."""
        return endless(lambda count: picoseconds(self.draw(generator, count)))


class ConstantDuration(Duration):
    """Always the same duration."""

    distribution: Literal["constant"] = "constant"
    value: NonNegative = Field(description="The duration [s].")

    @property
    def only(self) -> float:
        """The value."""
        return self.value

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` times the value [s]; nothing is drawn."""
        del generator
        return np.full(count, self.value)

    def stream(self, generator: np.random.Generator) -> Iterator[int]:
        """The value [ps] without end."""
        del generator
        return repeat(seconds_to_ps(self.value))


class UniformDuration(Duration):
    """Any duration from min to max with equal probability."""

    distribution: Literal["uniform"]
    min: NonNegative = Field(description="Shortest [s].")
    max: NonNegative = Field(description="Longest [s].")

    @model_validator(mode="after")
    def _ordered(self) -> UniformDuration:
        check_bounds(self.min, self.max)
        return self

    @property
    def only(self) -> float | None:
        """``min``, where it is ``max`` too."""
        return self.min if self.min == self.max else None

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` durations [s]."""
        return self.min + (self.max - self.min) * generator.random(count)


class ClippedDuration(Duration):
    """A distribution with bounds; what falls outside is moved to the bound."""

    min: NonNegative = Field(0.0, description="Shortest [s].")
    max: NonNegative = Field(1e9, description="Longest [s].")

    @model_validator(mode="after")
    def _ordered(self) -> ClippedDuration:
        check_bounds(self.min, self.max)
        return self

    @property
    def fixed(self) -> float | None:
        """The duration before clipping [s], where nothing is random."""
        return None

    @property
    def only(self) -> float | None:
        """The fixed duration within the bounds, or both bounds [s]."""
        if self.fixed is not None:
            return min(max(self.fixed, self.min), self.max)
        return self.min if self.min == self.max else None


class ExponentialDuration(ClippedDuration):
    """Exponential."""

    distribution: Literal["exponential"]
    mean: Positive = Field(description="Mean before clipping [s].")

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` durations [s]."""
        return np.clip(self.mean * generator.standard_exponential(count), self.min, self.max)


class LognormalDuration(ClippedDuration):
    """Lognormal by its own mean and standard deviation."""

    distribution: Literal["lognormal"]
    mean: Positive = Field(description="Mean before clipping [s].")
    std: NonNegative = Field(description="Standard deviation before clipping [s].")

    @property
    def fixed(self) -> float | None:
        """The mean, without a deviation [s]."""
        return self.mean if self.std == 0 else None

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` durations [s]."""
        return np.clip(lognormal(generator, count, self.mean, self.std), self.min, self.max)


Durations = Annotated[
    ConstantDuration | UniformDuration | ExponentialDuration | LognormalDuration,
    Field(discriminator="distribution"),
    BareNumber("number"),
]
"""Any distribution of durations [s]; a bare number is that constant."""
