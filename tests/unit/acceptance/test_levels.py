"""What steps read of a chain of matches, against the chain itself, one position after the other."""

from __future__ import annotations

import numpy as np
import pytest

from servetwin.acceptance.chain import last_ratio, read_survival
from servetwin.acceptance.levels import solve_levels

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


@pytest.mark.parametrize(
    ("survival", "persistence", "spread", "says"),
    [((0.9,), 1.0, 3.0, "smaller spread"), ((0.79, 0.7, 0.68, 0.67, 0.64, 0.64, 0.58), 0.98, 0.0, "lower persistence")],
)
def test_what_no_levels_have(survival: tuple[float, ...], persistence: float, spread: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        solve_levels(survival, persistence, spread)
