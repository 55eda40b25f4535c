import random

import numpy as np
import pytest

from servetwin.results.exact import MOST_STEPS, ExactBins, exact_dot, exact_float_sum, exact_sum


def test_sums_that_overflow_64_bits_are_exact():
    values = np.full(1_000_000, 2**62 - 1, np.int64)
    assert exact_sum(values) == 1_000_000 * (2**62 - 1)
    assert exact_dot(values, values) == 1_000_000 * (2**62 - 1) ** 2


@pytest.mark.parametrize("seed", range(20))
def test_sums_and_products_equal_python_integers(seed):
    rng = random.Random(seed)
    size = rng.choice((0, 1, 5, 1000))
    left, right = (
        [rng.choice((1, -1)) * rng.randrange(2 ** rng.choice((1, 20, 40, 62))) for _ in range(size)] for _ in range(2)
    )
    assert exact_sum(np.array(left, np.int64)) == sum(left)
    expected = sum(one * other for one, other in zip(left, right, strict=True))
    assert exact_dot(np.array(left, np.int64), np.array(right, np.int64)) == expected


def test_float_sum_does_not_depend_on_the_order():
    values = np.random.default_rng(0).lognormal(0, 8, 20_001)
    shuffled = np.random.default_rng(1).permutation(values)
    assert exact_float_sum(values) == exact_float_sum(shuffled)
    assert exact_float_sum(np.array([1e16, 1.0, -1e16])) == 1.0


def test_bins_hold_sums_beyond_64_bits():
    bins = ExactBins(3)
    for _ in range(4):
        bins.add(np.array([0, 2, 2]), np.array([2**62, 2**62, 1], np.int64))
    assert bins.integers() == [2**64, 0, 2**64 + 4]
    assert bins.floats().tolist() == [2.0**64, 0.0, 2.0**64]
    assert bins.integers(slice(2, 3)) == [2**64 + 4]


def test_floats_depend_on_the_sums_alone():
    whole, parts = ExactBins(1), ExactBins(1)
    total = 3 * 2**60 + 12345
    whole.add(np.array([0]), np.array([total], np.int64))
    for piece in [2**60 + 1] * 3 + [12342]:
        parts.add(np.array([0]), np.array([piece], np.int64))
    assert whole.floats() == parts.floats()


@pytest.mark.parametrize("seed", range(30))
def test_series_of_products_equal_python_integers_at_their_limits(seed):
    rng = random.Random(seed)
    held, grows = rng.randrange(2**24), rng.randrange(2**14)
    first, growth = rng.randrange(2**45), rng.randrange(2 ** rng.choice((10, 24, 30)))
    count = rng.choice((1, 2, MOST_STEPS))
    bins = ExactBins(1)
    arguments = [np.array([value], np.int64) for value in (held, grows, first, growth, count)]
    bins.add_series(np.array([0]), *arguments)
    assert bins.integers() == [sum((held + j * grows) * (first + j * growth) for j in range(count))]
