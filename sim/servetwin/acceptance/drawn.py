"""Fates drawn at random: a chain of matches for each request, from numbers that belong to it alone."""

from __future__ import annotations

from typing import Final, NamedTuple

from servetwin.acceptance.levels import Levels
from servetwin.acceptance.numbers import PER_COUNTER, Numbers
from servetwin.acceptance.runs import NUMBER_BYTES, RunTables
from servetwin.acceptance.tables import run_tables
from servetwin.request import Fate, Request
from servetwin.streams import Streams

_WORDS: Final = 160
"""64-bit numbers of a request in a block; most outputs need no more."""

_BYTES: Final = 8 * _WORDS
_SHORT: Final = 0.95 * _BYTES / NUMBER_BYTES
"""Runs for which these suffice, as a rule: one of the numbers is for the level, and some runs take three."""

_REQUESTS: Final = 32
"""Requests of a block."""

_BLOCKS: Final = 16
"""Blocks that are remembered."""

_REGION: Final = 1 << 64
"""Counters of one purpose: the blocks, what requests need besides, proposals, and every later piece."""

_ROOM: Final = 1 << 32
"""Counters of one request in a region of requests."""

_FURTHER: Final = _REGION
_PROPOSALS: Final = 2 * _REGION
_LATER: Final = 2 * _REGION
"""That of the first piece after the first one is the next."""


class Piece(NamedTuple):
    """How matches are drawn from one position of the output on.

    Attributes:
        start: that position [tokens].
        levels: the fresh draws of every level.
    """

    start: int
    levels: Levels


class DrawnFates:
    """Draws fates at random: the same for the same seed, request and position, whoever asks and in whatever order.

    The first numbers of neighbouring requests are drawn together, for asking the generator takes longer than they do.

    Args:
        pieces: how matches are drawn, by position; the first one starts at 0.
        proposal: how often a match is found in the text where none of it would stand; None = drafts are made always.
        streams: the run's random streams.
    """

    __slots__ = ("_blocks", "_ends", "_first", "_later", "_numbers", "_proposal", "_short")

    def __init__(self, pieces: tuple[Piece, ...], proposal: float | None, streams: Streams) -> None:
        self._numbers = Numbers(streams)
        self._proposal = proposal
        self._first: RunTables = run_tables(pieces[0].levels)
        #: Where each of the later pieces starts, and its tables.
        self._later: list[tuple[int, RunTables]] = [(piece.start, run_tables(piece.levels)) for piece in pieces[1:]]
        #: Outputs up to this length are tried with the numbers of a block alone.
        self._short = int(_SHORT * self._first.mean)
        self._blocks: dict[int, bytes] = {}

    def of(self, request: Request) -> Fate:
        """The fate of drafts for ``request``: as many positions as it has output tokens."""
        tokens, later = request.output_tokens, self._later
        if not later or tokens <= later[0][0]:
            matches = self._beginning(request.id, tokens)
        else:
            matches = self._beginning(request.id, later[0][0])
            for piece, (start, tables) in enumerate(later, 1):
                end = min([tokens, *[begin for begin, _ in later[piece:]]])
                if start < end:
                    counter = _LATER + piece * _REGION + request.id * _ROOM
                    matches += self._drawn(tables, b"", counter, end - start)
        if self._proposal is None:
            return Fate(matches)
        return Fate(matches, self._numbers.proposed(_PROPOSALS + request.id * _ROOM, matches, self._proposal))

    def _beginning(self, request_id: int, positions: int) -> bytes:
        """Matches of the first piece."""
        number = request_id // _REQUESTS
        block = self._blocks.get(number)
        if block is None:
            block = self._block(number)
        start = (request_id - number * _REQUESTS) * _BYTES
        if positions <= self._short:
            found: bytes | None = self._first.matches(block, start, start + _BYTES, positions)
            if found is not None:
                return found
        return self._drawn(self._first, block[start : start + _BYTES], _FURTHER + request_id * _ROOM, positions)

    def _block(self, number: int) -> bytes:
        """The first numbers of a block of requests."""
        if len(self._blocks) == _BLOCKS:
            del self._blocks[next(iter(self._blocks))]
        counter = number * (_REQUESTS * _WORDS // PER_COUNTER)
        block: bytes = self._numbers.at(counter, _REQUESTS * _WORDS)
        self._blocks[number] = block
        return block

    def _drawn(self, tables: RunTables, known: bytes, counter: int, positions: int) -> bytes:
        """Matches at so many positions, from the numbers ``known`` and those from ``counter`` on."""
        # A tenth more than are needed on average is enough, as a rule.
        words = int(0.55 * positions / tables.mean) + 8
        while True:
            numbers = known + self._numbers.at(counter, words)
            found = tables.matches(numbers, 0, len(numbers), positions)
            if found is not None:
                return found
            words *= 2
