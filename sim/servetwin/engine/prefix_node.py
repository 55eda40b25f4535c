"""A token stream at one place of the prefix tree, and the state of its blocks."""

from __future__ import annotations

from typing import Any

from servetwin.engine.blocks import BlockPool, Extent


class Node:
    """One token stream at one place of the tree.

    The node owns the blocks whose last token lies in its stream: blocks ``first``, ``first + 1``, … of every prompt
    that runs through it.

    * ``first`` … ``cached - 1`` are full and can be found;
    * ``first`` … ``ref - 1`` are referred to by running requests (those from ``cached`` on are still being filled);
    * ``ref`` … ``cached - 1`` lie in the free queue, as ``extents``, the newest (lowest) last.

    Whoever holds a block holds all before it, so the older an extent is, the farther down the chain it lies.
    """

    __slots__ = ("cached", "children", "extents", "first", "holds", "key", "parent", "ref", "users")

    def __init__(self, parent: Node | None, key: Any, first: int) -> None:
        self.parent = parent
        self.key = key
        self.first = first
        self.cached = first
        self.ref = first
        self.children: dict[Any, Node] | None = None
        self.extents: list[Extent] = []
        #: Requests by the block up to which they hold this node.
        self.holds: dict[int, int] = {}
        #: Requests whose path runs through this node, holding blocks of it or not yet.
        self.users = 0

    def hold(self, old: int, new: int, pool: BlockPool) -> int:
        """One request holds the node up to block ``new`` instead of ``old``; returns how many fresh blocks it needs.

        ``old == first`` means that it held nothing. Cached blocks leave the free queue at once; the fresh ones are
        for the caller to take, after everything found is safe.
        """
        holds = self.holds
        holds[new] = holds.get(new, 0) + 1
        if old > self.first:
            self._drop(old)
        ref = self.ref
        if new <= ref:
            pool.overlap += new - old
            return 0
        if ref > old:
            pool.overlap += ref - old
        cached = self.cached
        if cached > ref:
            pool.touch(self, new)
            ref = cached
        self.ref = new
        return new - ref if new > ref else 0

    def release(self, held: int, pool: BlockPool) -> None:
        """One request that held the node up to block ``held`` lets go of it."""
        self._drop(held)
        old = self.ref
        ref = max(self.holds, default=self.first)
        pool.overlap -= min(ref, held) - self.first
        if ref >= old:
            return
        self.ref = ref
        cached = self.cached
        if old > cached:
            filled = cached if cached > ref else ref
            pool.put(None, 0, old - filled)
            old = filled
        if old > ref:
            pool.put(self, ref, old)

    def evict(self, extent: Extent) -> None:
        """The free blocks of ``extent``, the oldest of the node, were reused for something else."""
        self.cached = extent.lo
        self.extents.pop(0)
        self.prune()

    def prune(self) -> None:
        """Forget the node, and its ancestors, if nothing is left of it."""
        node: Node | None = self
        while (
            node is not None
            and not node.users
            and not node.children
            and node.cached == node.first
            and node.parent is not None
        ):
            parent = node.parent
            if parent.children is not None:
                parent.children.pop(node.key, None)
            node = parent

    def _drop(self, held: int) -> None:
        left = self.holds[held] - 1
        if left:
            self.holds[held] = left
        else:
            del self.holds[held]
