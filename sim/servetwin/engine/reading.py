"""What a request gains in its steps, read from the fate of its drafts, and the sums of such numbers over a batch."""

from __future__ import annotations

from typing import Final

#: Bits of a number in a packed one. No step has as many tokens.
_BITS: Final = 20
_MASK: Final = (1 << 20) - 1


class Reading:
    """A stretch of steps in which a request verifies drafts.

    Attributes:
        start: the first step.
        end: the step after the last one that was planned; of a stretch that goes on, its last one at the latest.
        gained: output tokens by step, up to the request's end.
        accepted: drafts that stand, by step; the last of them may lie behind the end of the output.
        verified: drafted tokens, by step; None = ``tokens`` in each.
        tokens: see ``verified``.
        before: the stretch before it, as long as its last tokens may be on the way; None = none.
    """

    __slots__ = ("accepted", "before", "end", "gained", "start", "tokens", "verified")

    def __init__(self, start: int, tokens: int, before: Reading | None) -> None:
        self.start = start
        self.end = start
        self.gained: list[int] = []
        self.accepted: list[int] = []
        self.verified: list[int] | None = None
        self.tokens = tokens
        self.before = before

    def between(self, first: int, end: int) -> int:
        """Output tokens of the steps from ``first`` to the one before ``end``, those of stretches before it too."""
        mine = sum(self.gained[max(0, first - self.start) : max(0, end - self.start)])
        if self.before is None or first >= self.start:
            return mine
        return self.before.between(first, self.before.end) + mine


def stands(accepted: int) -> int:
    """One request whose first ``accepted`` drafts stood, as counts by position in one number.

    >>> by_position(stands(2) + stands(1), 3)
    [2, 1, 0]
    """
    return sum([1 << (_BITS * position) for position in range(accepted)])


def by_position(stood: int, most: int) -> list[int]:
    """By position, in how many requests the draft there stood, of a sum of ``stands``."""
    return [(stood >> (_BITS * position)) & _MASK for position in range(most)]


def in_all(stood: int) -> int:
    """How many drafts stood, of a sum of ``stands``.

    >>> in_all(stands(2) + stands(1))
    3
    """
    found = 0
    while stood:
        found += stood & _MASK
        stood >>= _BITS
    return found


def share(gained: int, drafted: int) -> int:
    """What one request adds to a step: output tokens, drafted tokens, and whether it verifies any, in one number.

    >>> total = share(3, 4) + share(1, 0)
    >>> gained_of(total), drafted_of(total), drafting_of(total)
    (4, 4, 1)
    """
    return gained + (drafted << _BITS) + ((1 << (2 * _BITS)) if drafted else 0)


def gained_of(total: int) -> int:
    """Output tokens, of a sum of ``share``."""
    return total & _MASK


def drafted_of(total: int) -> int:
    """Drafted tokens that are verified."""
    return (total >> _BITS) & _MASK


def drafting_of(total: int) -> int:
    """Requests that verify any."""
    return total >> (2 * _BITS)
