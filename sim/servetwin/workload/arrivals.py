"""When requests come: the arrival processes.

``process: poisson`` may be left out. All but ``closed-loop`` are *open*: arrivals do not care how the system
fares. With sessions, an arrival is the start of a session.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain, count, repeat
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from servetwin.units import PS_PER_S, seconds_to_ps
from servetwin.workload.base import Count, NonNegative, Positive
from servetwin.workload.process import ArrivalProcess, renewals
from servetwin.workload.rates import Diurnal, OnOff, Staged
from servetwin.workload.times import ConstantDuration, Durations


class Poisson(ArrivalProcess):
    """Independent exponential gaps: many users who know nothing of each other."""

    process: Literal["poisson"] = "poisson"
    rate_per_s: Positive = Field(description="Mean arrivals per second; ``inf`` = ``process: all-at-once``.")

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        return renewals(lambda size: generator.standard_exponential(size) / self.rate_per_s)


class Gamma(ArrivalProcess):
    """Independent gamma gaps: burstier than Poisson if cv > 1, more regular if cv < 1, Poisson if cv = 1.

    ``vllm bench serve --burstiness b`` is cv = 1/√b.
    """

    process: Literal["gamma"]
    rate_per_s: Positive = Field(description="Mean arrivals per second.")
    cv: Annotated[float, Field(strict=True, ge=1e-6, le=100)] = Field(
        description="Coefficient of variation of the gaps: standard deviation over mean."
    )

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        shape = 1 / self.cv**2
        return renewals(lambda size: generator.standard_gamma(shape, size) / (shape * self.rate_per_s))


class UniformGaps(ArrivalProcess):
    """Independent gaps, uniform about their mean: jitter on a regular schedule.

    With coefficient of variation cv they lie within the mean times 1 ± √3·cv, so cv is at most 1/√3, where gaps reach
    from 0 to twice the mean.
    """

    process: Literal["uniform"]
    rate_per_s: Positive = Field(description="Mean arrivals per second.")
    cv: Annotated[float, Field(strict=True, gt=0, le=0.57735026)] = Field(
        description="Coefficient of variation of the gaps: standard deviation over mean."
    )

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        width = math.sqrt(3) * self.cv
        return renewals(lambda size: np.maximum(1 + width * (2 * generator.random(size) - 1), 0.0) / self.rate_per_s)


class ConstantRate(ArrivalProcess):
    """Equal gaps; the first request comes at time 0."""

    process: Literal["constant"]
    rate_per_s: Positive = Field(description="Arrivals per second.")

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        del generator
        return (round(number * PS_PER_S / self.rate_per_s) for number in count())


class AllAtOnce(ArrivalProcess):
    """All of ``run.requests`` at time 0, as ``vllm bench serve --request-rate inf``.

    ``{rate_per_s: inf}`` is the same. With ``max_concurrency`` the requests go out as earlier ones end.
    """

    pace_field: ClassVar[str] = "process"
    process: Literal["all-at-once"]

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """Zero [ps], without end."""
        del generator
        return repeat(0)


class Bursts(ArrivalProcess):
    """``size`` requests at the same instant, again and again from time 0 on; without an interval once."""

    pace_field: ClassVar[str] = "interval_s"
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


class ClosedLoop(ArrivalProcess):
    """A fixed number of clients, each of which sends its next request when its last one has ended.

    There are never more than ``concurrency`` requests in the system, so it cannot be overloaded, only slow.
    """

    pace_field: ClassVar[str] = "ramp_s"
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


def _short_forms(value: Any) -> Any:
    """Poisson where no process is named, and an infinite rate as what it means."""
    if not isinstance(value, Mapping):
        return value
    value = {"process": "poisson", **value}
    if value["process"] == "poisson" and value.get("rate_per_s") == "inf":
        return {**{key: item for key, item in value.items() if key != "rate_per_s"}, "process": "all-at-once"}
    return value


Arrivals = Annotated[
    Poisson | Gamma | UniformGaps | ConstantRate | AllAtOnce | Bursts | OnOff | Staged | Diurnal | ClosedLoop,
    Field(discriminator="process"),
    BeforeValidator(_short_forms),
]
"""Any arrival process; without ``process:`` it is Poisson."""
