"""What a gateway believes to lie in the prefix caches of its replicas: what it has sent there.

No engine is asked. A prompt counts as cached from the instant at which it is sent until the index of its replica, which
has room for so many blocks, has forgotten it: the block that has not been sent for the longest time goes first, and of
one prompt the first before the last. So the index does not know what an engine has evicted, has generated, or has not
computed yet.

Source: the approximate prefix cache of llm-d's endpoint picker (``approximateprefix``: blocks of 64 tokens, 31,250 of
them for each pod, of a prompt at most its first 131,072 tokens, updated when a request is routed).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from servetwin.request import Request, Segment

BLOCK_TOKENS: Final = 64
CAPACITY_BLOCKS: Final = 31_250
MOST_TOKENS: Final = 131_072


class _Piece:
    """Blocks in a row that were sent together for the last time; of a node, or of no other prompt where it is None."""

    __slots__ = ("end", "first", "node")

    def __init__(self, node: _Node | None, first: int, end: int) -> None:
        self.node = node
        self.first = first
        self.end = end


class _Node:
    """A stretch of a token stream behind a certain prefix, with the blocks that end in it.

    Attributes:
        parent: the node of the stretch before it.
        place: where it begins and which stream it is of, its key among the children of its parent.
        first: number of the first block that ends in it, or behind it.
        children: the stretches that follow it.
        pieces: its blocks; those that were sent last, which are the first ones, stand at the end.
    """

    __slots__ = ("children", "first", "parent", "pieces", "place")

    def __init__(self, parent: _Node | None, place: tuple[int, object], first: int) -> None:
        self.parent = parent
        self.place = place
        self.first = first
        self.children: dict[tuple[int, object], _Node] = {}
        self.pieces: list[_Piece] = []

    def known(self, limit: int) -> int:
        """The first of its blocks up to ``limit`` that is not known, or ``limit``."""
        known = self.first
        pieces = self.pieces
        for place in range(len(pieces) - 1, -1, -1):
            piece = pieces[place]
            if known >= limit or piece.first > known:
                break
            known = piece.end
        return min(known, limit)

    def prune(self) -> None:
        """Leave the tree, with whoever was there for its sake, if nothing is known of it any more."""
        node: _Node = self
        while not node.pieces and not node.children:
            parent = node.parent
            if parent is None:
                return
            del parent.children[node.place]
            node = parent


class _Memory:
    """What is known of one replica.

    Attributes:
        root: the node before all prompts.
        ages: its pieces, the one that was sent longest ago first.
        blocks: their blocks.
    """

    __slots__ = ("ages", "blocks", "root")

    def __init__(self) -> None:
        self.root = _Node(None, (0, None), 0)
        self.ages: OrderedDict[_Piece, None] = OrderedDict()
        self.blocks = 0

    def add(self, node: _Node | None, first: int, end: int) -> None:
        """The blocks from ``first`` up to ``end`` are sent."""
        if first >= end:
            return
        piece = _Piece(node, first, end)
        self.blocks += end - first
        if node is not None:
            pieces = node.pieces
            while pieces and pieces[-1].first < end:
                known = pieces[-1]
                self.blocks -= min(known.end, end) - known.first
                if known.end > end:
                    known.first = end
                    break
                pieces.pop()
                del self.ages[known]
            pieces.append(piece)
        self.ages[piece] = None

    def forget(self, surplus: int) -> None:
        """Forget the oldest ``surplus`` blocks."""
        self.blocks -= surplus
        while surplus > 0:
            piece = next(iter(self.ages))
            size = piece.end - piece.first
            if size > surplus:
                piece.first += surplus
                return
            surplus -= size
            del self.ages[piece]
            node = piece.node
            if node is not None:
                # The oldest piece of a node is its last one.
                del node.pieces[0]
                node.prune()


class PrefixIndex:
    """Which prefixes were sent to which replica.

    Both calls take time in proportion to the segments of the request, not to its tokens.

    Args:
        block_tokens: tokens of a block; what is left of a prompt behind its last full block is never found.
        capacity_blocks: blocks that are remembered of each replica.
        most_tokens: tokens of a prompt, from the first on, that are looked at.
    """

    __slots__ = ("_block_tokens", "_capacity_blocks", "_memories", "_most_tokens")

    def __init__(
        self, block_tokens: int = BLOCK_TOKENS, capacity_blocks: int = CAPACITY_BLOCKS, most_tokens: int = MOST_TOKENS
    ) -> None:
        self._block_tokens = block_tokens
        self._capacity_blocks = capacity_blocks
        self._most_tokens = most_tokens
        self._memories: dict[int, _Memory] = {}

    def matched(self, replica: int, request: Request) -> int:
        """Tokens at the beginning of the prompt that the replica is believed to have cached, in whole blocks."""
        memory = self._memories.get(replica)
        if memory is None:
            return 0
        size = self._block_tokens
        whole = self._shared_tokens(request)
        node = memory.root
        start = 0
        for key, tokens in request.segments:
            child = node.children.get((start, key))
            if child is None:
                break
            node = child
            start = min(start + tokens, whole)
            limit = start // size
            known = node.known(limit)
            if known < limit:
                return known * size
        return start // size * size

    def add(self, replica: int, request: Request) -> None:
        """The request is sent to the replica."""
        memory = self._memories.get(replica)
        if memory is None:
            memory = self._memories[replica] = _Memory()
        size = self._block_tokens
        shared = self._shared_tokens(request)
        node = memory.root
        start = 0
        for key, tokens in request.segments:
            first = start // size
            if first >= shared // size:
                # No block ends behind this.
                break
            child = node.children.get((start, key))
            if child is None:
                child = node.children[(start, key)] = _Node(node, (start, key), first)
            node = child
            start = min(start + tokens, shared)
            memory.add(node, first, start // size)
        # What nobody else's prompt begins with takes its room all the same.
        memory.add(None, shared // size, min(request.prompt_tokens, self._most_tokens) // size)
        if memory.blocks > self._capacity_blocks:
            memory.forget(memory.blocks - self._capacity_blocks)

    def _shared_tokens(self, request: Request) -> int:
        """Tokens of the prompt that other prompts may begin with, as far as anybody looks."""
        segments: tuple[Segment, ...] = request.segments
        tokens = sum([length for _, length in segments])
        return min(tokens, request.prompt_tokens, self._most_tokens)
