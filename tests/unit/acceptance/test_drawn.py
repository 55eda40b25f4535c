"""Fates drawn at random: right on average, and the same whoever asks and in whatever order."""

from __future__ import annotations

import math
import random
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from tests.unit.acceptance.reading_back import fates_of, request, survival_of

from servetwin.acceptance.levels import solve_levels
from servetwin.acceptance.reading import read_fate
from servetwin.request import Fate

SHAPES: list[Any] = [
    0.7, "gsm8k", {"rate": 0.6, "spread": 0.3}, {"survival": [0.8, 0.5], "persistence": 0.9, "spread": 0.2},
    {"survival": [0.8, 0.5], "beyond": {"position": 100, "survival": [0.3], "persistence": 0.5}},
]  # fmt: skip
LENGTHS = (1, 2, 99, 100, 101, 250, 383, 384, 385, 1000)


@pytest.mark.parametrize("written", SHAPES, ids=str)
def test_a_fate_does_not_depend_on_who_asks_when(written: Any) -> None:
    """A shorter output has the beginning of a longer one's fate; neither order nor repetition counts."""
    whole = {id: fates_of(written).of(request(id, 1500)).matches for id in (0, 1, 63, 64, 65, 70_000)}
    asked = [(id, tokens) for id in whole for tokens in LENGTHS]
    random.Random(3).shuffle(asked)
    fates = fates_of(written)
    for id, tokens in asked * 2:
        fate = fates.of(request(id, tokens))
        assert fate.matches == whole[id][:tokens]
        assert fate.proposed is None
    assert len({bytes(matches) for matches in whole.values()}) == len(whole)
    assert fates_of(written, seed=1).of(request(0, 1500)).matches != whole[0]


def test_many_blocks_are_forgotten_and_found_again() -> None:
    fates = fates_of(0.5)
    first = [fates.of(request(32 * block, 50)).matches for block in range(40)]
    assert [fates.of(request(32 * block, 50)).matches for block in range(40)] == first


@pytest.mark.parametrize("rate", [0.2, 0.7, 0.95])
@pytest.mark.parametrize("drafts", [1, 3, 8])
def test_a_rate_gives_the_closed_form(rate: float, drafts: int) -> None:
    """Tokens per step are (1 − a^(K+1)) / (1 − a) (Leviathan et al., ICML 2023, equation 1)."""
    fates, steps, requests = fates_of(rate), 100, 200
    tokens = steps * (drafts + 1) + 1
    # As many steps of each request, for the last one that fits into an output is not like the others.
    gained = np.array(
        [
            step.accepted + 1
            for id in range(requests)
            for step in islice(read_fate(fates.of(request(id, tokens)), drafts), steps)
        ]
    )
    assert len(gained) == steps * requests
    expected = (1 - rate ** (drafts + 1)) / (1 - rate)
    assert abs(gained.mean() - expected) < 4 * gained.std() / math.sqrt(len(gained))


def test_matches_of_a_rate_are_independent_of_each_other() -> None:
    """What stands at a position says nothing of the next one."""
    fates = fates_of(0.6)
    stands = np.array([[m > 0 for m in fates.of(request(id, 300)).matches] for id in range(400)])
    before, after = stands[:, :-1].ravel(), stands[:, 1:].ravel()
    assert abs(np.corrcoef(before, after)[0, 1]) < 4 / math.sqrt(before.size)
    neighbours = np.corrcoef(stands[:-1].ravel(), stands[1:].ravel())[0, 1]
    assert abs(neighbours) < 4 / math.sqrt(stands[1:].size)


@pytest.mark.parametrize(
    "written", [0, 0.0, {"survival": [0.0]}, {"survival": [0.0, 0.0], "persistence": 1.0}], ids=str
)
def test_nothing_stands(written: Any) -> None:
    for tokens in (1, 300, 2000):
        assert fates_of(written).of(request(5, tokens)).matches == bytes(tokens)


@pytest.mark.parametrize(
    "written", [1, 1.0, {"survival": [1.0, 1.0]}, {"survival": [1.0], "persistence": 0.5}], ids=str
)
def test_everything_stands(written: Any) -> None:
    for tokens in (1, 300, 40_000):
        assert fates_of(written).of(request(5, tokens)).matches == bytes([254]) * tokens


def test_long_runs_count_down_to_their_end() -> None:
    """A fate has one byte per position, but runs are longer than that."""
    matches = fates_of(0.999).of(request(1, 100_000)).matches
    fails = [position for position, m in enumerate(matches) if m == 0]
    assert 60 < len(fails) < 150
    for start, end in zip([0, *(p + 1 for p in fails)], fails, strict=False):
        assert matches[start : end + 1] == bytes(min(end - p, 254) for p in range(start, end + 1))


@pytest.mark.parametrize("persistence", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_readings_have_the_survival_asked_for(persistence: float, spread: float) -> None:
    wanted = [0.7, 0.45, 0.3, 0.2]
    fates = fates_of({"survival": wanted, "persistence": persistence, "spread": spread})
    found = survival_of((fates.of(request(id, 384)) for id in range(12_000 if spread else 3_000)), 4)
    # A step in thousands of requests of some 160 steps; with the spread, the last share has 1.3 % of noise.
    assert found == pytest.approx(wanted, rel=0.01 + 0.03 * (spread > 0))


def test_requests_differ_by_the_spread() -> None:
    """Of outputs so long that a request's mean has no noise of its own."""
    fates = fates_of({"survival": [0.7, 0.45, 0.3, 0.2], "persistence": 0.5, "spread": 0.4})
    means = [float(np.mean([step.accepted for step in read_fate(fates.of(request(id, 8000)), 4)])) for id in range(300)]
    spread = float(np.std(means) / np.mean(means))
    assert spread == pytest.approx(0.4, abs=4 * 0.4 / math.sqrt(2 * 300))


def test_the_first_position_is_like_any_other() -> None:
    """What chooses the level of a request says nothing of its draws."""
    fates = fates_of({"survival": [0.5, 0.3], "spread": 0.6})
    stands = np.array([[m > 0 for m in fates.of(request(id, 50)).matches] for id in range(4000)])
    others = stands[:, 1:].mean()
    assert stands[:, 0].mean() == pytest.approx(others, abs=4 * math.sqrt(0.25 / 4000))
    # Requests that have a match there are no better elsewhere than the spread makes them.
    differ = stands[stands[:, 0], 1:].mean() - stands[~stands[:, 0], 1:].mean()
    usual = stands[stands[:, 20], 21:].mean() - stands[~stands[:, 20], 21:].mean()
    assert differ == pytest.approx(usual, abs=0.03)


def test_persistence_is_how_often_a_run_goes_on() -> None:
    """What follows three matches is two, because the run goes on or by chance of a fresh draw."""
    survival, persistence = (0.7, 0.5, 0.4), 0.8
    fresh = solve_levels(survival, persistence, 0.0).fresh[0]
    matches = fates_of({"survival": survival, "persistence": persistence}).of(request(0, 200_000)).matches
    followed = [b == 2 for a, b in pairwise(matches) if a == 3]
    expected = persistence + (1 - persistence) * (fresh[1] - fresh[2])
    error = math.sqrt(expected * (1 - expected) / len(followed))
    assert np.mean(followed) == pytest.approx(expected, abs=4 * error)
    assert error < 0.005


def test_another_acceptance_from_some_position_on() -> None:
    fates = fates_of({"survival": [0.9], "beyond": {"position": 500, "survival": [0.1]}})
    matches = [fates.of(request(id, 1500)).matches for id in range(200)]
    early = np.mean([m > 0 for one in matches for m in one[:500]])
    late = np.mean([m > 0 for one in matches for m in one[500:]])
    assert early == pytest.approx(0.9, abs=0.01)
    assert late == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("written", [{"rate": 0.4, "proposal": 0.25}, {"survival": [0.3], "proposal": 0.25}], ids=str)
def test_methods_that_look_for_matches_draft_where_there_is_one(written: Any) -> None:
    """Everywhere where something would stand, and at a share of the other positions."""
    fates = fates_of(written, method="ngram")
    found: list[Fate] = [fates.of(request(id, tokens)) for id in range(300) for tokens in (300, 500)]
    assert all(len(fate.proposed or b"") == len(fate.matches) for fate in found)
    pairs = [(m, p) for fate in found for m, p in zip(fate.matches, fate.proposed or b"", strict=True)]
    assert {p for _, p in pairs} == {0, 254}
    assert all(p == 254 for m, p in pairs if m > 0)
    missed = [p > 0 for m, p in pairs if m == 0]
    assert np.mean(missed) == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / len(missed)))
    # The matches are those without proposals.
    plain = {key: value for key, value in written.items() if key != "proposal"}
    assert fates_of(plain).of(request(7, 500)).matches == fates.of(request(7, 500)).matches
    assert fates.of(request(7, 20)).proposed == (fates.of(request(7, 500)).proposed or b"")[:20]
