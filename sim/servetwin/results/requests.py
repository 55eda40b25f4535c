"""The requests of a run as columns, in order of their ids."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from servetwin.request import COMPLETED
from servetwin.results.columns import ColumnStore
from servetwin.results.exact import Bools, Floats, Ints
from servetwin.units import PS_PER_MS

LABELS_COLUMN = "label"
STAMPS = ("routed_ps", "queued_ps", "scheduled_ps", "prefill_done_ps", "first_token_ps", "last_token_ps")
"""Stamps that are stored as the distance from the arrival, -1 = it did not happen."""

REQUEST_FIELDS = (
    "id",
    "arrival_ps",
    *STAMPS,
    "prompt_tokens",
    "output_tokens",
    "hit_tokens",
    "predicted_hit_tokens",
    "recomputed_tokens",
    "preemptions",
    "drafted_tokens",
    "accepted_tokens",
    "session_id",
    "replica",
    LABELS_COLUMN,
)
"""The columns as recorded; the label is a code for (class, outcome, reason)."""

Label = tuple[str, str, str]
"""``(class, outcome, reason)``."""


class RequestTable:
    """All requests, ordered by id.

    Args:
        store: the columns ``REQUEST_FIELDS`` in order of recording.
        labels: what each label code means.
    """

    def __init__(self, store: ColumnStore, labels: list[Label]) -> None:
        self._store = store
        self._labels = labels
        self._order: Ints = np.argsort(store.column("id"), kind="stable")

    def __len__(self) -> int:
        return len(self._order)

    def column(self, name: str) -> Ints:
        """A whole column; stamps are absolute [ps], -1 = it did not happen."""
        values = self._store.column(name)
        if name in STAMPS:
            values = _absolute(values, self._store.column("arrival_ps"))
        return values[self._order]

    def blocks(self, rows: int) -> Iterator[RequestBlock]:
        """The requests in order, ``rows`` at a time."""
        for first in range(0, len(self), rows):
            yield RequestBlock(self._store, self._order[first : first + rows])

    def names(self, part: int) -> list[str]:
        """For each label code, the class (part 0), the outcome (1) or the reason (2)."""
        return [label[part] for label in self._labels]

    def with_outcome(self, outcome: str) -> Bools:
        """Which requests ended that way."""
        codes = np.array([label[1] == outcome for label in self._labels], bool)
        return codes[self.column(LABELS_COLUMN)] if len(self) else np.empty(0, bool)

    def of_class(self, name: str) -> Bools:
        """Which requests are of that class."""
        codes = np.array([label[0] == name for label in self._labels], bool)
        return codes[self.column(LABELS_COLUMN)] if len(self) else np.empty(0, bool)

    def reasons(self, outcome: str) -> dict[str, int]:
        """How many requests ended that way for each reason, most frequent first."""
        counts = np.bincount(self.column(LABELS_COLUMN), minlength=len(self._labels)).tolist()
        found: dict[str, int] = {}
        for (_, ended, reason), count in zip(self._labels, counts, strict=True):
            if ended == outcome and count:
                found[reason] = found.get(reason, 0) + count
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def measured(self, warmup: int) -> Bools:
        """Which requests count for the latency metrics: all but the first ``warmup`` to arrive."""
        counts = np.ones(len(self), bool)
        if warmup > 0:
            counts[np.argsort(self.column("arrival_ps"), kind="stable")[:warmup]] = False
        return counts

    def measured_from_ps(self, warmup: int) -> int:
        """When the first request that counts for the latency metrics arrives [ps]; 0 without a warm-up."""
        measured = self.measured(warmup)
        return int(self.column("arrival_ps")[measured].min()) if warmup > 0 and measured.any() else 0


class RequestBlock:
    """Some consecutive requests; ``block["name"]`` is a column as in ``RequestTable.column``."""

    def __init__(self, store: ColumnStore, positions: Ints) -> None:
        self._store = store
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, name: str) -> Ints:
        values = self._store.take(name, self._positions)
        return _absolute(values, self["arrival_ps"]) if name in STAMPS else values


def _absolute(distances: Ints, arrivals: Ints) -> Ints:
    """Stamps from their distances from the arrival; -1 stays -1."""
    stamps: Ints = np.where(distances < 0, -1, distances + arrivals)
    return stamps


class Latencies:
    """The per-request latencies of the completed, measured requests.

    Args:
        table: the requests.
        warmup: how many of the first to arrive are left out.
        only: which requests count at all; None = all.

    Attributes:
        ttft_ps: arrival → first output token [ps].
        e2e_ps: arrival → last output token [ps].
        queue_ps: waiting queue → first scheduled [ps].
        output_tokens: tokens generated.
    """

    def __init__(self, table: RequestTable, warmup: int, only: Bools | None = None) -> None:
        chosen = table.with_outcome(COMPLETED) & table.measured(warmup)
        if only is not None:
            chosen &= only
        arrival = table.column("arrival_ps")[chosen]
        self.ttft_ps: Ints = table.column("first_token_ps")[chosen] - arrival
        self.e2e_ps: Ints = table.column("last_token_ps")[chosen] - arrival
        self.queue_ps: Ints = table.column("scheduled_ps")[chosen] - table.column("queued_ps")[chosen]
        self.output_tokens: Ints = table.column("output_tokens")[chosen]

    def ttft_ms(self) -> Floats:
        """Time to first token [ms]."""
        return self.ttft_ps / PS_PER_MS

    def e2e_ms(self) -> Floats:
        """End-to-end latency [ms]."""
        return self.e2e_ps / PS_PER_MS

    def queue_ms(self) -> Floats:
        """Time in the waiting queue before the first step [ms]."""
        return self.queue_ps / PS_PER_MS

    def tpot_ms(self) -> Floats:
        """Time per output token after the first [ms]; requests with one token have none."""
        several = self.output_tokens > 1
        return tpot_ms((self.e2e_ps - self.ttft_ps)[several], self.output_tokens[several])

    def normalised_ms(self) -> Floats:
        """End-to-end latency per output token [ms]."""
        some = self.output_tokens > 0
        return self.e2e_ms()[some] / self.output_tokens[some]


def tpot_ms(decode_ps: Ints, output_tokens: Ints) -> Floats:
    """(E2E − TTFT) / (output tokens − 1) [ms], for more than one token."""
    result: Floats = decode_ps / PS_PER_MS / (output_tokens - 1)
    return result
