"""How long the GPUs of a run waited for what they exchange, by kind, and how much of it was hidden behind work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from servetwin.results.columns import ColumnStore
from servetwin.results.exact import ExactBins, Floats, Ints
from servetwin.results.exchanged import StepsByReplica
from servetwin.units import PS_PER_S

Times = Callable[[Ints], Floats]
"""For some sizes, each of which a step may have, what the step's collectives take: a matrix with a row for each size
and a column for each kind [s]."""


class Waited(NamedTuple):
    """GPU-seconds of one kind of exchange.

    Attributes:
        exposed: in which GPUs waited for it.
        hidden: in which it was under way while they had something else to do.
    """

    exposed: float
    hidden: float


@dataclass(slots=True, eq=False)
class CommunicationUse:
    """What the steps of one replica take for what its GPUs exchange, with the links to themselves.

    Attributes:
        replica: the replica's index.
        gpus: GPUs of a stage.
        padded: by the tokens of a step, those with the padding of the captured graph; steps beyond have none.
        context: groups of GPUs that share out the tokens of prompt chunks.
        kinds: the kinds of collectives, in the order of the columns.
        by_tokens: what depends on the tokens that a GPU computes, padding included.
        by_rows: what depends on the rows of logits.
        by_own: what depends on the tokens of chunks that a GPU computes, where groups share them out.
        handed_on: what the hand-offs of a pipeline are called, and by tokens what all of them take together, in one
            column; None with one stage.
    """

    replica: int
    gpus: int
    padded: Ints
    context: int
    kinds: Sequence[str]
    by_tokens: Times
    by_rows: Times
    by_own: Times
    handed_on: tuple[str, Times] | None


class CommunicationTable:
    """The GPU-seconds of each replica by kind of exchange.

    The exposed communication of a step is split over the kinds in proportion to their prices. What a pipeline's ledger
    has besides that of the steps was spent on waiting for hand-offs; the rest of their time was hidden.

    Args:
        uses: the replicas whose GPUs exchange anything.
        segments: the steps (``servetwin.records.SEGMENT_COLUMNS``).
        chunks: their prefill chunks: ``replica``, ``start_ps``, ``tokens``.
        ledgers: per replica, bucket → [GPU·ps].
    """

    def __init__(
        self,
        uses: Sequence[CommunicationUse],
        segments: ColumnStore,
        chunks: ColumnStore,
        ledgers: Sequence[Mapping[str, int]],
    ) -> None:
        steps = StepsByReplica(segments, chunks) if uses else None
        self._found: dict[int, dict[str, Waited]] = {}
        for use in uses:
            assert steps is not None
            exposed_s = ledgers[use.replica].get("exposed_communication", 0) / PS_PER_S
            self._found[use.replica] = _waited(use, steps, exposed_s)

    def of(self, replicas: Sequence[int]) -> dict[str, Waited]:
        """The sums over some replicas, by kind."""
        total: dict[str, Waited] = {}
        for replica in replicas:
            for kind, waited in self._found.get(replica, {}).items():
                before = total.get(kind, Waited(0.0, 0.0))
                total[kind] = Waited(before.exposed + waited.exposed, before.hidden + waited.hidden)
        return total


def _waited(use: CommunicationUse, steps: StepsByReplica, exposed_s: float) -> dict[str, Waited]:
    """The kinds of one replica: whole numbers of equal steps first, so that it does not matter how these are cut into
    segments."""
    columns, sizes = steps.sizes(use.replica, use.padded, use.context)
    distinct, where = _equal(sizes)
    tokens, rows, own = distinct
    weights = _by_size(use.by_tokens, tokens) + _by_size(use.by_rows, rows) + _by_size(use.by_own, own)
    talking_s = use.gpus / PS_PER_S * _in_groups(where, len(tokens), _useful_ps(columns))
    priced_s = weights.sum(axis=1)
    parts = (weights * (talking_s / np.where(priced_s > 0, priced_s, 1.0))[:, np.newaxis]).sum(axis=0)
    talked_s = float(parts.sum())
    if use.handed_on is None:
        # A step that the end of the run cut off is in the ledger and in no segment.
        scale = exposed_s / talked_s if talked_s else 0.0
        return {kind: Waited(scale * float(part), 0.0) for kind, part in zip(use.kinds, parts, strict=True) if part}
    name, hand_offs = use.handed_on
    number = _in_groups(where, len(tokens), columns["count"])
    under_way_s = use.gpus * float((_by_size(hand_offs, tokens)[:, 0] * number).sum())
    waiting_s = max(exposed_s - talked_s, 0.0)
    found = {kind: Waited(float(part), 0.0) for kind, part in zip(use.kinds, parts, strict=True) if part}
    return found | {name: Waited(waiting_s, max(under_way_s - waiting_s, 0.0))}


def _equal(sizes: tuple[Ints, Ints, Ints]) -> tuple[tuple[Ints, Ints, Ints], Ints]:
    """The different triples among the segments' sizes, and which of them each segment has."""
    tokens, rows, own = sizes
    wide, deep = (int(values.max(initial=0)) + 1 for values in (rows, own))
    keys, where = np.unique((tokens * wide + rows) * deep + own, return_inverse=True)
    return (keys // (wide * deep), keys // deep % wide, keys % deep), where


def _by_size(times: Times, sizes: Ints) -> Floats:
    """A row for each size, asked for once where sizes are equal."""
    distinct, where = np.unique(sizes, return_inverse=True)
    return times(distinct)[where]


def _useful_ps(columns: Mapping[str, Ints]) -> Ints:
    """By segment, its communication for tokens that were neither computed before nor drafted and rejected [ps].

    Segments with such tokens have one step.
    """
    talking = columns["communication_ps"] * columns["count"]
    tokens = np.maximum(columns["tokens"], 1)
    rejected = columns["drafted"] - columns["accepted"]
    useful: Ints = talking - talking * columns["recomputed"] // tokens - talking * rejected // tokens
    return useful


def _in_groups(where: Ints, groups: int, values: Ints) -> Floats:
    """The sum of the whole numbers of each group."""
    bins = ExactBins(groups)
    bins.add(where, values)
    return np.array(bins.integers(), dtype=np.float64)
