"""Runs of matches: the chances that the tables give them, and the long ones, which have no column of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.unit.acceptance.reading_back import fates_of, request

from servetwin.acceptance.levels import Levels, solve_levels
from servetwin.acceptance.runs import COLUMNS, RunTables
from servetwin.acceptance.tables import run_tables

SURVIVAL = (0.7, 0.45, 0.3, 0.2)


def chances(tables: RunTables, level: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The chance of each column, as the tables have it."""
    found = np.zeros(COLUMNS)
    for column in range(COLUMNS):
        place = level * COLUMNS + column
        parts = (tables._upper[place], tables._lower[2 * place], tables._lower[2 * place + 1])
        below = int.from_bytes(bytes(parts), "big") / 2**24
        found[column] += below / COLUMNS
        found[tables._others[place]] += (1 - below) / COLUMNS
    return found


def survival_of(levels: Levels, level: int, matches: int) -> float:
    """The chance that a fresh draw has so many matches, or more."""
    fresh = levels.fresh[level]
    if matches <= len(fresh):
        return float([1.0, *fresh][matches])
    return float(fresh[-1] * levels.ratio[level] ** (matches - len(fresh)))


@pytest.mark.parametrize("persistence", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_the_chance_of_each_run_is_exact_to_one_in_thirty_million(persistence: float, spread: float) -> None:
    levels = solve_levels(SURVIVAL, persistence, spread)
    tables = run_tables(levels)
    for level in range(0, len(levels.fresh), 7):
        found = chances(tables, level)
        assert found.sum() == pytest.approx(1, abs=1e-12)
        for column in range(tables._rest):
            run = tables._runs[column]
            matches, length = run[0], len(run)
            expected = survival_of(levels, level, matches) - survival_of(levels, level, matches + 1)
            if persistence == 0 and matches == 254:
                expected = survival_of(levels, level, matches)
            if 0 < persistence < 1:
                breaks = (1 - persistence) * persistence ** (length - 1)
                expected *= breaks if length <= matches else persistence**matches
            assert found[column] == pytest.approx(expected, abs=1 / 30e6)
        beyond = 0.0 if persistence == 0 else survival_of(levels, level, tables._least)
        assert found[tables._rest :].sum() == pytest.approx(beyond, abs=1 / 30e6)


@pytest.mark.parametrize("persistence", [0.0, 0.9, 1.0])
def test_runs_are_as_long_as_they_should_be(persistence: float) -> None:
    """The first position of an output is a fresh draw, and what follows counts down as often as the run goes on."""
    levels = solve_levels((0.97,), persistence, 0.0)
    fates, requests = fates_of({"survival": [0.97], "persistence": persistence}), 20_000
    drawn = [fates.of(request(id, 40)).matches for id in range(requests)]
    first = np.array([matches[0] for matches in drawn])
    for least in (1, 5, 21, 22, 23, 40, 100, 253, 254):
        expected = survival_of(levels, 0, least)
        error = math.sqrt(expected * (1 - expected) / requests)
        assert (first >= least).mean() == pytest.approx(expected, abs=4.5 * error + 1e-9), least
    long = [matches for matches in drawn if 30 <= matches[0] < 254]
    for positions in (1, 10, 30):
        goes_on = np.mean([all(matches[i] == matches[0] - i for i in range(positions + 1)) for matches in long])
        expected = persistence**positions
        # By chance a fresh draw is one less, too: seldom.
        assert goes_on == pytest.approx(expected, abs=4.5 * math.sqrt(0.25 / len(long)) + 0.03)


def test_too_few_numbers_are_told() -> None:
    tables = run_tables(solve_levels((0.5,), 1.0, 0.0))
    numbers = np.random.default_rng(0).bytes(4000)
    whole = tables.matches(numbers, 0, 4000, 300)
    assert whole is not None and len(whole) == 300
    assert tables.matches(numbers, 0, 3, 1) is None
    assert tables.matches(numbers, 0, 4, 1) is None
    assert tables.matches(numbers, 0, 8, 300) is None
    assert tables.matches(numbers, 0, 4000, 0) == b""
    # A request finds the same numbers wherever they lie.
    assert tables.matches(b"....." + numbers, 5, 4005, 100) == whole[:100]
