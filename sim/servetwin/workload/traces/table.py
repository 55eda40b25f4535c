"""Requests of a trace in columns of a few bytes each, so that millions of rows fit into memory."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from servetwin.workload.traces.format import NO_SESSION, Row

Longs = np.ndarray[Any, np.dtype[np.int64]]


class Rows:
    """Rows without their times, in columns.

    A row takes 8 bytes, and 8 for each block id; where the trace has them 4 more for classes, 8 for sessions, 8 for
    parents until the sessions are known, and 4 for turns.

    Attributes:
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

    def __init__(self) -> None:
        self.prompts = array("i")
        self.outputs = array("i")
        self.block_ids = array("Q")
        self.block_ends = array("q")
        self.class_names = [""]
        self.classes = array("i")
        self.sessions = array("q")
        self.parents = array("q")
        self.turns = array("i")
        self._class_numbers = {"": 0}

    def __len__(self) -> int:
        return len(self.prompts)

    def add(self, row: Row) -> None:
        """Append a row."""
        self.prompts.append(row.prompt_tokens)
        self.outputs.append(row.output_tokens)
        if row.blocks or self.block_ends:
            if not self.block_ends:
                self.block_ends.extend([0] * (len(self.prompts) - 1))
            self.block_ids.extend(row.blocks)
            self.block_ends.append(len(self.block_ids))
        if row.class_name or self.classes:
            number = self._class_numbers.setdefault(row.class_name, len(self.class_names))
            if number == len(self.class_names):
                self.class_names.append(row.class_name)
            self._note(self.classes, number, 0)
        if row.session != NO_SESSION or self.sessions:
            self._note(self.sessions, row.session, NO_SESSION)
        if row.parent != NO_SESSION or self.parents:
            self._note(self.parents, row.parent, NO_SESSION)
        if row.turn or self.turns:
            self._note(self.turns, row.turn, 0)

    def row(self, index: int, time_ps: int) -> Row:
        """A row again."""
        return Row(
            time_ps,
            self.prompts[index],
            self.outputs[index],
            self.blocks(index),
            self.class_names[self.classes[index]] if self.classes else "",
            self.sessions[index] if self.sessions else NO_SESSION,
            self.parents[index] if self.parents else NO_SESSION,
            self.turns[index] if self.turns else 0,
        )

    def blocks(self, index: int) -> tuple[int, ...]:
        """The block ids of a row."""
        if not self.block_ends:
            return ()
        return tuple(self.block_ids[self.block_ends[index - 1] if index else 0 : self.block_ends[index]])

    def name_sessions(self) -> None:
        """Turn ids and parents of requests into sessions, each called by the id of its first request."""
        if self.parents:
            self.sessions = array("q", roots(self.sessions, self.parents).tobytes())
            self.parents = array("q")

    def _note(self, column: array[int], value: int, default: int) -> None:
        if not column:
            column.extend(array(column.typecode, [default]) * (len(self.prompts) - 1))
        column.append(value)


def roots(ids: Sequence[int], parents: Sequence[int]) -> Longs:
    """The id of the first request of each request's conversation.

    A parent counts if it came before; of two requests with one id, the first.

    Args:
        ids: the requests' own ids, in order of time; −1 = none.
        parents: the ids of those they follow; −1 = none.
    """
    own, wanted = np.asarray(ids, np.int64), np.asarray(parents, np.int64)
    order = np.argsort(own, kind="stable")
    ranked = own[order]
    found = np.minimum(np.searchsorted(ranked, wanted), len(own) - 1)
    here = np.arange(len(own))
    place = order[found]
    up = np.where((wanted >= 0) & (ranked[found] == wanted) & (place < here), place, here)
    while True:  # each round doubles how far a request looks back
        further = up[up]
        if np.array_equal(further, up):
            return own[up]
        up = further


def distinct_prefixes(ids: Sequence[int], ends: Sequence[int]) -> int:
    """How many different prefixes, in whole blocks, prompts begin with.

    Args:
        ids: the block ids of all prompts.
        ends: where each prompt's ids end.
    """
    flat = np.frombuffer(ids, np.uint64) if isinstance(ids, array) and len(ids) else np.asarray(ids, np.uint64)
    stops = np.asarray(ends, np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), stops[:-1]))
    lengths = stops - starts
    # Depth by depth: what agrees at this depth and agreed before it has one prefix.
    open_rows = np.flatnonzero(lengths > 0)
    before = np.zeros(len(open_rows), np.int64)
    total = depth = 0
    while len(open_rows):
        values = flat[starts[open_rows] + depth]
        order = np.lexsort((values, before))
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(before[order]) != 0) | (values[order][1:] != values[order][:-1])
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.cumsum(new) - 1
        total += int(new.sum())
        depth += 1
        stay = lengths[open_rows] > depth
        open_rows, before = open_rows[stay], numbers[stay]
    return total
