"""Hand-overs from replicas that prefill to replicas that decode, as columns in order of the requests' ids."""

from __future__ import annotations

import numpy as np

from servetwin.results.columns import ColumnStore
from servetwin.results.exact import Bools, Ints

HAND_OVER_COLUMNS = (
    "id", "source", "target", "queued_ps", "scheduled_ps", "reserved_ps", "start_ps", "end_ps", "kept_ps", "freed_ps",
    "moved_bytes", "attempts", "found_tokens",
)  # fmt: skip
"""Columns as recorded, see ``servetwin.records.RunLog.handed_over``; stamps are absolute."""


class HandOverTable:
    """All hand-overs of a run.

    Args:
        store: the columns ``HAND_OVER_COLUMNS`` in order of recording.
    """

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        ids = store.column("id")
        self._order: Ints = np.argsort(ids, kind="stable")
        self.ids: Ints = ids[self._order]

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> Ints:
        """A whole column, in order of the ids."""
        return self._store.column(name)[self._order]

    def of(self, requests: Ints) -> HandOverBlock:
        """The hand-overs of some requests.

        Args:
            requests: their ids.
        """
        if not len(self):
            return HandOverBlock(self._store, np.zeros(len(requests), bool), np.empty(0, np.int64))
        places = np.minimum(np.searchsorted(self.ids, requests), len(self) - 1)
        split = self.ids[places] == requests
        return HandOverBlock(self._store, split, self._order[places[split]])


class HandOverBlock:
    """The hand-overs of some requests; ``block["name"]`` is a column, -1 for a request that was not handed over.

    Attributes:
        split: which of the requests were handed over.
    """

    def __init__(self, store: ColumnStore, split: Bools, positions: Ints) -> None:
        self._store = store
        self._positions = positions
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    @property
    def some(self) -> bool:
        """Whether any of them was."""
        return len(self._positions) > 0

    def __getitem__(self, name: str) -> Ints:
        values = np.full(len(self.split), -1, np.int64)
        if self.some:
            values[self.split] = self._store.take(name, self._positions)
        return values
