"""The KV blocks of one rank: how many are free, and in which order the free ones are used again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from servetwin.engine.prefix_node import Node


class Extent:
    """A stretch of free blocks that were freed together, in the free queue.

    ``node`` is None for blocks whose content nobody can find again; their ``lo`` is 0 and ``hi`` their number.
    Otherwise the extent is blocks ``lo`` … ``hi - 1`` of the node's chain, and ``hi - 1`` is used first.
    """

    __slots__ = ("hi", "lo", "node")

    def __init__(self, node: Node | None, lo: int, hi: int) -> None:
        self.node = node
        self.lo = lo
        self.hi = hi


class BlockPool:
    """Blocks in use and free; the free queue keeps cached content until its blocks are needed.

    vLLM frees a request's blocks from its last to its first and reuses the longest free first, so the blocks of one
    chain leave the queue from its far end: a queue of extents holds the same order as a queue of blocks, at a cost
    per request instead of per block.

    Args:
        num_blocks: blocks of the rank; one of them is vLLM's null block and never used.
    """

    __slots__ = ("_queue", "free", "overlap", "total")

    #: Dead extents tolerated in the queue before it is compacted.
    _SLACK: Final = 4096

    def __init__(self, num_blocks: int) -> None:
        self.total = num_blocks - 1
        self.free = self.total
        #: Blocks that running requests refer to more than once, counted once less than they are referred to.
        self.overlap = 0
        self._queue: deque[Extent] = deque([Extent(None, 0, self.total)])

    def queued(self) -> int:
        """Blocks in the free queue, counted; always ``free``."""
        return sum(extent.hi - extent.lo for extent in self._queue)

    def take(self, count: int) -> None:
        """Use ``count`` blocks from the head of the free queue; what they cached is lost."""
        if not count:
            return
        self.free -= count
        queue = self._queue
        while True:
            extent = queue[0]
            size = extent.hi - extent.lo
            if size > count:
                extent.hi -= count
                if extent.node is not None:
                    extent.node.cached = extent.hi
                return
            queue.popleft()
            count -= size
            if size and extent.node is not None:
                extent.node.evict(extent)
            if not count:
                return

    def put(self, node: Node | None, lo: int, hi: int) -> None:
        """Append the freed blocks ``lo`` … ``hi - 1`` of ``node`` to the queue (``hi - lo`` nameless ones if None)."""
        self.free += hi - lo
        queue = self._queue
        if node is None:
            if queue and queue[-1].node is None:
                queue[-1].hi += hi - lo
            else:
                queue.append(Extent(None, 0, hi - lo))
            return
        extent = Extent(node, lo, hi)
        queue.append(extent)
        node.extents.append(extent)
        if len(queue) > self._SLACK + 2 * self.free:
            self._queue = deque(extent for extent in queue if extent.hi > extent.lo)

    def touch(self, node: Node, upto: int) -> None:
        """Take the free blocks of ``node`` below block ``upto`` out of the queue, wherever they stand in it."""
        extents = node.extents
        while extents:
            extent = extents[-1]
            if extent.lo >= upto:
                return
            if extent.hi > upto:
                self.free -= upto - extent.lo
                extent.lo = upto
                return
            self.free -= extent.hi - extent.lo
            extent.hi = extent.lo
            extents.pop()
