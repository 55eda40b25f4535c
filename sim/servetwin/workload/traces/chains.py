"""How many different prefixes prompts have: what an endless cache would hold."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from servetwin.workload.traces.spool import Column, Spool

Words = np.ndarray[Any, np.dtype[np.uint64]]

_PIECE = 1 << 18
"""Block ids that are looked at together, unless one prompt has more."""

_PARTS_BITS = 6
_PARTS = 1 << _PARTS_BITS
"""Hashes are counted in as many parts, one after the other."""


def distinct_prefixes(ids: Column[int], ends: Column[int], spool: Spool) -> int:
    """How many different prefixes, in whole blocks, prompts begin with.

    Prefixes are told apart by a hash of 64 bits: among n of them any two are taken for one with a probability of
    n²/2⁶⁵, which is 3·10⁻⁶ for ten million. Memory holds a piece of the trace, and a 64th of the hashes.

    Args:
        ids: the block ids of all prompts.
        ends: where each prompt's ids end.
        spool: where the hashes go.
    """
    parts: list[Column[int]] = [Column("Q", spool) for _ in range(_PARTS)]
    borders = np.arange(1, _PARTS, dtype=np.uint64) << np.uint64(64 - _PARTS_BITS)
    begin = 0
    for block in ends.blocks():
        stops = np.asarray(block, np.int64)
        row = 0
        while row < len(stops):
            upto = max(int(np.searchsorted(stops, begin + _PIECE, side="right")), row + 1)
            end = int(stops[upto - 1])
            if end > begin:
                piece = np.asarray(ids.read(begin, end), np.uint64)
                hashes = _distinct(_hashes(piece, stops[row:upto] - begin))
                for part, found in zip(parts, np.split(hashes, np.searchsorted(hashes, borders)), strict=True):
                    part.extend(array("Q", found.tobytes()))
            begin, row = end, upto
    return sum(len(_distinct(np.asarray(part.read(0, len(part)), np.uint64))) for part in parts)


def _hashes(ids: Words, ends: np.ndarray[Any, np.dtype[np.int64]]) -> Words:
    """A hash of every prefix of every prompt: the sum of a mixture of each id and its depth."""
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    lengths = ends - starts
    depths = np.arange(len(ids), dtype=np.uint64) - np.repeat(starts, lengths).astype(np.uint64)
    sums = np.cumsum(_mixed(ids + _mixed(depths + np.uint64(1))), dtype=np.uint64)
    before = np.concatenate((np.zeros(1, np.uint64), sums))[starts]
    return sums - np.repeat(before, lengths)


def _distinct(values: Words) -> Words:
    """The different values, ascending; ``np.unique`` would build a hash table first, and be slower."""
    ranked = np.sort(values)
    first = np.ones(len(ranked), bool)
    first[1:] = ranked[1:] != ranked[:-1]
    return np.asarray(ranked[first], np.uint64)


def _mixed(values: Words) -> Words:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit depends on every bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
