"""What steps read of a chain of matches, against the chain itself, one position after the other."""

from __future__ import annotations

import contextlib
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.acceptance import base
from servetwin.acceptance.chain import Floats, last_ratio, read_survival
from servetwin.acceptance.levels import Levels, NoLevelsError, most_spread, solve_levels

EAGLE = (0.597, 0.35, 0.223, 0.153, 0.112, 0.084, 0.063)


def simulated(fresh: list[float], ratio: float, persistence: float, drafts: int, seed: int) -> list[float]:
    """Survival at the positions where steps begin, from a chain of 100,000 positions drawn in the plainest way."""
    generator = np.random.default_rng(seed)
    uniforms = iter(generator.random(1_000_000).tolist())

    def draw() -> int:
        value = 0
        while next(uniforms) < (fresh[value] / ([1.0, *fresh][value]) if value < len(fresh) else ratio):
            value += 1
        return value

    matches: list[int] = []
    for _ in range(100_000):
        goes_on = matches and matches[-1] > 0 and next(uniforms) < persistence
        matches.append(matches[-1] - 1 if goes_on else draw())
    position, accepted = 0, []
    while position < len(matches):
        accepted.append(min(matches[position], drafts))
        position += accepted[-1] + 1
    return [sum(a > i for a in accepted) / len(accepted) for i in range(drafts)]


@pytest.mark.parametrize(
    ("fresh", "persistence"), [([0.6, 0.3, 0.2], 0.6), ([0.5, 0.45, 0.3, 0.25], 1.0), ([0.4], 0.3), ([0.2, 0.1], 0.0)]
)
@pytest.mark.parametrize("drafts", [1, 3, 6])
def test_readings_of_a_chain(fresh: list[float], persistence: float, drafts: int) -> None:
    """With fewer drafts than entries, as many, and more."""
    row = np.array([fresh])
    expected = read_survival(row, persistence, drafts)[0, :drafts]
    found = simulated(fresh, float(last_ratio(row)[0]), persistence, drafts, seed=drafts)
    # Steps depend on each other where matches go on: hence the room.
    assert found == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("spread", [0.0, 0.3, 0.6])
def test_levels_have_the_survival_and_the_spread_asked_for(persistence: float, spread: float) -> None:
    """Pooled over steps, at as many drafts as there are entries."""
    levels = solve_levels(EAGLE, persistence, spread)
    assert levels.survival(7) == pytest.approx(EAGLE, abs=2e-5)
    assert levels.spread(7) == pytest.approx(spread, rel=2e-3)
    assert (np.diff(levels.fresh, axis=1) <= 0).all() and (levels.fresh <= 1).all() and (levels.fresh >= 0).all()


def test_without_persistence_and_spread_survival_is_the_same_for_any_number_of_drafts() -> None:
    levels = solve_levels(EAGLE, 0.0, 0.0)
    for drafts in range(1, 8):
        assert levels.survival(drafts) == pytest.approx(EAGLE[:drafts], abs=1e-4)


def test_with_persistence_fewer_drafts_see_more_matches() -> None:
    """A step that ends inside a run is followed by one that goes on with it."""
    shares = [float(solve_levels(EAGLE, 1.0, 0.0).survival(drafts)[0]) for drafts in range(1, 8)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 1.04 * EAGLE[0]


def test_behind_the_last_entry_the_last_ratio_holds() -> None:
    found = solve_levels((0.8, 0.4), 0.0, 0.0).survival(5)
    assert found == pytest.approx([0.8, 0.4, 0.2, 0.1, 0.05], abs=1e-4)


def test_a_geometric_survival_with_full_persistence_is_geometric_at_any_number_of_drafts() -> None:
    for drafts in (1, 4, 9):
        found = solve_levels((0.7,), 1.0, 0.0).survival(drafts)
        assert found == pytest.approx([0.7**i for i in range(1, drafts + 1)], abs=1e-4)


HARD: list[tuple[tuple[float, ...], float, float]] = [
    ((0.9,), 1.0, 0.1), ((0.95,), 1.0, 0.05), ((0.9,), 1.0, 0.2), ((0.9,), 1.0, 0.23), ((0.5,), 1.0, 0.7),
    ((0.95, 0.9, 0.85), 0.0, 0.1), ((0.95, 0.9, 0.85), 0.5, 0.1), ((0.97, 0.94, 0.91), 0.0, 0.05),
    ((0.5, 0.5), 0.0, 0.3), ((0.5, 0.0), 0.5, 0.3), ((0.5,), 1.0, 1e-6), ((0.5,), 1.0, 1e-12), ((1.0,), 1.0, 0.0),
    ((0.0,), 1.0, 0.0), (tuple(0.9**i for i in range(1, 65)), 0.0, 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("survival", "persistence", "spread"), HARD)
def test_what_is_hard_to_find(survival: tuple[float, ...], persistence: float, spread: float) -> None:
    """Where nearly everything stands, or requests differ nearly as much as they can, or hardly at all."""
    levels = solve_levels(survival, persistence, spread)
    assert levels.survival(len(survival)) == pytest.approx(survival, abs=1e-5)
    assert levels.spread(len(survival)) == pytest.approx(spread, rel=1e-3, abs=1e-8)


def test_one_that_was_found_by_halving() -> None:
    """For a rate of 0.9 and a spread of 0.1: a base of 14.27, and a width of 1.0565."""
    levels = solve_levels((0.9,), 1.0, 0.1)
    odds = np.sort(np.log(levels.fresh[:, 0] / (1 - levels.fresh[:, 0])))
    scores = [NormalDist().inv_cdf((level + 0.5) / 64) for level in range(64)]
    assert odds == pytest.approx(np.log(14.27) + 1.0565 * np.array(scores), abs=2e-3)


def test_no_requests_differ_by_more_than_all_or_nothing() -> None:
    """Of a rate: a share of requests accepts everything, the others nothing."""
    for rate in (0.1, 0.5, 0.9):
        assert most_spread((rate,)) == pytest.approx(np.sqrt((1 - rate) / (2 * rate)), rel=1e-3)
        solve_levels((rate,), 1.0, 0.9 * most_spread((rate,)))
        with pytest.raises(NoLevelsError):
            solve_levels((rate,), 1.0, 1.01 * most_spread((rate,)))
    assert most_spread((1.0,)) == most_spread((0.0,)) == most_spread((1.0, 1.0)) == 0.0


def test_the_most_that_requests_may_differ() -> None:
    """No two kinds of request, in any proportion, have more at the same mean over steps."""
    generator = np.random.default_rng(1)
    for _ in range(2000):
        accepted = generator.uniform(0, 3, 3) * generator.integers(0, 2, 3)
        share = generator.dirichlet([0.5, 0.5, 0.5])
        steps = share / (1 + accepted)
        mean = float(steps @ accepted / steps.sum())
        if mean > 0.01:
            spread = np.sqrt(share @ accepted**2 - (share @ accepted) ** 2) / (share @ accepted)
            assert spread <= most_spread((mean / 3,) * 3) * (1 + 1e-3)


@pytest.mark.parametrize("spread", [0.1, 0.5, 5.0])
def test_the_longest_survival_is_answered_in_a_bounded_number_of_readings(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the answer; it took minutes for some to be refused."""
    counted: list[int] = []
    read = base.read_survival
    monkeypatch.setattr(base, "read_survival", lambda *of: (counted.append(1), read(*of))[1])
    with contextlib.suppress(NoLevelsError):
        solve_levels.__wrapped__(tuple(0.99**i for i in range(1, 65)), 0.99, spread)
    assert len(counted) < 400


def test_what_is_usual_takes_few_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    read = base.read_survival
    monkeypatch.setattr(base, "read_survival", lambda *of: (counted.append(1), read(*of))[1])
    solve_levels.__wrapped__(EAGLE, 0.83, 0.34)
    assert len(counted) < 100


@settings(deadline=None, max_examples=40)
@given(
    shares=st.lists(st.floats(0.05, 0.98), min_size=1, max_size=4), persistence=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    spread=st.floats(0.02, 1.0),
)  # fmt: skip
def test_what_is_refused_does_not_exist(shares: list[float], persistence: float, spread: float) -> None:
    """Either what is found reads back as asked for, or a coarse search of another kind finds nothing."""
    survival = tuple(np.cumprod(shares).tolist())
    try:
        levels = solve_levels(survival, persistence, spread)
    except NoLevelsError:
        assert not looked_for(np.array(survival), persistence, spread)
        return
    assert levels.survival(len(survival)) == pytest.approx(survival, abs=1e-5)
    assert levels.spread(len(survival)) == pytest.approx(spread, rel=1e-3)


def looked_for(survival: Floats, persistence: float, spread: float) -> bool:
    """Whether levels at two widths that follow each other have the survival, and spreads on both sides of this one."""
    before = None
    for width in np.geomspace(0.02, 30, 14):
        found = spread_at(survival, persistence, float(width))
        if before is not None and found is not None and (before - spread) * (found - spread) < 0:
            return True
        before = found
    return False


def spread_at(survival: Floats, persistence: float, width: float) -> float | None:
    """The spread at a width, of the base that small corrections end at; None where they do not end."""

    def log_odds(of: Floats) -> Floats:
        ratio = np.clip(of / np.concatenate(([1.0], of[:-1])), 1e-12, 1 - 1e-12)
        return np.asarray(np.log(ratio / (1 - ratio)))

    scores = np.array([NormalDist().inv_cdf((level + 0.5) / 64) for level in range(64)])
    flatter = np.sqrt(1 + 0.39 * width**2)
    at = log_odds(survival) * flatter
    for _ in range(300):
        fresh = np.cumprod(1 / (1 + np.exp(-np.clip(at + width * scores[:, None], -600, 20))), axis=1)
        levels = Levels(fresh, last_ratio(fresh), persistence)
        found = levels.survival(len(survival))
        if np.abs(found - survival).max() < 5e-6:
            return levels.spread(len(survival))
        at = np.clip(at + 0.3 * flatter * (log_odds(survival) - log_odds(found)), -60 - 3 * width, 20 + 3 * width)
    return None


@pytest.mark.parametrize(
    ("survival", "persistence", "spread", "says"),
    [((0.9,), 1.0, 3.0, "smaller spread"), ((0.79, 0.7, 0.68, 0.67, 0.64, 0.64, 0.58), 0.98, 0.0, "lower persistence")],
)
def test_what_no_levels_have(survival: tuple[float, ...], persistence: float, spread: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        solve_levels(survival, persistence, spread)
