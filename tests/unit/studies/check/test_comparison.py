"""Comparisons with a baseline: a change is found, noise is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.studies.check.queue_runs import by_metric, run, runs

from servetwin.studies.check.comparison import Difference, Values, compare
from servetwin.studies.check.tolerance import Rule, Tolerance, rule_for

FIVE = range(5)


def rules(*keys: str, **tolerance: Any) -> dict[str, Rule]:
    tolerances = {"default": Tolerance.model_validate(tolerance)} if tolerance else {}
    return {key: rule for key in keys if (rule := rule_for(key, tolerances)) is not None}


def one(key: str, before: Values, after: Values, **tolerance: Any) -> Difference:
    (found,) = compare({key: before}, {key: after}, rules(key, **tolerance))
    return found


def seeds(*values: float | None) -> dict[int, float | None]:
    return dict(enumerate(values))


def scaled(values: Values, factor: float) -> dict[int, float | None]:
    return {seed: None if value is None else value * factor for seed, value in values.items()}


TTFT = seeds(100, 140, 90, 120, 310)


def test_nothing_has_changed() -> None:
    for key in ("ttft_ms.p99", "completed", "kv_use_mean"):
        found = one(key, TTFT, dict(TTFT))
        assert (found.verdict, found.relative, found.low, found.high, found.pairs) == ("same", 0, 0, 0, 5)


def test_each_metric_has_its_better_side() -> None:
    more, less = scaled(TTFT, 1.05), scaled(TTFT, 0.95)
    assert [one("ttft_ms.p99", TTFT, side).verdict for side in (more, less)] == ["worse", "better"]
    assert [one("goodput_per_s", TTFT, side).verdict for side in (more, less)] == ["better", "worse"]
    assert [one("kv_use_mean", TTFT, side).verdict for side in (more, less)] == ["changed", "changed"]
    for side in (more, less):
        assert one("kv_use_mean", TTFT, side, relative="1%", direction="either").verdict == "worse"
        assert one("ttft_ms.p99", TTFT, side, relative="1%", direction="either").verdict == "worse"
    assert one("ttft_ms.p99", TTFT, more, relative="1%", direction="higher-is-better").verdict == "better"


def test_tolerance() -> None:
    """The wider of the relative and the absolute one counts; at its edge nothing is worse."""
    assert one("ttft_ms.p99", TTFT, scaled(TTFT, 1.009)).verdict == "same"
    assert one("ttft_ms.p99", TTFT, scaled(TTFT, 1.011)).verdict == "worse"
    assert one("ttft_ms.p99", TTFT, scaled(TTFT, 1.019), relative="2%").verdict == "same"
    later = {seed: value + 3 for seed, value in TTFT.items() if value is not None}
    assert one("ttft_ms.p99", TTFT, later, relative="1%", absolute=4).verdict == "same"
    assert one("ttft_ms.p99", TTFT, later, absolute=2.9).verdict == "worse"
    assert one("ttft_ms.p99", TTFT, scaled(TTFT, 1.0001), relative="0%").verdict == "worse"


def test_seeds_that_disagree_are_noise() -> None:
    """Worse on average by 4 %, but two of five seeds are better."""
    noisy = {
        seed: value * factor for (seed, value), factor in zip(TTFT.items(), (1.3, 0.8, 1.2, 0.9, 1.0), strict=True)
    }  # type: ignore[operator]
    found = one("ttft_ms.p99", TTFT, noisy)
    assert found.verdict == "unclear"
    assert found.relative == pytest.approx(0.04)
    assert found.low is not None and found.high is not None and found.low < 0 < found.high


def test_what_one_metric_alone_shows_clearly_many_metrics_together_may_not() -> None:
    """A chance of 3 % is no chance of 3 % if it is the best of a hundred."""
    factors = (1.08, 1.02, 1.06, 1.035, 1.005)
    slightly = {seed: value * factor for (seed, value), factor in zip(TTFT.items(), factors, strict=True)}  # type: ignore[operator]
    assert one("ttft_ms.p99", TTFT, slightly).verdict == "worse"
    others = {f"x_ms.{number}": TTFT for number in range(99)}
    found = compare({"ttft_ms.p99": TTFT, **others}, {"ttft_ms.p99": slightly, **others}, rules("ttft_ms.p99", *others))
    assert {one.verdict for one in found} == {"unclear", "same"}


def test_a_single_seed_counts_as_it_is() -> None:
    assert one("ttft_ms.p99", seeds(100), seeds(101.1)).verdict == "worse"
    assert one("ttft_ms.p99", seeds(100), seeds(100.9)).verdict == "same"
    assert one("ttft_ms.p99", seeds(100), seeds(98.9)).verdict == "better"
    assert one("ttft_ms.p99", seeds(100), seeds(101.1)).low is None


def test_only_common_seeds_are_compared() -> None:
    found = one("ttft_ms.p99", {**TTFT, 7: 1.0}, {**TTFT, 8: 900.0})
    assert (found.verdict, found.pairs) == ("same", 5)


def test_one_other_seed_tells_nothing() -> None:
    found = one("ttft_ms.p99", {0: 100.0}, {1: 300.0})
    assert (found.verdict, found.pairs, found.relative) == ("unclear", 0, 2.0)


def test_counts_that_were_zero() -> None:
    """No percentage of nothing: any increase counts that the seeds agree on."""
    none = seeds(0, 0, 0, 0, 0)
    assert one("rejected", none, seeds(3, 4, 3, 5, 3)).verdict == "worse"
    assert one("rejected", none, seeds(0, 0, 9, 0, 0)).verdict == "unclear"
    assert one("rejected", none, seeds(3, 4, 3, 5, 3), absolute=9).verdict == "same"
    found = one("rejected", none, seeds(3, 4, 3, 5, 3))
    assert found.relative is None and found.low is not None and 2 < found.low < 3.6


def test_undefined_metrics() -> None:
    undefined = seeds(None, None, None, None, None)
    assert compare({"ttft_ms.p99": undefined}, {"ttft_ms.p99": undefined}, rules("ttft_ms.p99")) == []
    gone, came = one("ttft_ms.p99", TTFT, undefined), one("ttft_ms.p99", undefined, TTFT)
    assert (gone.verdict, gone.after) == ("worse", None)
    assert (came.verdict, came.before) == ("changed", None)
    assert one("ttft_ms.p99", {**TTFT, 1: None}, scaled({**TTFT, 3: None}, 1.05)).pairs == 3


def test_a_metric_that_no_seed_has_on_both_sides_is_not_passed_over() -> None:
    assert one("ttft_ms.mean", seeds(10, None), seeds(None, 10)).verdict == "worse"
    assert one("kv_use_mean", seeds(10, None), seeds(None, 10)).verdict == "changed"


def test_a_slower_engine_is_found_and_named() -> None:
    before = runs(FIVE)
    found = compare(before, runs(FIVE, slowdown=1.03), rules(*before))
    assert {one.metric for one in found if one.verdict == "worse"} >= {"ttft_ms.mean", "tpot_ms.p50", "e2e_ms.mean"}
    assert not [one for one in found if one.verdict == "better"]
    faster = compare(runs(FIVE, slowdown=1.03), before, rules(*before))
    assert "tpot_ms.p50" in {one.metric for one in faster if one.verdict == "better"}
    assert not [one for one in faster if one.verdict == "worse"]
    slightly = compare(before, runs(FIVE, slowdown=1.001), rules(*before))
    assert not [one for one in slightly if one.verdict == "worse"]


def test_other_seeds_raise_no_false_alarms() -> None:
    """Of 1,000 comparisons of the same engine with other seeds at most 1 % report a regression."""
    pool = {seed: run(seed) for seed in range(1000)}
    generator = np.random.default_rng(12)
    alarms = 0
    for _ in range(1000):
        chosen = generator.choice(len(pool), 10, replace=False).tolist()
        before, after = (by_metric({seed: pool[seed] for seed in half}) for half in (chosen[:5], chosen[5:]))
        alarms += any(one.verdict == "worse" for one in compare(before, after, rules(*before)))
    assert alarms <= 10


def test_other_seeds_hide_no_large_change() -> None:
    found = 0
    for number in range(20):
        before = runs(range(20 * number, 20 * number + 10))
        after = runs(range(20 * number + 10, 20 * number + 20), slowdown=1.2)
        found += any(one.verdict == "worse" for one in compare(before, after, rules(*before)))
    assert found >= 18


def test_noise_with_the_seeds_of_the_baseline() -> None:
    """Differences of 5 % up and down, as in tails after a tiny change: an alarm in at most one of twenty."""
    generator = np.random.default_rng(11)
    keys = [f"x_ms.{number}" for number in range(40)]
    alarms = 0
    for _ in range(200):
        before = {key: seeds(*(100 * generator.lognormal(0, 0.3, 5)).tolist()) for key in keys}
        after = {
            key: {seed: float(generator.lognormal(0, 0.05)) * (value or 0) for seed, value in row.items()}
            for key, row in before.items()
        }
        alarms += any(one.verdict == "worse" for one in compare(before, after, rules(*keys)))
    assert alarms <= 10
