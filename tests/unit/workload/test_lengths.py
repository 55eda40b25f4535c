"""Distributions of lengths and durations against theory (five standard errors)."""

from __future__ import annotations

import gzip
import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from servetwin.errors import TraceError
from servetwin.streams import Streams
from servetwin.units import PS_PER_S
from servetwin.workload.lengths import Length, Lengths
from servetwin.workload.times import Duration, Durations

LENGTHS: TypeAdapter[Length] = TypeAdapter(Lengths)
DURATIONS: TypeAdapter[Duration] = TypeAdapter(Durations)
NUMBER = 40_000
SEEDS = range(3)


def lengths(content: Any, seed: int = 0, base: Path = Path(), number: int = NUMBER) -> np.ndarray[Any, Any]:
    stream = LENGTHS.validate_python(content).stream(Streams(seed).generator("prompts"), base)
    return np.array(list(islice(stream, number)))


def seconds(content: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    stream = DURATIONS.validate_python(content).stream(Streams(seed).generator("think"))
    return np.array(list(islice(stream, NUMBER))) / PS_PER_S


def test_a_bare_number_is_a_constant() -> None:
    assert set(lengths(7)) == {7}
    assert set(lengths({"distribution": "constant", "value": 7})) == {7}
    assert set(seconds(0.25)) == {0.25}


@pytest.mark.parametrize("seed", SEEDS)
def test_normal(seed: int) -> None:
    drawn = lengths({"distribution": "normal", "mean": 5000, "std": 150}, seed)
    assert abs(drawn.mean() - 5000) < 5 * 150 / math.sqrt(NUMBER)
    assert abs(drawn.std() - 150) < 5 * 150 / math.sqrt(2 * NUMBER)


@pytest.mark.parametrize("seed", SEEDS)
def test_clipping_moves_what_lies_outside_to_the_bound(seed: int) -> None:
    drawn = lengths({"distribution": "normal", "mean": 500, "std": 100, "min": 400, "max": 700}, seed)
    assert drawn.min() == 400
    assert drawn.max() == 700
    # P(rounded ≤ 400) = Φ((400.5 − 500)/100); drawing again instead would leave an ordinary share there.
    expected = 0.5 * math.erfc(0.995 / math.sqrt(2))
    assert abs((drawn == 400).mean() - expected) < 5 * math.sqrt(expected / NUMBER)


@pytest.mark.parametrize("seed", SEEDS)
def test_lognormal_has_its_own_mean_and_deviation(seed: int) -> None:
    drawn = lengths({"distribution": "lognormal", "mean": 10_000, "std": 4_000}, seed)
    assert abs(drawn.mean() - 10_000) < 5 * 4_000 / math.sqrt(NUMBER)
    logs = np.log(drawn)
    sigma = math.sqrt(math.log(1 + 0.4**2))
    assert abs(logs.std() - sigma) < 5 * sigma / math.sqrt(2 * NUMBER)
    assert abs(logs.mean() - (math.log(10_000) - sigma**2 / 2)) < 5 * sigma / math.sqrt(NUMBER)


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_includes_both_ends(seed: int) -> None:
    drawn = lengths({"distribution": "uniform", "min": 3, "max": 6}, seed)
    shares = np.bincount(drawn, minlength=8) / NUMBER
    assert shares[[0, 1, 2, 7]].sum() == 0
    assert np.abs(shares[3:7] - 0.25).max() < 5 * math.sqrt(0.25 * 0.75 / NUMBER)


@pytest.mark.parametrize("seed", SEEDS)
def test_exponential(seed: int) -> None:
    drawn = lengths({"distribution": "exponential", "mean": 5000}, seed)
    assert abs(drawn.mean() - 5000) < 5 * 5000 / math.sqrt(NUMBER)
    assert drawn.min() >= 1
    assert abs((drawn > 5000).mean() - math.exp(-1)) < 5 * 0.5 / math.sqrt(NUMBER)


@pytest.mark.parametrize("seed", SEEDS)
def test_empirical_follows_its_weights(seed: int) -> None:
    content = {"distribution": "empirical", "values": [10, 20, 30], "weights": [1, 0, 3]}
    drawn = lengths(content, seed)
    assert (drawn == 20).sum() == 0
    assert abs((drawn == 30).mean() - 0.75) < 5 * math.sqrt(0.75 * 0.25 / NUMBER)
    even = lengths({"distribution": "empirical", "values": [10, 20, 30]}, seed)
    assert abs((even == 20).mean() - 1 / 3) < 5 * 0.5 / math.sqrt(NUMBER)


@pytest.mark.parametrize("compressed", [False, True])
def test_empirical_from_a_file(tmp_path: Path, compressed: bool) -> None:
    text = b"10, 1\r\n\r\n30, 3\r\n20,0"
    (tmp_path / "lengths.txt").write_bytes(gzip.compress(text) if compressed else text)
    from_file = lengths({"distribution": "empirical", "file": "lengths.txt"}, base=tmp_path)
    inline = lengths({"distribution": "empirical", "values": [10, 30, 20], "weights": [1, 3, 0]})
    assert (from_file == inline).all()


@pytest.mark.parametrize("line", ["0", "-3", "2.5", "x", "5,-1", "5,nan", "5,inf", "5,", "1_0", "9" * 5000, "5,1,2"])
def test_a_bad_line_of_a_file_of_lengths_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "lengths.txt").write_text(f"10\n{line}\n")
    with pytest.raises(TraceError) as caught:
        lengths({"distribution": "empirical", "file": "lengths.txt"}, base=tmp_path)
    assert caught.value.path == "line 2"
    assert caught.value.found == line
    assert caught.value.allowed


def test_a_file_without_lengths_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(TraceError, match="no length"):
        lengths({"distribution": "empirical", "file": "none.txt"}, base=tmp_path)
    with pytest.raises(TraceError, match="no such file") as caught:
        lengths({"distribution": "empirical", "file": "non.txt"}, base=tmp_path)
    assert caught.value.nearest == "none.txt"


@pytest.mark.parametrize("seed", SEEDS)
def test_durations(seed: int) -> None:
    error = 5 / math.sqrt(NUMBER)
    assert abs(seconds({"distribution": "exponential", "mean": 2}, seed).mean() - 2) < 2 * error
    assert abs(seconds({"distribution": "lognormal", "mean": 2, "std": 1}, seed).mean() - 2) < error
    uniform = seconds({"distribution": "uniform", "min": 1, "max": 3}, seed)
    assert abs(uniform.mean() - 2) < error
    assert 1 <= uniform.min() < 1.01
    assert 2.99 < uniform.max() <= 3
    clipped = seconds({"distribution": "exponential", "mean": 2, "min": 1, "max": 3}, seed)
    assert (clipped.min(), clipped.max()) == (1, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_percentiles_are_met_and_straight_in_between(seed: int) -> None:
    """From 100 to 200 for half of the draws, from 200 to 1,200 for the rest: mean (150 + 700)/2."""
    drawn = lengths({"distribution": "percentiles", "points": [[0, 100], [50, 200], [100, 1200]]}, seed)
    assert drawn.min() >= 100
    assert drawn.max() <= 1200
    for value, share in ((150, 0.25), (200, 0.5), (700, 0.75), (1000, 0.9)):
        assert abs((drawn <= value).mean() - share) < 5 * math.sqrt(share * (1 - share) / NUMBER) + 0.006
    deviation = math.sqrt(((100**2 + 1000**2) / 12 + 2 * 275**2) / 2)
    assert abs(drawn.mean() - 425) < 5 * deviation / math.sqrt(NUMBER)


def test_a_flat_stretch_of_percentiles_is_one_length() -> None:
    drawn = lengths({"distribution": "percentiles", "points": [[0, 8], [30, 8], [30.001, 50], [100, 50]]})
    assert abs((drawn == 8).mean() - 0.3) < 5 * math.sqrt(0.21 / NUMBER)
    assert abs((drawn == 50).mean() - 0.7) < 5 * math.sqrt(0.21 / NUMBER) + 1e-4


def test_the_most_extreme_spread_stays_in_range() -> None:
    """A standard deviation of 10³⁰⁹ means: nearly all draws are as short as can be."""
    drawn = lengths({"distribution": "lognormal", "mean": 1e-300, "std": 1e9}, number=1_000)
    assert set(drawn.tolist()) == {1}
    assert seconds({"distribution": "lognormal", "mean": 1e-300, "std": 1e9}).max() == 0


BAD: list[tuple[Any, str]] = [
    (0, "greater than or equal to 1"),
    (-5, "greater than or equal to 1"),
    (2.5, "integer"),
    (True, "valid dictionary"),
    ("500", "dictionary"),
    ({"distribution": "norml", "mean": 5, "std": 1}, "norml"),
    ({"mean": 5, "std": 1}, "distribution"),
    ({"distribution": "normal", "mean": 5}, "std"),
    ({"distribution": "normal", "mean": 5, "std": -1}, "std"),
    ({"distribution": "normal", "mean": float("nan"), "std": 1}, "mean"),
    ({"distribution": "normal", "mean": float("inf"), "std": 1}, "mean"),
    ({"distribution": "normal", "mean": 0, "std": 1}, "mean"),
    ({"distribution": "normal", "mean": "5", "std": 1}, "mean"),
    ({"distribution": "normal", "mean": 5, "std": 1, "min": 9, "max": 3}, "min .9. must not be above max .3."),
    ({"distribution": "normal", "mean": 5, "std": 1, "sigma": 3}, "sigma"),
    ({"distribution": "uniform", "min": 9, "max": 3}, "above max"),
    ({"distribution": "uniform", "min": 0, "max": 3}, "min"),
    ({"distribution": "empirical"}, "either values or file"),
    ({"distribution": "empirical", "values": [1], "file": "x"}, "either values or file"),
    ({"distribution": "empirical", "values": [1, 2], "weights": [1]}, "2 values need as many weights"),
    ({"distribution": "empirical", "values": [1, 2], "weights": [0, 0]}, "above 0"),
    ({"distribution": "empirical", "values": [1, 0]}, "values"),
    ({"distribution": "percentiles"}, "points"),
    ({"distribution": "percentiles", "points": [[0, 5]]}, "points"),
    ({"distribution": "percentiles", "points": [[0, 5], [90, 9]]}, "the last 100"),
    ({"distribution": "percentiles", "points": [[1, 5], [100, 9]]}, "the first percentile is 0"),
    ({"distribution": "percentiles", "points": [[0, 5], [50, 6], [50, 7], [100, 9]]}, "must ascend"),
    ({"distribution": "percentiles", "points": [[0, 5], [50, 4], [100, 9]]}, "must not be below"),
    ({"distribution": "percentiles", "points": [[0, 0], [100, 9]]}, "points"),
    ({"distribution": "percentiles", "points": [[0, 1], [100, 9.5]]}, "points"),
    ({"distribution": "percentiles", "points": [["0", 1], [100, 9]]}, "points"),
    ({"distribution": "percentiles", "points": [[0, 1], [101, 9]]}, "points"),
    ({"distribution": "percentiles", "points": {"0": 1, "100": 9}}, "points"),
]


@pytest.mark.parametrize(("content", "named"), BAD)
def test_mistakes_are_refused_by_name(content: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        LENGTHS.validate_python(content)


@pytest.mark.parametrize(
    "content", [-1, float("nan"), float("inf"), "5", True, {"distribution": "uniform", "min": 3, "max": 1}]
)
def test_bad_durations_are_refused(content: Any) -> None:
    with pytest.raises(ValueError):
        DURATIONS.validate_python(content)
