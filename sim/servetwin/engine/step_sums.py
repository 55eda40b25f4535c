"""What the coming steps of requests that verify drafts amount to, step by step, over all of them."""

from __future__ import annotations

from typing import Final

#: Steps that lie this far back are forgotten.
_KEPT: Final = 4096


class StepSums:
    """Sums over a batch for each of its coming steps, as far as today's requests reach.

    Args:
        windows: how many attention windows the model has.

    Attributes:
        origin: the step that the first entries of the lists belong to.
        yields: what a step yields and which drafts stand, packed (``draft_reading.Packing``).
        blocks: KV blocks that a step needs.
        grown: for each window, tokens by which what is read in it grows after a step.
        uneven: of steps in which not all requests verify as many tokens: drafted tokens, requests that verify any, and
            attended pairs, as far as they differ from what they would be then.
    """

    __slots__ = ("blocks", "grown", "origin", "uneven", "yields")

    def __init__(self, windows: int) -> None:
        self.origin = 0
        self.yields: list[int] = []
        self.blocks: list[int] = []
        self.grown: list[list[int]] = [[] for _ in range(windows)]
        self.uneven: dict[int, tuple[int, int, int]] = {}

    def reach(self, end: int) -> None:
        """Have entries for all steps before ``end``."""
        missing = end - self.origin - len(self.yields)
        if missing > 0:
            more = [0] * missing
            self.yields += more
            self.blocks += more
            for grown in self.grown:
                grown += more

    def yield_of(self, step: int) -> int:
        """What a step yields, packed."""
        place = step - self.origin
        return self.yields[place] if place < len(self.yields) else 0

    def blocks_of(self, step: int, steps: int) -> int:
        """Blocks that ``steps`` steps from ``step`` on need."""
        place = step - self.origin
        if steps == 1:
            return self.blocks[place] if place < len(self.blocks) else 0
        return sum(self.blocks[place : place + steps])

    def within(self, step: int, free: int, limit: int) -> int:
        """How many of the ``limit`` steps from ``step`` on find enough blocks among ``free`` ones."""
        place = step - self.origin
        for steps, need in enumerate(self.blocks[place : place + limit]):
            free -= need
            if free < 0:
                return steps
        return limit

    def growth(self, window: int, step: int, steps: int) -> int:
        """By how many tokens what is read in a window grows in ``steps`` steps from ``step`` on."""
        place = step - self.origin
        return sum(self.grown[window][place : place + steps])

    def add_uneven(self, step: int, tokens: int, requests: int, pairs: int) -> None:
        """So many more drafted tokens, requests that verify any, and attended pairs in a step."""
        more, others, attended = self.uneven.get(step, (0, 0, 0))
        self.uneven[step] = (more + tokens, others + requests, attended + pairs)

    def forget_before(self, step: int) -> None:
        """Now and then, drop the sums of the steps before ``step``."""
        gone = step - self.origin
        if gone <= _KEPT:
            return
        for sums in (self.yields, self.blocks, *self.grown):
            del sums[:gone]
        for old in [old for old in self.uneven if old < step]:
            del self.uneven[old]
        self.origin = step
