"""Compares the metrics of some runs with those of a baseline, so that noise neither fails nor hides a change.

Runs with the same seeds have the same requests. They are compared pair by pair: without a change of the program or the
scenario there is no difference at all. But a small change is enough for another order of requests in a queue, and the
tails of latencies then move up and down by some per cent, another way with every seed. Runs with other seeds differ by
their requests as well. Either way a metric counts as worse only if its mean difference is beyond the tolerance by more
than noise explains, which is judged from how much the seeds agree (Student's t; with other seeds Welch's).

With dozens of metrics some go beyond any limit by chance. The chances of all metrics of an entry are therefore taken
together (``statistics.discoveries``): an entry of which nothing has become worse by more than the tolerance reports a
regression with a probability of at most ``LEVEL``, whatever the number of its metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Literal

from servetwin.studies.check.metrics import HIGHER, LOWER, Direction
from servetwin.studies.check.tolerance import Rule
from servetwin.studies.statistics import Estimate, Interval, discoveries, paired_estimate, unpaired_estimate

LEVEL = 0.05
"""The probability of a false alarm of an entry with the seeds of its baseline, of which some change is the cause."""

LEVEL_OF_OTHER_SEEDS = 0.01
"""The probability of a false alarm of an entry with other seeds, which differ even if nothing has changed."""

FEW = 5
"""From so many seeds on, a change of a few per cent stands out from the noise."""

Verdict = Literal["same", "worse", "better", "changed", "unclear"]
"""``changed``: a metric that is neither good nor bad. ``unclear``: worse on average, but not beyond the noise."""

Values = Mapping[int, float | None]
"""By seed, the value of a metric; None = undefined."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a metric differs from its baseline.

    Attributes:
        metric: its key.
        verdict: what that means.
        direction: which change is for the worse; None = neither.
        before: the mean of the baseline, in the unit of the metric; None = undefined.
        after: the mean of the runs.
        relative: the difference as a fraction of the baseline, on average over pairs; None where a baseline is 0.
        low: lower end of its 95 % interval, or of that of ``after - before`` if there is no relative one; None where
            there are too few seeds for an interval.
        high: upper end.
        pairs: runs that were compared seed by seed; 0 = the seeds differ.
    """

    metric: str
    verdict: Verdict
    direction: Direction | None
    before: float | None
    after: float | None
    relative: float | None
    low: float | None
    high: float | None
    pairs: int


@dataclass(frozen=True, slots=True)
class _Measured:
    """A metric before the verdict. Excesses are what is beyond the tolerance: above 0 if it is exceeded.

    Attributes:
        metric: its key.
        direction: which change is for the worse.
        before: mean of the baseline.
        after: mean of the runs.
        difference: between the two, relative if ``is_relative``.
        is_relative: whether all baselines differ from 0.
        upwards: the excess of an increase.
        downwards: the excess of a decrease.
        pairs: how many; 0 = the seeds differ.
    """

    metric: str
    direction: Direction | None
    before: float
    after: float
    difference: Estimate
    is_relative: bool
    upwards: Estimate
    downwards: Estimate
    pairs: int

    def for_the_worse(self) -> float:
        """How likely noise looks so bad, where the true value is just tolerable."""
        if self.direction in (LOWER, HIGHER):
            return self._chance(self.upwards if self.direction == LOWER else self.downwards)
        return self.either()

    def for_the_better(self) -> float:
        return self._chance(self.downwards if self.direction == LOWER else self.upwards)

    def either(self) -> float:
        """Both ways are tried, so each of them counts double."""
        return min(1.0, 2 * min(self._chance(self.upwards), self._chance(self.downwards)))

    def _chance(self, excess: Estimate) -> float:
        """Of a single pair the difference itself decides: there is nothing to judge noise by."""
        return float(excess.value <= 0) if self.pairs == 1 else excess.chance(0)

    def is_worse_on_average(self) -> bool:
        ways = {LOWER: (self.upwards,), HIGHER: (self.downwards,), None: ()}
        return any(way.value > 0 for way in ways.get(self.direction, (self.upwards, self.downwards)))

    def with_verdict(self, verdict: Verdict) -> Difference:
        interval: Interval | None = None if isnan(self.difference.error) else self.difference.interval()
        return Difference(
            self.metric, verdict, self.direction, self.before, self.after,
            self.difference.value if self.is_relative else None,
            interval and interval.low, interval and interval.high, self.pairs,
        )  # fmt: skip


def compare(before: Mapping[str, Values], after: Mapping[str, Values], rules: Mapping[str, Rule]) -> list[Difference]:
    """How metrics differ from their baseline, in the order of the rules.

    Seeds that both have are compared in pairs and the others left out; where they have none in common, the means are
    compared. What is undefined on both sides is passed over.

    Args:
        before: the baseline.
        after: the runs.
        rules: what holds for each metric that is to be compared; both sides have it.
    """
    measured: list[_Measured] = []
    found: dict[str, Difference] = {}
    for key, rule in rules.items():
        seeds = [seed for seed in before[key] if seed in after[key]]
        old, new = (_values(side[key], seeds) for side in (before, after))
        sides = _both_defined(old, new) if seeds else (old, new)
        if all(map(_defined, sides)):
            measured.append((_paired if seeds else _unpaired)(key, rule, *sides))
        elif _defined(old) or _defined(new):
            # A latency that nobody has any more is worse than any.
            verdict: Verdict = "worse" if _defined(old) and rule.direction is not None else "changed"
            means = (_mean(old), _mean(new))
            found[key] = Difference(key, verdict, rule.direction, *means, None, None, None, len(seeds))
    found.update((one.metric, one) for one in _judged(measured))
    return [found[key] for key in rules if key in found]


def _paired(key: str, rule: Rule, old: Sequence[float], new: Sequence[float]) -> _Measured:
    """Pair by pair in relative terms, for seeds with longer queues have larger differences too."""
    before, after = _known_mean(old), _known_mean(new)
    relative = all(old)
    scales = [abs(value) for value in old] if relative else [1.0] * len(old)
    limits = [rule.limit(value if relative else before) / scale for value, scale in zip(old, scales, strict=True)]
    changes = [(right - left) / scale for left, right, scale in zip(old, new, scales, strict=True)]
    return _Measured(
        key, rule.direction, before, after, paired_estimate([0.0] * len(changes), changes), relative,
        paired_estimate(limits, changes), paired_estimate(limits, [-change for change in changes]), len(old),
    )  # fmt: skip


def _unpaired(key: str, rule: Rule, old: Sequence[float], new: Sequence[float]) -> _Measured:
    """Mean against mean, relative to that of the baseline."""
    before, after = _known_mean(old), _known_mean(new)
    scale = abs(before) or 1.0
    limit = rule.limit(before) / scale
    value, error, freedom = unpaired_estimate([one / scale for one in old], [one / scale for one in new])
    return _Measured(
        key, rule.direction, before, after, Estimate(value, error, freedom), bool(before),
        Estimate(value - limit, error, freedom), Estimate(-value - limit, error, freedom), 0,
    )  # fmt: skip


def _values(values: Values, seeds: Sequence[int]) -> list[float]:
    """The values of some seeds, of all if there are none; nan = undefined."""
    chosen = (values[seed] for seed in (seeds or values))
    return [nan if value is None else float(value) for value in chosen]


def _defined(values: Iterable[float]) -> bool:
    return not all(isnan(value) for value in values)


def _both_defined(old: Sequence[float], new: Sequence[float]) -> tuple[list[float], list[float]]:
    pairs = [pair for pair in zip(old, new, strict=True) if not any(isnan(value) for value in pair)]
    return [one for one, _ in pairs], [other for _, other in pairs]


def _known_mean(values: Sequence[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return sum(known) / len(known)


def _mean(values: Sequence[float]) -> float | None:
    return _known_mean(values) if _defined(values) else None


def _judged(measured: Sequence[_Measured]) -> list[Difference]:
    """The verdicts: for the worse, for the better, and of what is neither, each a family of tests of its own."""
    worse = _found([one for one in measured if one.direction is not None], _Measured.for_the_worse)
    better = _found([one for one in measured if one.direction in (LOWER, HIGHER)], _Measured.for_the_better)
    changed = _found([one for one in measured if one.direction is None], _Measured.either)

    def verdict(one: _Measured) -> Verdict:
        if one.metric in worse:
            return "worse"
        if one.metric in better:
            return "better"
        if one.metric in changed:
            return "changed"
        return "unclear" if one.is_worse_on_average() else "same"

    return [one.with_verdict(verdict(one)) for one in measured]


def _found(family: Sequence[_Measured], chance: Callable[[_Measured], float]) -> set[str]:
    paired = all(one.pairs for one in family)
    verdicts = discoveries([chance(one) for one in family], LEVEL if paired else LEVEL_OF_OTHER_SEEDS)
    return {one.metric for one, is_found in zip(family, verdicts, strict=True) if is_found}
