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

from servetwin.engine.blocks import BlockPool
from servetwin.engine.prefix_node import Node
from servetwin.request import Request


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
