"""From requests that name the one they follow to conversations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from servetwin.workload.traces.format import NO_SESSION

Longs = np.ndarray[Any, np.dtype[np.int64]]


class Conversations:
    """Finds the first request of each request's conversation, block by block in order of time.

    A parent counts if it came before; of two requests with one id, the first. What is remembered is 16 bytes for each
    id so far.
    """

    def __init__(self) -> None:
        # Ids, ascending, and the first requests of their conversations: long lists before short ones, no id in two.
        self._known: list[tuple[Longs, Longs]] = []

    def of(self, ids: Sequence[int], parents: Sequence[int]) -> Longs:
        """The id of the first request of the conversation of each request of the next block.

        Args:
            ids: the requests' own ids; −1 = none.
            parents: the ids of those they follow; −1 = none.
        """
        own, wanted = np.asarray(ids, np.int64), np.asarray(parents, np.int64)
        before = self._find(wanted)
        firsts = np.where(before != NO_SESSION, before, own)
        up = _parents_within(own, np.where(before != NO_SESSION, NO_SESSION, wanted))
        while True:  # each round doubles how far a request looks back
            further = up[up]
            if np.array_equal(further, up):
                break
            up = further
        firsts = firsts[up]
        self._learn(own, firsts)
        return firsts

    def _find(self, wanted: Longs) -> Longs:
        """The first request of the conversation of each id; −1 = unknown."""
        found = np.full(len(wanted), NO_SESSION)
        for ids, firsts in self._known:
            at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
            found = np.where(ids[at] == wanted, firsts[at], found)
        return found

    def _learn(self, own: Longs, firsts: Longs) -> None:
        ids, at = np.unique(own, return_index=True)  # of equal ids the first
        new = (ids != NO_SESSION) & (self._find(ids) == NO_SESSION)
        if not new.any():
            return
        self._known.append((ids[new], firsts[at[new]]))
        while len(self._known) > 1 and len(self._known[-2][0]) <= 2 * len(self._known[-1][0]):
            pair = self._known.pop(), self._known.pop()
            ids, firsts = (np.concatenate(columns) for columns in zip(*pair, strict=True))
            order = np.argsort(ids, kind="stable")
            self._known.append((ids[order], firsts[order]))


def _parents_within(own: Longs, wanted: Longs) -> Longs:
    """The place of each request's parent in the same block; its own place where there is none before it."""
    order = np.argsort(own, kind="stable")
    ranked = own[order]
    found = np.minimum(np.searchsorted(ranked, wanted), len(own) - 1)
    here = np.arange(len(own))
    place = order[found]
    return np.where((wanted >= 0) & (ranked[found] == wanted) & (place < here), place, here)
