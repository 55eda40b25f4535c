"""The tables that runs of matches are drawn with."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from servetwin.acceptance.chain import Floats, extended
from servetwin.acceptance.levels import Levels
from servetwin.acceptance.runs import COLUMNS, MOST_MATCHES, NO_END, RunTables

_ENDLESS = 1 << 14
"""Matches beyond those that have columns that have no end."""

_SPLITS = 1 << 24
"""Splits of a column are told apart to one in so many."""

_WHOLE = 2.0**32

Ints = np.ndarray[Any, np.dtype[np.int64]]


def run_tables(levels: Levels) -> RunTables:
    """Tables whose runs have the matches and the persistence of ``levels``.

    A run is a number of matches, and of positions until it breaks off. Those of few matches have a column each.
    """
    persistence = levels.persistence
    pairs = _pairs(persistence)
    most = pairs[-1][0]
    survival = np.concatenate((np.ones((len(levels.fresh), 1)), levels.fresh), axis=1)
    survival = extended(survival, levels.ratio, most + 2)
    begins = survival[:, : most + 1] - survival[:, 1 : most + 2]
    if not persistence:
        # Those with more matches look like these.
        begins[:, -1] = survival[:, most]
    matches, lengths = np.array(pairs).T
    ends = np.where(lengths <= matches, (1 - persistence) * persistence ** (lengths - 1.0), persistence**matches)
    chances = np.zeros((len(survival), COLUMNS))
    chances[:, : len(pairs)] = begins[:, matches] * (ends if persistence else 1.0)
    rest = len(pairs)
    if persistence:
        chances[:, rest] = survival[:, most + 1]
    splits, others = zip(*(_alias(row) for row in chances), strict=True)
    split = np.concatenate(splits)
    runs = [bytes(range(matches, matches - length, -1)) for matches, length in pairs]

    # The rest are as long as the longest here, which is good enough.
    mean = float((chances[:, :rest] @ lengths + chances[:, rest] * lengths.max()).mean())

    def more(level: int) -> array[int]:
        of_level, ratio = survival[level : level + 1], levels.ratio[level : level + 1]
        # What 32 bits do not tell from 0 is of no use.
        seen = int(np.ceil(-33 * np.log(2) / np.log(ratio[0]))) if 0 < ratio[0] < 1 else _ENDLESS
        further: Floats = extended(of_level, ratio, most + 2 + min(of_level.shape[1] + seen, _ENDLESS))[0, most + 1 :]
        return _thresholds(further[1:] / further[0] if further[0] else further[1:])

    return RunTables(
        runs + [b"\0"] * (COLUMNS - len(runs)), rest, (split >> 16).astype(np.uint8).tobytes(),
        (split & 0xFFFF).astype(">u2").tobytes(), np.concatenate(others).astype(np.uint8).tobytes(), most + 1, more,
        _breaks(persistence) if 0 < persistence < 1 else None, _ENDLESS, mean,
    )  # fmt: skip


def _pairs(persistence: float) -> list[tuple[int, int]]:
    """Matches and positions of the runs that have columns, by rising matches; one column at least is left."""
    if persistence == 1:
        return [(matches, matches + 1) for matches in range(COLUMNS - 1)]
    if persistence == 0:
        return [(matches, 1) for matches in range(MOST_MATCHES + 1)]
    found: list[tuple[int, int]] = []
    matches = 0
    while len(found) + matches + 1 < COLUMNS:
        found += [(matches, length) for length in range(1, matches + 2)]
        matches += 1
    return found


def _alias(chances: Floats) -> tuple[Ints, Ints]:
    """Walker's tables: where each column is split, and the column that counts from the split on."""
    columns = len(chances)
    heights = (chances * columns).tolist()
    others = list(range(columns))
    low = [column for column in range(columns) if heights[column] < 1]
    high = [column for column in range(columns) if heights[column] >= 1]
    while low and high:
        short, tall = low.pop(), high[-1]
        others[short] = tall
        heights[tall] -= 1 - heights[short]
        if heights[tall] < 1:
            low.append(high.pop())
    for column in low + high:
        # What is not full by now is so by rounding alone.
        others[column] = column
    splits = np.minimum(np.rint(np.asarray(heights) * _SPLITS), _SPLITS - 1)
    return splits.astype(np.int64), np.asarray(others)


def _thresholds(survival: Floats) -> array[int]:
    """Of 32-bit numbers, which is the first that stands for 1, 2, … or more where so many have these probabilities."""
    kept = survival[survival * _WHOLE >= 1.0]
    return array("Q", np.ceil((1.0 - kept) * _WHOLE).astype(np.uint64).tolist())


def _breaks(persistence: float) -> array[int]:
    """The same of the further positions after which a run breaks off."""
    most = min(int(np.ceil(-33 * np.log(2) / np.log(persistence))), NO_END)
    goes_on: Floats = persistence ** np.arange(1.0, most + 1)
    return _thresholds(goes_on)
