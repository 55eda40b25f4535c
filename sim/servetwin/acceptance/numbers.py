"""Random numbers that belong to one request, whoever asks for them and in whatever order."""

from __future__ import annotations

import numpy as np

from servetwin.acceptance.runs import MOST_MATCHES
from servetwin.streams import Streams

PER_COUNTER = 4
"""Numbers that the generator yields for each of its counters."""

_PERIOD = 1 << 256
"""Counters that it has."""


class Numbers:
    """Random 64-bit numbers by their place in one endless row.

    A counter-based generator (Philox; Salmon et al., SC'11) jumps to any place, twenty times as fast as a generator is
    seeded.

    Args:
        streams: the run's random streams; the one called ``acceptance`` is used.
    """

    def __init__(self, streams: Streams) -> None:
        key = streams.generator("acceptance").integers(0, 2**64, 2, dtype=np.uint64)
        self._bits = np.random.Philox(key=key)
        self._counter = 0

    def at(self, counter: int, count: int) -> bytes:
        """So many numbers from a counter on, as bytes that are alike on all machines.

        Args:
            counter: where; every counter stands for ``PER_COUNTER`` numbers.
            count: how many.
        """
        ahead = counter - self._counter
        self._bits.advance(ahead if ahead >= 0 else ahead + _PERIOD)
        self._counter = counter + -(-count // PER_COUNTER)
        found: bytes = self._bits.random_raw(count).astype("<u8", copy=False).tobytes()
        return found

    def proposed(self, counter: int, matches: bytes, proposal: float) -> bytes:
        """By position, how many tokens are drafted at most: any number where one would stand, and at a share of the
        others.

        Args:
            counter: of the numbers that say where; a quarter of one for each position.
            matches: how many would stand.
            proposal: that share.
        """
        drawn = np.frombuffer(self.at(counter, -(-len(matches) // 4)), "<u2", len(matches))
        found = drawn < round(proposal * 2**16)
        found |= np.frombuffer(matches, np.uint8) > 0
        return (found.view(np.uint8) * np.uint8(MOST_MATCHES)).tobytes()
