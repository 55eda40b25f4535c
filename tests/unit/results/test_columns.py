import random

import numpy as np
import pytest

from servetwin.results.columns import ColumnStore, PackedColumn

SPANS = [0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40 - 1, 2**40, 2**48 - 1, 2**48, 2**62]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("base", [0, -1, -(2**61), 10**15])
def test_every_width_gives_the_values_back(span, base):
    values = np.array([base, base + span, base + span // 2, base], np.int64)
    assert PackedColumn(values).unpack().tolist() == values.tolist()


def test_extremes_whose_distance_overflows_come_back():
    values = np.array([-(2**63), 2**63 - 1, 0], np.int64)
    assert PackedColumn(values).unpack().tolist() == values.tolist()


@pytest.mark.parametrize(
    ("span", "size"), [(0, 0), (255, 1), (256, 2), (65_536, 4), (2**32, 5), (2**40, 6), (2**48, 8)]
)
def test_no_more_bytes_than_needed(span, size):
    values = np.linspace(10**15, 10**15 + span, 100).astype(np.int64)
    values[-1] = values[0] + span
    assert PackedColumn(values).nbytes == 100 * size


def test_a_column_does_not_keep_the_callers_array_alive_or_follow_it():
    values = np.array([0, 2**60], np.int64)
    column = PackedColumn(values)
    values[:] = 7
    assert column.unpack().tolist() == [0, 2**60]


def test_rows_come_back_whole_and_in_pieces():
    rng = random.Random(1)
    rows = [[rng.randrange(2**40), rng.randrange(10)] for _ in range(1000)]
    store = ColumnStore(("a", "b"))
    at = 0
    while at < len(rows):
        size = rng.randrange(1, 90)
        store.append(np.array(rows[at : at + size], np.int64))
        at += size
    store.append(np.empty((0, 2), np.int64))
    assert store.rows == 1000
    assert store.column("a").tolist() == [row[0] for row in rows]
    positions = [rng.randrange(1000) for _ in range(300)]
    assert store.take("b", np.array(positions)).tolist() == [rows[position][1] for position in positions]
    assert sum(chunk.rows for chunk in store) == 1000


def test_an_empty_store_has_empty_columns():
    store = ColumnStore(("a",))
    assert store.column("a").tolist() == []
    assert store.take("a", np.empty(0, np.int64)).tolist() == []
    assert store.nbytes == 0
