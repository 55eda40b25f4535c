"""Random numbers that belong to one request, whoever asks for them and in whatever order."""

from __future__ import annotations

import numpy as np

from servetwin.acceptance.tables import Words
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

    def at(self, counter: int, count: int) -> Words:
        """So many numbers from a counter on; every counter stands for ``PER_COUNTER`` of them."""
        ahead = counter - self._counter
        self._bits.advance(ahead if ahead >= 0 else ahead + _PERIOD)
        words: Words = self._bits.random_raw(count)
        self._counter = counter + -(-count // PER_COUNTER)
        return words


def proposed_where(words: Words, proposal: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which of the numbers stand for a proposal, from bits that matches are not drawn from."""
    found: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (words >> np.uint64(16)) & np.uint64(0xFFFF) < round(
        proposal * 2**16
    )
    return found
