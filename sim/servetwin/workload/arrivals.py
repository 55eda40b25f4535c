"""When requests come: the arrival processes.

``process: poisson`` may be left out. All but ``closed-loop`` are *open*: arrivals do not care how the system
fares. With sessions, an arrival is the start of a session.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, chain, count, cycle, repeat
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from servetwin.streams import BLOCK
from servetwin.units import PS_PER_S, seconds_to_ps
from servetwin.workload.base import Count, Flag, NonNegative, Part, Positive
from servetwin.workload.draws import Floats, picoseconds
from servetwin.workload.times import ConstantDuration, Durations


class ArrivalProcess(Part):
    """Base of the arrival processes."""

    @property
    def finite(self) -> bool:
        """Whether the arrivals end by themselves."""
        return False

    @property
    def pace(self) -> tuple[str, object]:
        """The field that sets how far apart the open arrivals are, and its value."""
        for field in ("rate_per_s", "interval_s", "stages", "ramp_s"):
            if field in type(self).model_fields:
                value = getattr(self, field)
                return field, [item.model_dump() for item in value] if isinstance(value, tuple) else value
        raise AssertionError("every process has one of these fields")

    @abstractmethod
    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The open arrivals [ps], ascending; those of a closed loop are its clients' first requests."""


class Poisson(ArrivalProcess):
    """Independent exponential gaps: many users who know nothing of each other."""

    process: Literal["poisson"] = "poisson"
    rate_per_s: Positive = Field(description="Mean arrivals per second.")

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        return _renewals(lambda size: generator.standard_exponential(size) / self.rate_per_s)


class Gamma(ArrivalProcess):
    """Independent gamma gaps: burstier than Poisson if cv > 1, more regular if cv < 1, Poisson if cv = 1.

    ``vllm bench serve --burstiness b`` is cv = 1/√b.
    """

    process: Literal["gamma"]
    rate_per_s: Positive = Field(description="Mean arrivals per second.")
    cv: Annotated[float, Field(strict=True, gt=0, le=100)] = Field(
        description="Coefficient of variation of the gaps: standard deviation over mean."
    )

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        shape = 1 / self.cv**2
        return _renewals(lambda size: generator.standard_gamma(shape, size) / (shape * self.rate_per_s))


class ConstantRate(ArrivalProcess):
    """Equal gaps; the first request comes at time 0."""

    process: Literal["constant"]
    rate_per_s: Positive = Field(description="Arrivals per second.")

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        del generator
        return (round(number * PS_PER_S / self.rate_per_s) for number in count())


class Bursts(ArrivalProcess):
    """``size`` requests at the same instant, again and again from time 0 on; without an interval once."""

    process: Literal["bursts"]
    size: Count = Field(description="Requests in a burst.")
    interval_s: Positive | None = Field(None, description="From one burst to the next; null = a single burst.")

    @property
    def finite(self) -> bool:
        """Whether there is a single burst."""
        return self.interval_s is None

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending."""
        del generator
        if self.interval_s is None:
            return repeat(0, self.size)
        interval = max(1, seconds_to_ps(self.interval_s))
        return chain.from_iterable(repeat(number * interval, self.size) for number in count())


class OnOff(ArrivalProcess):
    """Poisson arrivals whose rate switches between two values, the busy one first."""

    process: Literal["on-off"]
    rate_per_s: Positive = Field(description="Mean arrivals per second while on.")
    on_s: Positive = Field(description="Length of an on phase.")
    off_s: Positive = Field(description="Length of an off phase.")
    off_rate_per_s: NonNegative = Field(0.0, description="Mean arrivals per second while off.")

    @model_validator(mode="after")
    def _someone_comes(self) -> OnOff:
        if self.rate_per_s * self.on_s + self.off_rate_per_s * self.off_s < 1e-6:
            raise ValueError("on and off together must average at least 1e-6 arrivals")
        return self

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        phases = [(self.rate_per_s, self.on_s), (self.off_rate_per_s, self.off_s)]
        return _piecewise_poisson(generator, cycle(phases))


class Stage(Part):
    """A stretch of time with one rate."""

    rate_per_s: NonNegative = Field(description="Mean arrivals per second; 0 = a pause.")
    duration_s: Positive = Field(description="How long the stage lasts.")


class Staged(ArrivalProcess):
    """Poisson arrivals at one rate after the other; after the last stage nobody comes any more."""

    process: Literal["staged"]
    stages: tuple[Stage, ...] = Field(min_length=1, description="The stages, in order.")
    exact_counts: Flag = Field(
        False,
        description="Give every stage exactly rate × duration arrivals, at uniformly random instants "
        "(a Poisson process of which one knows the count), as load generators do that send a fixed number.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Staged:
        if not any(stage.rate_per_s > 0 for stage in self.stages):
            raise ValueError("at least one stage needs a rate_per_s above 0")
        if self.exact_counts and sum(stage.rate_per_s * stage.duration_s for stage in self.stages) > 1e8:
            raise ValueError("exact_counts holds a stage in memory: at most 100,000,000 arrivals")
        return self

    @property
    def finite(self) -> bool:
        """Always: the last stage ends."""
        return True

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending."""
        if self.exact_counts:
            return self._exact(generator)
        return _piecewise_poisson(generator, ((stage.rate_per_s, stage.duration_s) for stage in self.stages))

    def _exact(self, generator: np.random.Generator) -> Iterator[int]:
        start = 0
        for stage in self.stages:
            number = round(stage.rate_per_s * stage.duration_s)
            for offset in picoseconds(np.sort(generator.random(number)) * stage.duration_s):
                yield start + offset
            start += seconds_to_ps(stage.duration_s)


class ClosedLoop(ArrivalProcess):
    """A fixed number of clients, each of which sends its next request when its last one has ended.

    There are never more than ``concurrency`` requests in the system, so it cannot be overloaded, only slow.
    """

    process: Literal["closed-loop"]
    concurrency: Count = Field(description="Number of clients.")
    think_time_s: Durations = Field(
        ConstantDuration(value=0.0), description="From the last visible token to the client's next request."
    )
    ramp_s: NonNegative = Field(0.0, description="The clients start evenly over this time; 0 = all at once.")
    retry_after_s: Positive = Field(
        1.0, description="A client whose request was refused or lost sends its next one this much later."
    )

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The first request of each client [ps], ascending."""
        del generator
        ramp = seconds_to_ps(self.ramp_s)
        return (client * ramp // self.concurrency for client in range(self.concurrency))


def _renewals(gaps: Callable[[int], Floats]) -> Iterator[int]:
    """The sums of gaps [s], in whole picoseconds: as integers, so that no precision is lost with time."""

    def blocks() -> Iterator[list[int]]:
        while True:
            yield picoseconds(gaps(BLOCK))

    return accumulate(chain.from_iterable(blocks()))


def _piecewise_poisson(generator: np.random.Generator, pieces: Iterable[tuple[float, float]]) -> Iterator[int]:
    """Arrivals [ps] of a Poisson process with a rate [1/s] for each duration [s] of ``pieces``.

    Unit-rate arrivals are mapped through the inverse of the integrated rate: changing one rate moves the
    arrivals but draws the same numbers.
    """

    def blocks() -> Iterator[Floats]:
        while True:
            yield generator.standard_exponential(BLOCK)

    waits = chain.from_iterable(block.tolist() for block in blocks())
    wait = next(waits)
    start = 0
    for rate, duration in pieces:
        used = 0.0
        # Compared as amounts of work, so that a rate of 0 needs no case of its own.
        while wait < (duration - used) * rate:
            used = min(used + wait / rate, duration)
            yield start + round(used * PS_PER_S)
            wait = next(waits)
        wait -= (duration - used) * rate
        start += seconds_to_ps(duration)


def _default_poisson(value: Any) -> Any:
    if isinstance(value, Mapping) and "process" not in value:
        return {"process": "poisson", **value}
    return value


Arrivals = Annotated[
    Poisson | Gamma | ConstantRate | Bursts | OnOff | Staged | ClosedLoop,
    Field(discriminator="process"),
    BeforeValidator(_default_poisson),
]
"""Any arrival process; without ``process:`` it is Poisson."""
