"""The free queue of KV blocks: who is used first, and what is lost by it."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.engine.blocks import BlockPool
from servetwin.engine.prefix_node import Node


def chain(pool: BlockPool, blocks: int, first: int = 0) -> Node:
    """A node with ``blocks`` cached blocks, all in the free queue."""
    node = Node(None, "key", first)
    pool.take(blocks)
    node.cached = first + blocks
    pool.put(node, first, first + blocks)
    return node


def test_one_block_is_never_used() -> None:
    pool = BlockPool(10)
    assert (pool.total, pool.free, pool.queued()) == (9, 9, 9)


def test_never_used_blocks_go_first() -> None:
    pool = BlockPool(11)
    node = chain(pool, 4)
    pool.take(6)
    assert (pool.free, node.cached) == (4, 4)


def test_of_a_chain_the_last_block_goes_first() -> None:
    pool = BlockPool(5)
    node = chain(pool, 4)
    pool.take(1)
    assert (pool.free, node.cached) == (3, 3)
    pool.take(2)
    assert (pool.free, node.cached) == (1, 1)


def test_of_two_chains_the_one_freed_first_goes_first() -> None:
    pool = BlockPool(7)
    older, newer = chain(pool, 3), chain(pool, 3)
    pool.take(4)
    assert (older.cached, newer.cached) == (0, 2)
    assert older.extents == []


def test_a_used_up_extent_is_forgotten() -> None:
    pool = BlockPool(4)
    node = chain(pool, 3)
    pool.take(3)
    assert node.cached == 0
    assert (pool.free, pool.queued()) == (0, 0)


def test_taking_nothing_from_an_empty_queue() -> None:
    pool = BlockPool(2)
    pool.take(1)
    pool.take(0)
    assert pool.free == 0


def test_nameless_neighbours_become_one() -> None:
    pool = BlockPool(9)
    pool.take(8)
    for blocks in (3, 1, 2):
        pool.put(None, 0, blocks)
    assert (pool.free, pool.queued(), len(pool._queue)) == (6, 6, 1)


def test_nameless_blocks_keep_their_place() -> None:
    pool = BlockPool(9)
    pool.take(8)
    pool.put(None, 0, 2)
    node = Node(None, "key", 0)
    node.cached = 3
    pool.put(node, 0, 3)
    pool.put(None, 0, 3)
    pool.take(2)
    assert node.cached == 3
    pool.take(1)
    assert node.cached == 2
    pool.take(2)
    assert (node.cached, pool.free) == (0, 3)


def test_touched_blocks_leave_the_queue_wherever_they_stand() -> None:
    pool = BlockPool(13)
    first, second, third = (chain(pool, 4) for _ in range(3))
    pool.touch(second, 3)
    assert (pool.free, pool.queued()) == (9, 9)
    # What is left of it keeps its place between the others.
    pool.take(5)
    assert (first.cached, second.cached, third.cached) == (0, 3, 4)
    pool.take(1)
    assert third.cached == 3


def test_touching_all_leaves_nothing_to_evict() -> None:
    pool = BlockPool(5)
    node = chain(pool, 4)
    pool.touch(node, 9)
    assert (pool.free, pool.queued(), node.extents) == (0, 0, [])
    pool.put(None, 0, 1)
    pool.take(1)
    assert node.cached == 4


def test_touching_several_extents_of_a_node() -> None:
    """Blocks 2 and 3 were freed first, 0 and 1 later."""
    pool = BlockPool(5)
    node = Node(None, "key", 0)
    pool.take(4)
    node.cached = 4
    pool.put(node, 2, 4)
    pool.put(node, 0, 2)
    pool.touch(node, 3)
    assert pool.free == 1
    pool.take(1)
    assert node.cached == 3


def test_touching_below_what_is_free_does_nothing() -> None:
    pool = BlockPool(9)
    node = chain(pool, 4, first=3)
    pool.touch(node, 3)
    assert pool.free == 8


def test_the_queue_is_compacted() -> None:
    """Blocks that are freed and found again, over and over, leave no trail."""
    pool = BlockPool(4)
    node = chain(pool, 3)
    for _ in range(3 * BlockPool._SLACK):
        pool.touch(node, 3)
        pool.put(node, 0, 3)
    assert len(pool._queue) <= BlockPool._SLACK + 10
    assert pool.queued() == pool.free == 3
    pool.take(1)
    assert node.cached == 2


class PlainPool:
    """A queue of single blocks, each with the chain and the place in it that it caches."""

    def __init__(self, total: int) -> None:
        self.queue: deque[tuple[int, int] | None] = deque([None] * total)
        self.cached: dict[int, int] = {}

    def take(self, count: int) -> None:
        for _ in range(count):
            content = self.queue.popleft()
            if content is not None:
                self.cached[content[0]] = content[1]

    def put(self, chain: int | None, lo: int, hi: int) -> None:
        for block in range(hi - 1, lo - 1, -1):
            self.queue.append(None if chain is None else (chain, block))

    def touch(self, chain: int, upto: int) -> None:
        self.queue = deque(one for one in self.queue if one is None or one[0] != chain or one[1] >= upto)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), max_size=60))
def test_it_is_a_queue_of_single_blocks(operations: list[tuple[int, int, int]]) -> None:
    """Chains of up to eight blocks are held from the front, let go in two parts, found again and evicted."""
    pool, plain = BlockPool(33), PlainPool(32)
    nodes = [Node(None, number, 0) for number in range(4)]
    plain.cached = dict.fromkeys(range(4), 0)
    held = [0] * 4
    for kind, which, size in operations:
        node = nodes[which]
        if kind == 0 and size <= pool.free:
            pool.take(size)
            plain.take(size)
            if size:
                pool.put(None, 0, size)
                plain.put(None, 0, size)
        elif kind == 1 and held[which] == 0 and node.cached == 0 and size <= min(pool.free, 8):
            pool.take(size)
            plain.take(size)
            node.cached = plain.cached[which] = held[which] = size
        elif kind == 2 and held[which]:
            low = min(size, held[which] - 1)
            pool.put(node, low, held[which])
            plain.put(which, low, held[which])
            held[which] = low
        elif kind == 3 and node.cached > held[which]:
            upto = min(max(size, held[which] + 1), node.cached)
            pool.touch(node, upto)
            plain.touch(which, upto)
            held[which] = upto
        assert pool.free == pool.queued() == len(plain.queue)
        assert [one.cached for one in nodes] == [plain.cached[number] for number in range(4)]


@pytest.mark.parametrize("blocks", [1, 7, 100])
def test_everything_can_be_used(blocks: int) -> None:
    pool = BlockPool(blocks + 1)
    pool.take(blocks)
    assert (pool.free, pool.queued()) == (0, 0)
    pool.put(None, 0, blocks)
    assert pool.free == blocks
