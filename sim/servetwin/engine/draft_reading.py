"""What a request gains in its steps, read from the fate of its drafts, and sums of such numbers over a batch."""

from __future__ import annotations


class Reading:
    """A stretch of steps in which a request verifies drafts.

    Attributes:
        start: the first step.
        end: the step after the last one that was planned; of a stretch that goes on, ``start``.
        gained: output tokens by step, up to the request's end.
        beyond: drafts that stand in the last step of the output, but lie behind its end.
        verified: drafted tokens, by step; None = ``tokens`` in each.
        tokens: see ``verified``.
        before: the stretch before it, as long as its last tokens may be on the way; None = none.
    """

    __slots__ = ("before", "beyond", "end", "gained", "start", "tokens", "verified")

    def __init__(self, start: int, tokens: int, before: Reading | None) -> None:
        self.start = start
        self.end = start
        self.gained: list[int] = []
        self.beyond = 0
        self.verified: list[int] | None = None
        self.tokens = tokens
        self.before = before

    def between(self, first: int, end: int) -> int:
        """Output tokens of the steps from ``first`` to the one before ``end``, those of stretches before it too."""
        mine = sum(self.gained[max(0, first - self.start) : max(0, end - self.start)])
        if self.before is None or first >= self.start:
            return mine
        return self.before.between(first, self.before.end) + mine

    def accepted(self, index: int) -> int:
        """Drafts that stand in a step, counted from the first one of the stretch."""
        stood = self.gained[index] - 1
        return stood + self.beyond if index == len(self.gained) - 1 else stood


class Packing:
    """Several small numbers in one: what a step yields, and by position how many requests' drafts stood.

    Adding up packed numbers adds up each of them. Of up to three positions a sum fits into a machine word, which is
    all that makes it fast; more are as right.

    Args:
        most: positions.
        largest: no sum of any of the numbers is as large.

    Attributes:
        largest: see above.

    >>> packing = Packing(3, 1000)
    >>> total = packing.step(2) + packing.step(0)
    >>> packing.gained(total), packing.by_position(total), packing.accepted(total)
    (4, [1, 1, 0], 2)
    """

    __slots__ = ("_bits", "_mask", "_most", "largest")

    def __init__(self, most: int, largest: int) -> None:
        self._most = most
        self.largest = largest
        self._bits = largest.bit_length()
        self._mask = (1 << self._bits) - 1

    def step(self, accepted: int) -> int:
        """A step of one request whose first ``accepted`` drafts stood."""
        return accepted + 1 + sum([1 << (self._bits * (position + 1)) for position in range(accepted)])

    def gained(self, total: int) -> int:
        """Tokens that the steps yield."""
        return total & self._mask

    def by_position(self, total: int) -> list[int]:
        """By position, in how many steps the draft there stood."""
        return [(total >> (self._bits * position)) & self._mask for position in range(1, self._most + 1)]

    def add_to(self, counts: list[int], total: int) -> None:
        """Add what ``by_position`` says to counts by position."""
        total >>= self._bits
        position = 0
        while total:
            counts[position] += total & self._mask
            total >>= self._bits
            position += 1

    def accepted(self, total: int) -> int:
        """Drafts that stood in all."""
        found = 0
        total >>= self._bits
        while total:
            found += total & self._mask
            total >>= self._bits
        return found
