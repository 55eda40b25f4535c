"""The prefix cache of one rank: a tree of token streams whose blocks are kept as runs, not one by one.

Semantics as vLLM V1's (``docs/design/prefix_caching.md``): only full blocks are cached, a block is identified by all
tokens up to its end, at least one token of a prompt is always computed, freed blocks stay findable until they are
reused, oldest first, and of one request the last block first.

One simplification: no content is stored twice. Where vLLM would write a second copy of a block that is already there
(the last block of a wholly cached prompt; two requests that prefill the same prompt side by side), the requests share
the one block here. Both still compute its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from servetwin.engine.blocks import BlockPool, Extent
from servetwin.request import Request


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


class PrefixCache:
    """Finds, holds and releases the blocks of requests in a ``BlockPool``.

    Args:
        pool: the rank's blocks.
        block_size: tokens per block.
        enabled: False keeps the accounts but finds nothing.
    """

    __slots__ = ("_block_size", "_root", "enabled", "pool")

    def __init__(self, pool: BlockPool, block_size: int, enabled: bool) -> None:
        self.pool = pool
        self.enabled = enabled
        self._block_size = block_size
        self._root = Node(None, None, 0)

    def look_up(self, request: Request, target: int) -> tuple[int, int]:
        """What of a waiting request's first ``target`` tokens is there already.

        Returns:
            found: full blocks that can be found, from the first on, at most ⌊(target − 1) / block size⌋.
            referred: blocks, from the first on, that running requests refer to.
        """
        if not self.enabled or not (request.segments or request.own is not None):
            return 0, 0
        found = referred = 0
        finding = referring = True
        for node, limit in self._walk(request, target):
            if finding:
                found = max(found, min(node.cached, limit))
                finding = node.cached >= limit
            if referring:
                referred = max(referred, min(node.ref, limit))
                referring = node.ref >= limit
            if not (finding or referring):
                break
        return min(found, (target - 1) // self._block_size), referred

    def _walk(self, request: Request, target: int) -> Iterator[tuple[Node, int]]:
        """The nodes on the request's way, with the block up to which each serves it, as far as none is missing.

        A segment without a full block of its own may have no node: nothing is missing then.
        """
        size = self._block_size
        node: Node | None = self._root
        start = 0
        last = len(request.segments) - 1
        for index, (key, tokens) in enumerate(request.segments):
            if node is not None:
                node = node.children.get((start, key)) if node.children is not None else None
            first = start // size
            start = target if index == last and request.continues else min(start + tokens, target)
            if node is not None:
                yield node, start // size
            elif start // size > first:
                return
        if request.own is not None:
            yield request.own, target // size

    def admit(self, request: Request) -> None:
        """Lay the request's path through the tree, making the nodes that are missing; it holds nothing yet."""
        request.held = 0
        request.chain_blocks = 0
        request.path = None
        if not self.enabled or not (request.segments or request.own is not None):
            return
        target = request.target
        size = self._block_size
        path = []
        node = self._root
        start = 0
        last = len(request.segments) - 1
        for index, (key, tokens) in enumerate(request.segments):
            if node.children is None:
                node.children = {}
            child = node.children.get((start, key))
            if child is None:
                child = node.children[(start, key)] = Node(node, (start, key), start // size)
            child.users += 1
            path.append(child)
            node = child
            start = target if index == last and request.continues else min(start + tokens, target)
        if request.own is not None:
            request.own.users += 1
            path.append(request.own)
            start = target
        request.path = path
        request.chain_blocks = start // size

    def cost(self, request: Request, blocks: int) -> int:
        """How many free blocks it takes to give the request its first ``blocks`` blocks."""
        held = request.held
        path = request.path
        chain = request.chain_blocks
        if path is None or held >= chain:
            return max(0, blocks - held)
        upto = min(blocks, chain)
        cost = blocks - upto
        last = len(path) - 1
        for index, node in enumerate(path):
            limit = path[index + 1].first if index < last else chain
            cost += max(0, min(upto, limit) - max(held, node.first, node.ref))
        return cost

    def hold(self, request: Request, blocks: int) -> None:
        """Give the request its first ``blocks`` blocks; the pool must have enough free ones."""
        held = request.held
        if blocks <= held:
            return
        request.held = blocks
        pool = self.pool
        path = request.path
        chain = request.chain_blocks
        if path is None or held >= chain:
            pool.take(blocks - held)
            return
        upto = min(blocks, chain)
        fresh = blocks - upto
        last = len(path) - 1
        for index, node in enumerate(path):
            limit = path[index + 1].first if index < last else chain
            if limit <= held:
                continue
            new = min(upto, limit)
            old = max(held, node.first)
            if new > old:
                fresh += node.hold(old, new, pool)
            if limit >= upto:
                break
        pool.take(fresh)

    def fill(self, request: Request, computed: int) -> None:
        """The request's first ``computed`` tokens, all known, are in its blocks: its full blocks can be found."""
        path = request.path
        if path is None:
            return
        full = min(computed // self._block_size, request.chain_blocks)
        for index in range(len(path) - 1, -1, -1):
            node = path[index]
            if node.first < full:
                if node.cached >= full:
                    return
                node.cached = full
            full = min(full, node.first)

    def release(self, request: Request, full: int, returns: bool) -> None:
        """Free the request's blocks, of which the first ``full`` are full.

        Args:
            request: the request; it holds ``request.held`` blocks.
            full: full blocks, generated tokens included.
            returns: the request was preempted and will look for its blocks again.
        """
        held = request.held
        pool = self.pool
        path = request.path
        request.held = 0
        if path is None and not returns:
            pool.put(None, 0, held)
            return
        chain = min(request.chain_blocks, held)
        heir = self._heir(request, chain, full, returns)
        if heir is None:
            if held > chain:
                pool.put(None, 0, held - chain)
        else:
            if held > full:
                pool.put(None, 0, held - full)
            heir.cached = full
            pool.put(heir, chain, full)
        if path is None:
            return
        for index in range(len(path) - 1, -1, -1):
            node = path[index]
            limit = path[index + 1].first if index + 1 < len(path) else request.chain_blocks
            upto = min(chain, limit)
            if upto > node.first:
                node.release(upto, pool)
            node.users -= 1
            node.prune()
        request.path = None

    def _heir(self, request: Request, chain: int, full: int, returns: bool) -> Node | None:
        """The node that takes over the request's full blocks beyond its known chain, if anybody may look for them."""
        if not self.enabled or full <= chain or chain < request.chain_blocks:
            return None
        path = request.path
        if path is not None and (request.continues or path[-1] is request.own):
            last: Node = path[-1]
            # Somebody else has written on from here already (two turns of a session at once).
            return last if last.cached == chain and last.ref <= chain else None
        if returns:
            request.own = own = Node(None, None, chain)
            return own
        return None
