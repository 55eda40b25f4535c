"""Columns that keep part of themselves in a file, and what is counted and sorted with them."""

from __future__ import annotations

import errno
import gc
import itertools
import os
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.errors import TraceError
from servetwin.workload.traces import chains, sorting, spool, table
from servetwin.workload.traces.chains import distinct_prefixes
from servetwin.workload.traces.conversations import Conversations
from servetwin.workload.traces.format import Row
from servetwin.workload.traces.sorting import by_time
from servetwin.workload.traces.spool import Column, Spool

VALUES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Any:
    """Blocks of three values, so that a few rows make many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "BLOCK", 3)
        patch.setattr(spool, "MEMORY_BYTES", 50)
        patch.setattr(table, "BLOCK", 3)
        patch.setattr(table, "PIECE", 2)
        patch.setattr(chains, "_PIECE", 4)
        patch.setattr(sorting, "RUN_ROWS", 3)
        yield


@given(st.lists(VALUES, max_size=6), st.data())
@settings(deadline=None)
def test_a_column_is_a_list(pieces: list[list[int]], data: st.DataObject) -> None:
    kept = Spool()
    column: Column[int] = Column("q", kept)
    expected: list[int] = []
    for number, piece in enumerate(pieces):
        if number % 3 == 0:
            column.extend(array("q", piece))
            expected += piece
        elif number % 3 == 1:
            for value in piece:
                column.append(value)
            expected += piece
        else:
            column.fill(number, len(piece))
            expected += [number] * len(piece)
        assert column.tolist() == expected
    assert len(column) == len(expected)
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert column.read(start, stop).tolist() == expected[start:stop]
    assert list(itertools.chain.from_iterable(column.blocks())) == expected
    for place in (start, -start - 1):
        if -len(expected) <= place < len(expected):
            assert column[place] == expected[place]
        else:
            with pytest.raises(IndexError):
                column[place]


def test_the_budget_is_kept() -> None:
    kept = Spool()
    one: Column[int] = Column("q", kept)
    for value in range(2 * 3):  # 48 of 50 bytes
        one.append(value)
    assert kept.file_bytes == 0
    other: Column[float] = Column("d", kept)
    for value in range(3 * 3):
        other.append(value / 2)
    assert kept.file_bytes == 3 * 3 * 8
    assert one.tolist() == list(range(6))
    assert other.tolist() == [value / 2 for value in range(9)]
    # What the first spool holds, the second may not hold too.
    beside: Column[int] = Column("q", Spool(kept))
    beside.fill(1, 3)
    assert kept.file_bytes == 3 * 3 * 8
    assert beside.tolist() == [1, 1, 1]


def test_the_file_has_no_name_and_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = Spool()
    column: Column[int] = Column("q", kept)
    column.fill(7, 100)
    assert kept.file_bytes > 0
    assert list(tmp_path.iterdir()) == []
    if Path("/proc/self/fd").is_dir():
        before = len(list(Path("/proc/self/fd").iterdir()))
        del kept, column
        gc.collect()
        assert len(list(Path("/proc/self/fd").iterdir())) == before - 1


class FullDisk:
    """A file that takes a few bytes."""

    room = 100

    def write(self, data: memoryview) -> int:
        taken = min(self.room, len(data), 7)
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= taken
        return taken

    def close(self) -> None: ...


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda buffering: FullDisk())
    column: Column[int] = Column("q", Spool())
    with pytest.raises(TraceError, match="cannot be written: No space left on device") as caught:
        column.fill(1, 100)
    assert "TMPDIR" in str(caught.value)
    assert caught.value.file


def test_no_folder_for_the_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(TraceError, match="cannot be made: No such file") as caught:
        Column("q", Spool()).fill(1, 100)
    assert caught.value.file == str(tmp_path / "gone")


def test_a_file_that_lost_its_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Spool()
    column: Column[int] = Column("q", kept)
    column.fill(1, 100)
    assert kept._file is not None
    kept._file.truncate(8)
    with pytest.raises(TraceError, match="cannot be read: it ends too soon"):
        column.tolist()


IDS = st.integers(0, 3) | st.sampled_from([2**64 - 1, 2**63])
PROMPTS = st.lists(st.lists(IDS, max_size=7), max_size=12)


@given(PROMPTS)
@settings(deadline=None)
def test_prefixes_are_counted_by_chains(prompts: list[list[int]]) -> None:
    ids: Column[int] = Column("Q", Spool())
    ends: Column[int] = Column("q", Spool())
    for prompt in prompts:
        ids.extend(array("Q", prompt))
        ends.append(len(ids))
    prefixes = {tuple(prompt[: end + 1]) for prompt in prompts for end in range(len(prompt))}
    assert distinct_prefixes(ids, ends, Spool()) == len(prefixes)


def firsts(ids: list[int], parents: list[int], block: int = 100) -> list[int]:
    conversations = Conversations()
    found: list[int] = []
    for start in range(0, len(ids), block):
        found += conversations.of(ids[start : start + block], parents[start : start + block]).tolist()
    return found


def test_parents_count_only_if_they_came_before() -> None:
    assert firsts([4, 5, 6, 7], [-1, 4, 7, 5]) == [4, 4, 6, 4]
    assert firsts([3, 3, 1], [-1, 3, 3]) == [3, 3, 3]
    assert firsts([-1, -1], [-1, -1]) == [-1, -1]
    assert set(firsts(list(range(1000)), [*range(-1, 999)], 1000)) == {0}


@given(st.lists(st.tuples(st.integers(-1, 12), st.integers(-1, 12)), max_size=40), st.integers(1, 9))
@settings(deadline=None)
def test_conversations_do_not_depend_on_blocks(chats: list[tuple[int, int]], block: int) -> None:
    known: dict[int, int] = {}
    expected = []
    for own, parent in chats:
        expected.append(known.get(parent, own))
        if own >= 0:
            known.setdefault(own, expected[-1])
    assert firsts([own for own, _ in chats], [parent for _, parent in chats], block) == expected


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=30))
@settings(deadline=None)
def test_runs_are_merged_in_order(rows: list[tuple[int, int]]) -> None:
    far = 10**24  # beyond 64 bits
    placed = [(at, Row(time * far + time, at + 1, 1, (at,) * blocks)) for at, (time, blocks) in enumerate(rows, 2)]
    assert list(by_time(iter(placed))) == sorted(placed, key=lambda item: item[1].time_ps)
