"""Fates drawn at random: a chain of matches for each request, from numbers that belong to it alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from servetwin.acceptance.levels import Levels
from servetwin.acceptance.numbers import PER_COUNTER, Numbers, proposed_where
from servetwin.acceptance.tables import MOST_MATCHES, Bytes, RunTables, Words
from servetwin.request import Fate, Request
from servetwin.streams import Streams

_POSITIONS = 384
"""Outputs up to this length are drawn in blocks [tokens]."""

_WORDS = _POSITIONS + 4
"""Numbers that a request of a block has: one for its level, one for each position, and what makes whole counters."""

_REQUESTS = 64
"""Requests of a block."""

_BLOCKS = 16
"""Blocks that are remembered."""

_REGION = 1 << 64
"""Counters of one purpose: the blocks, what long outputs have beyond, and that for every later piece."""

_ROOM = 1 << 32
"""Counters of one request in a region of requests."""


@dataclass(frozen=True)
class Piece:
    """How matches are drawn from one position of the output on.

    Attributes:
        start: that position [tokens].
        levels: the fresh draws of every level.
    """

    start: int
    levels: Levels


class DrawnFates:
    """Draws fates at random: the same for the same seed, request and position, whoever asks and in whatever order.

    Requests of neighbouring ids are drawn together, for that is several times as fast.

    Args:
        pieces: how matches are drawn, by position; the first one starts at 0.
        proposal: how often a match is found in the text where none of it would stand; None = drafts are made always.
        streams: the run's random streams.
    """

    def __init__(self, pieces: tuple[Piece, ...], proposal: float | None, streams: Streams) -> None:
        self._numbers = Numbers(streams)
        self._proposal = proposal
        self._tables = [(piece.start, RunTables(piece.levels)) for piece in pieces]
        self._short = min([_POSITIONS, *(piece.start for piece in pieces[1:])])
        self._blocks: dict[int, tuple[Bytes, Bytes | None]] = {}

    def of(self, request: Request) -> Fate:
        """The fate of drafts for ``request``: as many positions as it has output tokens."""
        tokens = request.output_tokens
        if tokens > self._short:
            return self._long(request.id, tokens)
        number, row = divmod(request.id, _REQUESTS)
        block = self._blocks.get(number)
        if block is None:
            block = self._block(number)
        matches, proposed = block
        return Fate(matches[row, :tokens].tobytes(), None if proposed is None else proposed[row, :tokens].tobytes())

    def _block(self, number: int) -> tuple[Bytes, Bytes | None]:
        """The fates of a block of requests, as far as blocks go."""
        words = self._numbers.at(number * (_REQUESTS * _WORDS // PER_COUNTER), _REQUESTS * _WORDS)
        drawn = self._drawn(self._tables[0][1], words.reshape(_REQUESTS, _WORDS), self._short)
        if len(self._blocks) == _BLOCKS:
            del self._blocks[next(iter(self._blocks))]
        self._blocks[number] = drawn
        return drawn

    def _long(self, request_id: int, tokens: int) -> Fate:
        """The fate of a request that is longer than blocks go; it begins as that of the block does."""
        matches, proposed = bytearray(), bytearray()
        for piece, (start, tables) in enumerate(self._tables):
            end = min([tokens, *(start for start, _ in self._tables[piece + 1 :])])
            if start >= end:
                break
            more = end - start + 1 if piece else end - self._short
            words = self._numbers.at((piece + 1) * _REGION + request_id * _ROOM, more)
            if piece == 0:
                known = self._numbers.at(request_id * (_WORDS // PER_COUNTER), self._short + 1)
                words = np.concatenate((known, words))
            drawn, found = self._drawn(tables, words[None], end - start)
            matches += drawn.tobytes()
            if found is not None:
                proposed += found.tobytes()
        return Fate(bytes(matches), None if self._proposal is None else bytes(proposed))

    def _drawn(self, tables: RunTables, words: Words, positions: int) -> tuple[Bytes, Bytes | None]:
        """Matches and proposals at so many positions, a row for each request."""
        matches = tables.matches(words, positions)
        if self._proposal is None:
            return matches, None
        found = proposed_where(words[:, 1 : positions + 1], self._proposal)
        found |= matches > 0
        return matches, found.astype(np.uint8) * np.uint8(MOST_MATCHES)
