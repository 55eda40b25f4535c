"""Arrival processes whose rate changes with time: Poisson arrivals that follow a rate.

Unit-rate arrivals are mapped through the inverse of the integrated rate: changing a rate moves the arrivals but draws
the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain, cycle
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from servetwin.streams import BLOCK
from servetwin.units import PS_PER_S, seconds_to_ps
from servetwin.workload.base import Flag, NonNegative, Part, Positive
from servetwin.workload.draws import Floats, picoseconds
from servetwin.workload.process import ArrivalProcess

_FEWEST_A_CYCLE = 1e-6
"""Expected arrivals of a cycle below which looking for the next one would take for ever."""


class Piece(NamedTuple):
    """A stretch of time over which the rate changes evenly.

    Attributes:
        start: the rate at its start [1/s].
        end: the rate at its end [1/s].
        duration_s: its length [s].
    """

    start: float
    end: float
    duration_s: float

    @property
    def arrivals(self) -> float:
        """Expected arrivals in the whole of it."""
        return (self.start + self.end) / 2 * self.duration_s


class OnOff(ArrivalProcess):
    """Poisson arrivals whose rate switches between two values, the busy one first.

    With ``phases: exponential`` the lengths of the phases are random: a Markov-modulated Poisson process of two states
    (an interrupted Poisson process if nobody comes while off).
    """

    process: Literal["on-off"]
    rate_per_s: Positive = Field(description="Mean arrivals per second while on.")
    on_s: Positive = Field(description="Length of an on phase, or its mean.")
    off_s: Positive = Field(description="Length of an off phase, or its mean.")
    off_rate_per_s: NonNegative = Field(0.0, description="Mean arrivals per second while off.")
    phases: Literal["fixed", "exponential"] = Field(
        "fixed", description="fixed: every phase is as long as written; exponential: random, with that mean."
    )

    @model_validator(mode="after")
    def _someone_comes(self) -> OnOff:
        if self.rate_per_s * self.on_s + self.off_rate_per_s * self.off_s < _FEWEST_A_CYCLE:
            raise ValueError("on and off together must average at least 1e-6 arrivals")
        return self

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        phases = cycle([(self.rate_per_s, self.on_s), (self.off_rate_per_s, self.off_s)])
        if self.phases == "fixed":
            return _piecewise_poisson(generator, (Piece(rate, rate, length) for rate, length in phases))
        # A generator of its own: random lengths of phases leave the draws of the arrivals alone.
        lengths = _exponentials(generator.spawn(1)[0])
        return _piecewise_poisson(generator, (Piece(rate, rate, mean * next(lengths)) for rate, mean in phases))


class Stage(Part):
    """A stretch of time with one rate, or with a rate that rises or falls evenly."""

    rate_per_s: NonNegative = Field(description="Mean arrivals per second, at the start of the stage; 0 = a pause.")
    duration_s: Positive = Field(description="How long the stage lasts.")
    end_rate_per_s: NonNegative | None = Field(
        None, description="Mean arrivals per second at its end, reached evenly (a ramp); null = the rate stays."
    )

    @property
    def piece(self) -> Piece:
        """The course of the rate."""
        end = self.rate_per_s if self.end_rate_per_s is None else self.end_rate_per_s
        return Piece(self.rate_per_s, end, self.duration_s)


class Staged(ArrivalProcess):
    """Poisson arrivals at one rate after the other; after the last stage nobody comes any more, or the first returns.

    Stages may be ramps, so that any course of the rate can be drawn by straight lines: a load test that climbs, or a
    day by its hours (``repeat: true``).
    """

    pace_field: ClassVar[str] = "stages"
    process: Literal["staged"]
    stages: tuple[Stage, ...] = Field(min_length=1, max_length=100_000, description="The stages, in order.")
    exact_counts: Flag = Field(
        False,
        description="Give every stage exactly rate × duration arrivals, at random instants (a Poisson process of "
        "which one knows the count), as load generators do that send a fixed number.",
    )
    repeat: Flag = Field(False, description="After the last stage, start again with the first.")

    @model_validator(mode="after")
    def _sensible(self) -> Staged:
        pieces = [stage.piece for stage in self.stages]
        if not any(piece.arrivals > 0 for piece in pieces):
            raise ValueError("at least one stage needs a rate_per_s above 0")
        counts = [round(piece.arrivals) for piece in pieces]
        if self.exact_counts and sum(counts) > 1e8:
            raise ValueError("exact_counts holds a stage in memory: at most 100,000,000 arrivals")
        if self.repeat and self.exact_counts and not any(counts):
            raise ValueError("exact_counts rounds the arrivals of every stage down to 0")
        if self.repeat and sum(piece.arrivals for piece in pieces) < _FEWEST_A_CYCLE:
            raise ValueError("the stages together must average at least 1e-6 arrivals to be repeated")
        return self

    @property
    def finite(self) -> bool:
        """Whether the last stage is the end."""
        return not self.repeat

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending."""
        pieces = [stage.piece for stage in self.stages]
        course: Iterable[Piece] = cycle(pieces) if self.repeat else pieces
        return _exact(generator, course) if self.exact_counts else _piecewise_poisson(generator, course)


class Diurnal(ArrivalProcess):
    """Poisson arrivals whose rate swings like day and night.

    The rate at time t is ``rate_per_s · (1 + swing · cos(2π (t − peak_s) / period_s))``.
    """

    process: Literal["diurnal"]
    rate_per_s: Positive = Field(description="Mean arrivals per second over a whole period.")
    swing: Annotated[float, Field(strict=True, gt=0, le=1)] = Field(
        description="How far the rate swings about its mean; 1 = nobody comes at the quietest moment, 0.5 = the peak "
        "is three times the trough."
    )
    period_s: Positive = Field(86_400.0, description="Length of a period; a day.")
    peak_s: NonNegative = Field(50_400.0, description="When the rate is highest first, after the start of the run.")

    @model_validator(mode="after")
    def _someone_comes(self) -> Diurnal:
        if self.rate_per_s * self.period_s < _FEWEST_A_CYCLE:
            raise ValueError("a period must average at least 1e-6 arrivals")
        return self

    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The arrivals [ps], ascending, without end."""
        period_ps = seconds_to_ps(self.period_s)
        arrivals_a_period = self.rate_per_s * self.period_s
        phase = self.peak_s / self.period_s % 1.0
        periods, rest, last = 0, 0.0, 0
        while True:
            # In periods' worth of arrivals; whole periods are counted apart, so that no precision is lost with time.
            worth = rest + np.cumsum(generator.standard_exponential(BLOCK)) / arrivals_a_period
            whole = np.floor(worth)
            offsets = picoseconds(_when(worth - whole, self.swing, phase) * self.period_s)
            for count, offset in zip(whole.tolist(), offsets, strict=True):
                # The sine is monotone only up to its last bit.
                last = max(last, (periods + int(count)) * period_ps + offset)
                yield last
            periods += int(whole[-1])
            rest = float(worth[-1] - whole[-1])


def _when(worth: Floats, swing: float, phase: float) -> Floats:
    """The moments x in [0, 1] of a period by which the share ``worth`` of its arrivals has come, by bisection.

    The share up to x is x + swing/2π · (sin 2π(x − phase) + sin 2π·phase), which rises with x for swing ≤ 1.
    """
    turn = 2 * math.pi
    start = math.sin(turn * phase)
    low, high = np.zeros_like(worth), np.ones_like(worth)
    for _ in range(54):
        middle = (low + high) / 2
        early = middle + swing / turn * (np.sin(turn * (middle - phase)) + start) < worth
        low, high = np.where(early, middle, low), np.where(early, high, middle)
    return high


def _piecewise_poisson(generator: np.random.Generator, pieces: Iterable[Piece]) -> Iterator[int]:
    """Arrivals [ps] of a Poisson process whose rate takes the course of ``pieces``."""
    waits = _exponentials(generator)
    wait = next(waits)
    start = 0
    for first, final, duration in pieces:
        used = 0.0
        if first == final:
            # Compared as amounts of work, so that a rate of 0 needs no case of its own.
            while wait < (duration - used) * first:
                used = min(used + wait / first, duration)
                yield start + round(used * PS_PER_S)
                wait = next(waits)
            wait -= (duration - used) * first
        else:
            slope = (final - first) / duration
            rate = first
            while wait < (duration - used) * (rate + final) / 2:
                used = min(used + _ramp_time(wait, rate, slope), duration)
                yield start + round(used * PS_PER_S)
                rate = first + slope * used
                wait = next(waits)
            wait -= (duration - used) * (rate + final) / 2
        start += seconds_to_ps(duration)


def _ramp_time(work: float, rate: float, slope: float) -> float:
    """How long a rate [1/s] that changes by ``slope`` [1/s²] takes for ``work`` arrivals [s].

    The smaller root of slope/2·t² + rate·t = work, in the form that loses no digits.
    """
    return 2 * work / (rate + math.sqrt(max(rate * rate + 2 * slope * work, 0.0)))


def _exact(generator: np.random.Generator, pieces: Iterable[Piece]) -> Iterator[int]:
    """Exactly the expected number of arrivals in each piece [ps], at random instants."""
    start = 0
    for first, final, duration in pieces:
        number = round((first + final) / 2 * duration)
        points = np.sort(generator.random(number))
        if first == final:
            moments = points * duration
        else:
            # In units of the duration: the share of arrivals up to x is (first·x + (final − first)·x²/2) / mean.
            mean = (first + final) / 2
            root = np.sqrt(np.maximum(first * first + 2 * (final - first) * points * mean, 0.0))
            with np.errstate(invalid="ignore"):
                moments = np.nan_to_num(2 * points * mean / (first + root)).clip(0.0, 1.0) * duration
        for offset in picoseconds(moments):
            yield start + offset
        start += seconds_to_ps(duration)


def _exponentials(generator: np.random.Generator) -> Iterator[float]:
    """Exponential numbers of mean 1, without end."""

    def blocks() -> Iterator[Floats]:
        while True:
            yield generator.standard_exponential(BLOCK)

    return chain.from_iterable(block.tolist() for block in blocks())
