"""Runs whose first requests are unlike those that follow."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from servetwin.studies.compare.measure import Measured
from servetwin.studies.compare.settling import unsettled
from servetwin.units import PS_PER_MS


def measured(ttft_ms: npt.NDArray[np.float64], name: str = "a") -> Measured:
    number = len(ttft_ms)
    arrival = np.arange(number) * PS_PER_MS
    columns = {
        "id": np.arange(number),
        "arrival_ps": arrival,
        "first_token_ps": arrival + np.int64(ttft_ms * PS_PER_MS),
    }
    return Measured(name, 0, "", {}, {}, columns, np.ones(number, bool), ())


def test_a_warmup_is_said_with_what_leaves_it_out() -> None:
    ttft = 100 + np.random.default_rng(0).standard_normal(1000)
    (said,) = unsettled([measured(ttft), measured(np.where(np.arange(1000) < 200, ttft / 2, ttft), "b")])
    found = re.search(r"look like a warm-up in b: --set run.warmup_requests=(\d+) leaves", said)
    assert found is not None
    assert 200 <= int(found[1]) <= 300


def test_noise_is_seldom_taken_for_a_warmup() -> None:
    generator = np.random.default_rng(1)
    said = [list(unsettled([measured(100 + generator.standard_normal(1000))])) for _ in range(200)]
    assert sum(map(bool, said)) <= 10


def test_a_load_that_goes_on_building_up() -> None:
    (said,) = unsettled([measured(np.arange(1000.0), "b")])
    assert "half of the run or longer in b" in said


def test_requests_that_do_not_count_are_passed_over() -> None:
    run = measured(np.arange(1000.0))
    run.counted[:] = False
    assert list(unsettled([run])) == []
