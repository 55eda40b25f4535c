"""What the collectives of a replica's steps send over its links, from the segments of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from servetwin.errors import InvariantError
from servetwin.results.columns import ColumnStore
from servetwin.results.exact import Floats, Ints
from servetwin.results.steps import pairs

Amounts = Callable[[Ints], Ints]
"""For some sizes, each of which a step may have, the bytes of the step over each class of links: a matrix with a row
for each size and a column for each class [B]. A size may be several numbers: a row of a matrix."""


@dataclass(slots=True, eq=False)
class CollectiveUse:
    """What the collectives of one replica send. Links that always carry the same bytes form a class.

    Attributes:
        replica: the replica's index.
        links: of each class, the indices of its links.
        padded: by the tokens of a step, those with the padding of the captured graph; steps beyond have none.
        context: groups of GPUs that share out the tokens of prompt chunks.
        by_tokens: what depends on the tokens that a GPU computes, padding included.
        by_rows: what depends on the rows of logits.
        by_own: what depends on the tokens of chunks that a GPU computes, where groups share them out.
        in_order: whether a step begins when the one before has ended: not so in a pipeline.
        by_drafting: what depends on the tokens of a step, its requests, and the tokens drafted for each of them at its
            end, where several GPUs draft; None = they do not.
    """

    replica: int
    links: Sequence[Sequence[int]]
    padded: Ints
    context: int
    by_tokens: Amounts
    by_rows: Amounts
    by_own: Amounts
    in_order: bool
    by_drafting: Amounts | None = None


class StepClock:
    """When the steps of one replica run: where a time lies among them.

    Args:
        start_ps: when the segments start, ascending [ps].
        count: steps of each.
        first_ps: duration of the first [ps].
        growth_ps: by how much each step is longer than the one before [ps].
    """

    def __init__(self, start_ps: Ints, count: Ints, first_ps: Ints, growth_ps: Ints) -> None:
        self._start_ps, self.count = start_ps, count
        self._first_ps, self._growth_ps = first_ps, growth_ps

    def __len__(self) -> int:
        return len(self.count)

    def locate(self, times_ps: Ints) -> tuple[Ints, Ints, Floats]:
        """For each time [ps]: the segment that it lies in or after, its steps that have ended, the part of the next.

        The answer for a time depends on the steps alone, not on how they are cut into segments: the bytes up to it are
        the same at all stepping levels.
        """
        row = np.searchsorted(self._start_ps, times_ps, side="right") - 1
        early = row < 0
        row = np.maximum(row, 0)
        first, growth, count = self._first_ps[row], self._growth_ps[row], self.count[row]
        elapsed = np.where(early, 0, times_ps - self._start_ps[row])
        # The root of first · j + growth · j (j − 1)/2 = elapsed, in the form that subtracts nothing.
        middle = first - growth / 2
        root = np.sqrt(middle * middle + 2.0 * growth * elapsed)
        rising = 2.0 * elapsed / np.where(middle > 0, middle + root, 1.0)
        done = np.where(middle > 0, rising, (root - middle) / np.maximum(growth, 1)).astype(np.int64)
        done = np.minimum(done, count)
        for _ in range(2):
            done -= first * done + growth * pairs(done) > elapsed
            done += (done < count) & (first * (done + 1) + growth * pairs(done + 1) <= elapsed)
        rest = elapsed - (first * done + growth * pairs(done))
        part = np.where(done < count, rest / (first + growth * done), 0.0)
        return row, done, part


class ReplicaSteps:
    """The steps of a replica, and the bytes of each.

    Args:
        clock: when they run.
        terms: by what they depend on, for each segment the row of its matrix, and the matrix.
    """

    def __init__(self, clock: StepClock, terms: Sequence[tuple[Ints, Ints]]) -> None:
        self.clock = clock
        self._terms = terms

    def bytes_of(self, place: int) -> Ints:
        """The bytes of each segment's steps over a link of this class, a step [B]."""
        total: Ints = np.zeros(len(self.clock), np.int64)
        for row, matrix in self._terms:
            total += matrix[row, place]
        return total


class StepsByReplica:
    """The steps of a run, replica by replica.

    Args:
        segments: the steps (``servetwin.records.SEGMENT_COLUMNS``).
        chunks: their prefill chunks: ``replica``, ``start_ps``, ``tokens``.
        choices: how many tokens are drafted from when on (``choices.CHOICE_COLUMNS``); None where nobody asks.
    """

    def __init__(self, segments: ColumnStore, chunks: ColumnStore, choices: ColumnStore | None = None) -> None:
        self._segments = _sorted(segments, _COLUMNS)
        self._chunks = _sorted(chunks, ("tokens",))
        self._choices = None if choices is None else _sorted(choices, ("k",), "time_ps")

    def of(self, use: CollectiveUse) -> ReplicaSteps:
        """The steps of one replica, and what they send."""
        steps, sizes = self.sizes(use.replica, use.padded, use.context)
        clock = StepClock(steps["start_ps"], steps["count"], steps["first_ps"], steps["growth_ps"])
        terms = []
        for size, amounts in zip(sizes, (use.by_tokens, use.by_rows, use.by_own), strict=True):
            distinct, where = np.unique(size, return_inverse=True)
            terms.append((where, amounts(distinct)))
        if use.by_drafting is not None:
            made = (steps["tokens"], sizes[1] - steps["drafted"], self._drafts(use.replica, steps["start_ps"]))
            distinct, where = np.unique(np.stack(made, axis=1), axis=0, return_inverse=True)
            terms.append((where.reshape(-1), use.by_drafting(distinct)))
        return ReplicaSteps(clock, terms)

    def _drafts(self, replica: int, times_ps: Ints) -> Ints:
        """Tokens that the steps that start at these times draft for each request."""
        if self._choices is None:
            raise InvariantError(f"what replica {replica} drafts is not known")
        chosen = _of_replica(self._choices, replica)
        place = np.searchsorted(chosen["time_ps"], times_ps, side="right")
        found: Ints = np.append(0, chosen["k"])[place]
        return found

    def sizes(self, replica: int, padded: Ints, context: int) -> tuple[dict[str, Ints], tuple[Ints, Ints, Ints]]:
        """The segments of a replica as columns, and what the collectives of a step of each depend on.

        Args:
            replica: its index.
            padded: by the tokens of a step, those with the padding of the captured graph; steps beyond have none.
            context: groups of GPUs that share out the tokens of prompt chunks.

        Returns:
            the columns; tokens that a GPU computes, padding included, rows of logits, and tokens of chunks that it
            computes where groups share them out [tokens].
        """
        steps, chunks = _of_replica(self._segments, replica), _of_replica(self._chunks, replica)
        tokens = steps["tokens"]
        rows, own = np.zeros(len(tokens), np.int64), np.zeros(len(tokens), np.int64)
        place = np.searchsorted(steps["start_ps"], chunks["start_ps"])
        np.add.at(rows, place, 1)
        computed = np.append(padded, 0)[np.minimum(tokens, len(padded))]
        computed = np.where(tokens < len(padded), computed, tokens)
        if context > 1:
            np.add.at(own, place, -(-chunks["tokens"] // context))
            computed = computed - (steps["prefill_tokens"] - own)
        # A draft is compared with the logits before it, so each has a row of its own.
        return steps, (computed, steps["decodes"] + steps["drafted"] + rows, own)


_COLUMNS = (
    "count", "first_ps", "growth_ps", "tokens", "prefill_tokens", "decodes", "communication_ps", "recomputed",
    "drafted", "accepted",
)  # fmt: skip


def _sorted(store: ColumnStore, names: Sequence[str], time: str = "start_ps") -> dict[str, Ints]:
    """Columns in the order of the replicas, and of time."""
    replica, start = store.column("replica"), store.column(time)
    order = np.lexsort((start, replica))
    return {"replica": replica[order], time: start[order]} | {name: store.column(name)[order] for name in names}


def _of_replica(columns: dict[str, Ints], replica: int) -> dict[str, Ints]:
    first, last = np.searchsorted(columns["replica"], (replica, replica + 1))
    return {name: values[first:last] for name, values in columns.items()}
