"""What the time of a run's steps went to, replica by replica."""

from __future__ import annotations

import numpy as np

from servetwin.results.columns import Chunk, ColumnStore
from servetwin.results.exact import ExactBins, Ints
from servetwin.results.steps import pairs

Spent = dict[str, int]
"""Bucket of the ledger → [ps]."""


def spent(store: ColumnStore, replicas: int) -> list[Spent]:
    """By replica, the time of its steps in each of the buckets that a step can fill [ps].

    A step is first split by tokens into useful and recomputed ones; only the useful part counts as compute, HBM or
    communication. Time that the GPU waits for the CPU is host time, whosever tokens it serves.

    Args:
        store: the columns of ``servetwin.records.SEGMENT_COLUMNS``.
        replicas: how many replicas there are.
    """
    compute, memory, communication, host = (ExactBins(replicas) for _ in range(4))
    again: list[list[int]] = [[0, 0, 0] for _ in range(replicas)]
    for chunk in store:
        replica, count = chunk["replica"], chunk["count"]
        growths = pairs(count)
        growth, compute_growth = chunk["growth_ps"], chunk["compute_growth"]
        computing = chunk["compute_ps"] * count + compute_growth * growths
        moving = chunk["memory_ps"] * count + (growth - compute_growth) * growths
        talking = chunk["communication_ps"] * count
        compute.add(replica, computing)
        memory.add(replica, moving)
        communication.add(replica, talking)
        host.add(replica, chunk["first_ps"] * count + growth * growths - computing - moving - talking)
        _add_recomputed(again, chunk)
    columns = zip(compute.integers(), memory.integers(), communication.integers(), host.integers(), again, strict=True)
    return [
        {
            "compute": computing - twice[0],
            "hbm": moving - twice[1],
            "exposed_communication": talking - twice[2],
            "host": waiting,
            "recompute": sum(twice),
        }
        for computing, moving, talking, waiting, twice in columns
    ]


def _add_recomputed(again: list[list[int]], chunk: Chunk) -> None:
    """Add what went to recomputed tokens: compute, memory, communication. Python integers: products pass 64 bits."""
    recomputed: Ints = chunk["recomputed"]
    rows = np.flatnonzero(recomputed)
    if not len(rows):
        return
    names = ("replica", "tokens", "compute_ps", "memory_ps", "communication_ps")
    columns = (recomputed[rows].tolist(), *(chunk[name][rows].tolist() for name in names))
    for tokens_again, replica, tokens, *parts in zip(*columns, strict=True):
        for place, part in enumerate(parts):
            again[replica][place] += part * tokens_again // tokens
