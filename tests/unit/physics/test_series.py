"""A series answers exactly what stepping through it would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from servetwin.physics.series import Series


@given(
    start=st.integers(0, 10**15),
    first=st.integers(1, 10**12),
    growth=st.one_of(st.just(0), st.integers(1, 10**9)),
    count=st.integers(1, 300),
    data=st.data(),
)
def test_boundaries_and_their_inverse(start: int, first: int, growth: int, count: int, data: st.DataObject) -> None:
    """Boundaries are running sums; the inverse finds the first one at or after an instant."""
    series = Series(start, count, first, growth)
    boundaries = [start]
    for step in range(count):
        boundaries.append(boundaries[-1] + first + step * growth)
    assert [series.boundary(k) for k in range(count + 1)] == boundaries
    near = data.draw(st.sampled_from(boundaries)) + data.draw(st.integers(-2, 2))
    inside = data.draw(st.integers(start, boundaries[-1]))
    for instant in (min(near, boundaries[-1]), inside):
        expected = next(k for k, boundary in enumerate(boundaries) if boundary >= instant)
        assert series.first_boundary_from(instant) == expected
        assert series.steps_before(instant) == sum(boundary < instant for boundary in boundaries[1:])


def test_long_series_are_exact_where_floats_are_not() -> None:
    """Ten billion steps: the float estimate is off, the integer correction is not."""
    series = Series(3, 1, 999_999_999_989, 7)
    for k in (10**7 + 1, 10**9 + 7, 10**10 + 19):
        assert series.first_boundary_from(series.boundary(k)) == k
        assert series.first_boundary_from(series.boundary(k) + 1) == k + 1
        assert series.steps_before(series.boundary(k)) == k - 1
