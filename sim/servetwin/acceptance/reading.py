"""What steps make of a fate, as a program of a few lines: for tests and for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from servetwin.request import Fate


class Read(NamedTuple):
    """What one step that verifies drafts yields.

    Attributes:
        position: output tokens that are there when it begins.
        drafted: tokens that were drafted.
        accepted: those of them that stand.
        gained: tokens that the output gains: those accepted and one more, as far as it goes.
    """

    position: int
    drafted: int
    accepted: int
    gained: int


def read_fate(fate: Fate, drafts: int | Callable[[int], int], start: int = 1) -> Iterator[Read]:
    """The steps of a request, one after the other.

    Args:
        fate: the fate of its drafts.
        drafts: how many tokens are drafted; may depend on the position.
        start: output tokens that are there when the first step begins: prefill yields one.

    >>> fate = Fate(bytes([9, 2, 1, 0, 0, 3, 2, 1]))
    >>> [tuple(step) for step in read_fate(fate, 2)]
    [(1, 2, 2, 3), (4, 2, 0, 1), (5, 2, 2, 3)]
    """
    position, tokens = start, len(fate.matches)
    while position < tokens:
        drafted = drafts if isinstance(drafts, int) else drafts(position)
        if fate.proposed is not None:
            drafted = min(drafted, fate.proposed[position])
        accepted = min(fate.matches[position], drafted)
        gained = min(accepted + 1, tokens - position)
        yield Read(position, drafted, accepted, gained)
        position += gained
