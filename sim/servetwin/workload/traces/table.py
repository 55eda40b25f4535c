"""Requests of a trace in columns of a few bytes each, so that millions of rows fit into memory or a small file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import NamedTuple

from servetwin.workload.traces.conversations import Conversations
from servetwin.workload.traces.format import NO_SESSION, Row
from servetwin.workload.traces.spool import BLOCK, Column, Spool

PIECE = 1 << 8
"""Rows whose numbers are read at once."""


class Record(NamedTuple):
    """A row of the columns, in their order.

    Attributes:
        prompt: prompt tokens.
        output: output tokens.
        blocks: ids of its blocks.
        kind: the number of its class in ``Rows.class_names``.
        session: its session or own id, −1 = none.
        parent: the request that it follows, −1 = none.
        turn: its place in its session.
    """

    prompt: int
    output: int
    blocks: tuple[int, ...]
    kind: int
    session: int
    parent: int
    turn: int


class Rows:
    """Rows without their times, in columns.

    A row takes 8 bytes, and 8 for each block id; where the trace has them 8 more for the end of its ids, 4 for classes,
    8 for sessions, 8 for parents until the sessions are known, and 4 for turns.

    Args:
        spool: where the columns keep what they hold.

    Attributes:
        spool: see above.
        prompts: prompt tokens.
        outputs: output tokens.
        block_ids: the block ids of all prompts, one prompt after the other.
        block_ends: where the ids of each prompt end in ``block_ids``; empty where the trace knows no blocks.
        class_names: names of classes.
        classes: the number of each row's class in ``class_names``; empty where no row has one.
        sessions: the session of each row, −1 = none; empty where no row has one.
        parents: the request that each row follows, −1 = none; empty where no row has one.
        turns: the place of each row in its session; empty where all are 0.
    """

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.prompts: Column[int] = Column("i", spool)
        self.outputs: Column[int] = Column("i", spool)
        self.block_ids: Column[int] = Column("Q", spool)
        self.block_ends: Column[int] = Column("q", spool)
        self.class_names = [""]
        self.classes: Column[int] = Column("i", spool)
        self.sessions: Column[int] = Column("q", spool)
        self.parents: Column[int] = Column("q", spool)
        self.turns: Column[int] = Column("i", spool)
        self._class_numbers = {"": 0}
        self._ids = 0
        # Which columns have begun; asked of every row, so it has to be quicker than their lengths.
        self._blocks = self._classes = self._sessions = self._parents = self._turns = False

    def __len__(self) -> int:
        return len(self.prompts)

    def add(self, row: Row) -> None:
        """Append a row."""
        self.prompts.append(row.prompt_tokens)
        self.outputs.append(row.output_tokens)
        if row.blocks or self._blocks:
            self._blocks = self._blocks or self._begin(self.block_ends, 0)
            self._ids += len(row.blocks)
            self.block_ids.extend(array("Q", row.blocks))
            self.block_ends.append(self._ids)
        if row.class_name or self._classes:
            self._classes = self._classes or self._begin(self.classes, 0)
            number = self._class_numbers.setdefault(row.class_name, len(self.class_names))
            if number == len(self.class_names):
                self.class_names.append(row.class_name)
            self.classes.append(number)
        if row.session != NO_SESSION or self._sessions:
            self._sessions = self._sessions or self._begin(self.sessions, NO_SESSION)
            self.sessions.append(row.session)
        if row.parent != NO_SESSION or self._parents:
            self._parents = self._parents or self._begin(self.parents, NO_SESSION)
            self.parents.append(row.parent)
        if row.turn or self._turns:
            self._turns = self._turns or self._begin(self.turns, 0)
            self.turns.append(row.turn)

    def records(self, start: int, stop: int) -> Iterator[Record]:
        """The rows from ``start`` (included) to ``stop`` (excluded), of which a few at a time are in memory."""
        for at in range(start, stop, PIECE):
            end = min(at + PIECE, stop)

            def part(column: Column[int], default: int, at: int = at, end: int = end) -> Iterable[int]:
                return column.read(at, end) if column else repeat(default, end - at)

            columns = (
                self.prompts.read(at, end),
                self.outputs.read(at, end),
                self._blocks_of(at, end),
                part(self.classes, 0),
                part(self.sessions, NO_SESSION),
                part(self.parents, NO_SESSION),
                part(self.turns, 0),
            )
            yield from map(Record._make, zip(*columns, strict=True))

    def row(self, record: Record, time_ps: int) -> Row:
        """The row of a record again."""
        prompt, output, blocks, kind, session, parent, turn = record
        return Row(time_ps, prompt, output, blocks, self.class_names[kind], session, parent, turn)

    def blocks(self, index: int) -> tuple[int, ...]:
        """The block ids of a row."""
        return next(iter(self._blocks_of(index, index + 1)))

    def name_sessions(self) -> None:
        """Turn ids and parents of requests into sessions, each called by the id of its first request."""
        if not self.parents:
            return
        named: Column[int] = Column("q", self.spool)
        conversations = Conversations()
        for start in range(0, len(self), BLOCK):
            stop = min(start + BLOCK, len(self))
            firsts = conversations.of(self.sessions.read(start, stop), self.parents.read(start, stop))
            named.extend(array("q", firsts.tobytes()))
        self.sessions, self.parents = named, Column("q", self.spool)

    def _blocks_of(self, start: int, stop: int) -> Iterable[tuple[int, ...]]:
        return self._stretches(start, stop) if self.block_ends else repeat((), stop - start)

    def _stretches(self, start: int, stop: int) -> Iterator[tuple[int, ...]]:
        before = self.block_ends[start - 1] if start else 0
        for end in self.block_ends.read(start, stop):
            yield tuple(self.block_ids.read(before, end))
            before = end

    def _begin(self, column: Column[int], default: int) -> bool:
        """Give the rows so far, without the one that is being added, a default."""
        column.fill(default, len(self.prompts) - 1)
        return True
