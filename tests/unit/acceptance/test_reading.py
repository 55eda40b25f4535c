"""Reading a fate as steps do."""

from __future__ import annotations

from tests.unit.acceptance.reading_back import tokens_per_step

from servetwin.acceptance.reading import read_fate
from servetwin.request import Fate

FATE = Fate(bytes([9, 2, 1, 0, 0, 3, 2, 1, 0]))


def test_steps_accept_and_gain() -> None:
    """Each begins behind what the one before gained; the output ends where it ends."""
    assert [tuple(step) for step in read_fate(FATE, 3)] == [(1, 3, 2, 3), (4, 3, 0, 1), (5, 3, 3, 4)]
    assert [step.position for step in read_fate(FATE, 1)] == [1, 3, 4, 5, 7]
    assert [tuple(step) for step in read_fate(FATE, 0)] == [(p, 0, 0, 1) for p in range(1, 9)]
    assert [step.position for step in read_fate(FATE, 3, start=0)] == [0, 4, 5]
    assert [step.gained for step in read_fate(FATE, 99, start=0)] == [9]


def test_counting_steps_is_reading_them() -> None:
    for drafts in range(5):
        for start in (0, 1):
            steps = len(list(read_fate(FATE, drafts, start)))
            tokens = len(FATE.matches) - start
            assert tokens_per_step([FATE, FATE], drafts, start) == (tokens / steps, [tokens / steps] * 2)


def test_drafts_may_depend_on_the_position() -> None:
    assert [step.drafted for step in read_fate(FATE, lambda position: position % 3)] == [1, 0, 1, 2, 2]


def test_nothing_is_drafted_where_nothing_is_proposed() -> None:
    fate = Fate(FATE.matches, bytes([254, 254, 254, 0, 254, 2, 254, 254, 0]))
    assert [tuple(step) for step in read_fate(fate, 3)] == [(1, 3, 2, 3), (4, 3, 0, 1), (5, 2, 2, 3), (8, 0, 0, 1)]
