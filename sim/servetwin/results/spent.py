"""What the time of a run's steps went to, replica by replica."""

from __future__ import annotations

import numpy as np

from servetwin.results.columns import Chunk, ColumnStore
from servetwin.results.exact import ExactBins, Ints
from servetwin.results.steps import pairs

_SHARED = ("compute_ps", "memory_ps", "communication_ps")
"""What is split by tokens."""

Spent = dict[str, int]
"""Bucket of the ledger → [ps]."""


def spent(store: ColumnStore, replicas: int) -> list[Spent]:
    """By replica, the time of its steps in each of the buckets that a step can fill [ps].

    What drafts tokens counts as draft, whatever binds it. The rest of a step is first split by tokens into useful,
    recomputed and rejected ones; only the useful part counts as compute, HBM or communication. Time that the GPU waits
    for the CPU is host time, whosever tokens it serves.

    Args:
        store: the columns of ``servetwin.records.SEGMENT_COLUMNS``.
        replicas: how many replicas there are.
    """
    compute, memory, communication, host, draft = (ExactBins(replicas) for _ in range(5))
    again, wasted = ([ExactBins(replicas) for _ in _SHARED] for _ in range(2))
    for chunk in store:
        replica, count = chunk["replica"], chunk["count"]
        growths = pairs(count)
        computing = chunk["compute_ps"] * count + chunk["compute_growth"] * growths
        moving = chunk["memory_ps"] * count + chunk["memory_growth"] * growths
        talking = chunk["communication_ps"] * count
        drafting = chunk["draft_ps"] * count
        compute.add(replica, computing)
        memory.add(replica, moving)
        communication.add(replica, talking)
        draft.add(replica, drafting)
        lasting = chunk["first_ps"] * count + chunk["growth_ps"] * growths
        host.add(replica, lasting - computing - moving - talking - drafting)
        _add_share(again, chunk, chunk["recomputed"])
        _add_share(wasted, chunk, chunk["drafted"] - chunk["accepted"])
    sums = (bins.integers() for bins in (compute, memory, communication, host, draft))
    shares = (zip(*(bins.integers() for bins in parts), strict=True) for parts in (again, wasted))
    return [
        {
            "compute": computing - twice[0] - rejected[0],
            "hbm": moving - twice[1] - rejected[1],
            "exposed_communication": talking - twice[2] - rejected[2],
            "host": waiting,
            "draft": drafting,
            "wasted_verify": sum(rejected),
            "recompute": sum(twice),
        }
        for computing, moving, talking, waiting, drafting, twice, rejected in zip(*sums, *shares, strict=True)
    ]


def _add_share(shares: list[ExactBins], chunk: Chunk, some: Ints) -> None:
    """Add what went to ``some`` of the tokens of each step, in the order of ``_SHARED``.

    Steps with such tokens are segments of their own. ``time · some // tokens`` passes 64 bits; in two parts, the whole
    time per token and what is left of it, nothing does.
    """
    rows = np.flatnonzero(some)
    if not len(rows):
        return
    number, tokens, replica = some[rows], chunk["tokens"][rows], chunk["replica"][rows]
    for bins, name in zip(shares, _SHARED, strict=True):
        each, left = np.divmod(chunk[name][rows], tokens)
        bins.add(replica, each * number + left * number // tokens)
