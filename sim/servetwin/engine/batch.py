"""The decoding requests of a rank as a whole: sums, and what changes them next.

Nothing here loops over the batch. What a decoding request will have computed at a given step follows from the step at
which it joined; sums over all of them, and the steps at which blocks run out, follow from a few numbers.
"""

from __future__ import annotations

from heapq import heappop, heappush

from servetwin.request import Request

#: "No such step": later than any step.
NEVER = 1 << 62


class _Window:
    """Context within one attention window: ``min(context, window)`` summed over the batch."""

    __slots__ = ("context", "crossings", "growing", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.context = 0
        self.growing = 0
        #: (step at which the request reads the whole window for the first time, number of its join, request)
        self.crossings: list[tuple[int, int, Request]] = []

    def join(self, request: Request, step: int) -> None:
        reads = request.computed + 1
        if reads < self.window:
            self.growing += 1
            self.context += reads
            heappush(self.crossings, (step + self.window - reads, request.joined, request))
        else:
            self.context += self.window

    def leave(self, request: Request) -> None:
        reads = request.computed + 1
        if reads < self.window:
            self.growing -= 1
            self.context -= reads
        else:
            self.context -= self.window


class DecodeBatch:
    """The requests that decode in the next step to be planned, ``step``.

    Args:
        block_size: tokens per KV block.
        windows: attention windows of the model besides full attention [tokens].
        joins: from where joins are numbered; no two batches that share requests may use the same numbers.

    Attributes:
        step: index of the next step to be planned.
        size: decoding requests.
        context: KV tokens that they read in that step, their own new ones included.
        asks: whether ``decide`` wants to be called.
        made: drafts per request that the step being planned makes at its end; none here (see ``engine.draft_batch``).
        version: changes whenever two steps before and after are not of one series.
        finishes: heap of (step from which a request no longer decodes, number of its join, request); entries of
            requests that have left, or joined again since, are stale and skipped. No request finishes earlier than
            its top says.
        crossings: requests by the steps, modulo the block size, at which they need a new block; stored twice in a
            row, so that any window of up to a block's length is one slice.
    """

    __slots__ = (
        "_joins",
        "asks",
        "block_size",
        "context",
        "crossings",
        "finishes",
        "next_drafts",
        "size",
        "step",
        "version",
        "windows",
    )

    def __init__(self, block_size: int, windows: tuple[int, ...], joins: int = 0) -> None:
        self.block_size = block_size
        self.asks = False
        self.next_drafts = 0
        self.step = 0
        self.size = 0
        self.context = 0
        self.version = 0
        self.crossings = [0] * (2 * block_size)
        self.windows = [_Window(window) for window in windows]
        self._joins = joins
        self.finishes: list[tuple[int, int, Request]] = []

    def join(self, request: Request) -> None:
        """``request`` decodes from the next step on."""
        step = self.step
        computed = request.computed
        size = self.block_size
        key = (step - computed) % size
        self.crossings[key] += 1
        self.crossings[key + size] += 1
        request.growth_key = key
        request.join_step = step
        self._joins = request.joined = joined = self._joins + 1
        heappush(self.finishes, (step + request.output_tokens - request.produced, joined, request))
        self.size += 1
        self.context += computed + 1
        self.version += 1
        for window in self.windows:
            window.join(request, step)

    def join_loaded(self, request: Request) -> None:
        """``request``, whose prompt was loaded, decodes from the next step on; it has the blocks for that step."""
        self.join(request)

    def first_blocks(self, request: Request) -> int:
        """Blocks that a request has in its first step after its prompt was loaded."""
        return -(-(request.computed + 1) // self.block_size)

    def leave(self, request: Request) -> None:
        """``request`` does not decode in the next step; its own counts are brought up to date."""
        steps = self.step - request.join_step
        request.computed = computed = request.computed + steps
        request.produced += steps
        request.held = -(-computed // self.block_size)
        request.joined = 0
        key = request.growth_key
        self.crossings[key] -= 1
        self.crossings[key + self.block_size] -= 1
        self.size -= 1
        self.context -= computed + 1
        self.version += 1
        for window in self.windows:
            window.leave(request)

    def computed(self, request: Request) -> int:
        """Tokens of a decoding request computed before the next step."""
        return request.computed + self.step - request.join_step

    def gained_since(self, request: Request, step: int) -> int:
        """Output tokens that the planned decode steps of ``request`` from ``step`` on yield."""
        return max(0, self.step - max(request.join_step, step))

    def held(self, request: Request) -> int:
        """KV blocks of a decoding request before the next step."""
        return -(-self.computed(request) // self.block_size)

    def tokens_of(self, request: Request) -> int:
        """Tokens of a decoding request in the next step."""
        return 1

    def need(self, request: Request, want: int) -> int:
        """Free blocks that ``want`` tokens of a decoding request in the next step take."""
        return int(self.computed(request) % self.block_size == 0)

    def trim(self, request: Request, want: int) -> None:
        """The budget has room for only ``want`` tokens of a decoding request in the step being planned."""

    def gains(self, ahead: int) -> int:
        """Output tokens that the decodes of the step ``ahead`` steps after the next one yield."""
        return self.size

    def drafted(self, ahead: int) -> int:
        """Drafted tokens that that step verifies."""
        return 0

    def verifying(self, ahead: int) -> int:
        """Requests that verify any in that step."""
        return 0

    def attended(self, ahead: int, context: int) -> int:
        """Pairs of token and attended token in that step, before whose drafts the decodes read ``context``."""
        return context

    def width(self, ahead: int, context: int) -> float:
        """See ``StepShape``, of that step; 0 = as left out there."""
        return 0.0

    def accepted(self, ahead: int) -> int:
        """Drafts that stand in that step."""
        return 0

    def stood(self, ahead: int) -> int:
        """What that step yields and which drafts stand, packed (``draft_reading.Packing``); nothing here."""
        return 0

    def tokens(self) -> int:
        """Tokens of the decodes of the next step."""
        return self.size

    def decide(self, requests: int, context: int) -> None:
        """A step of so many requests, which have so many KV tokens, is being planned; see ``asks``."""

    def members(self) -> list[Request]:
        """The decoding requests, in no particular order. Linear in their number, for rare paths."""
        return [request for _, joined, request in self.finishes if request.joined == joined]

    def next_finish(self) -> int:
        """The first step in which some request of today's batch no longer decodes."""
        finishes = self.finishes
        while finishes:
            step, joined, request = finishes[0]
            if request.joined == joined:
                return step
            heappop(finishes)
        return NEVER

    def retire(self) -> list[Request]:
        """Take out the requests whose last step has been planned."""
        done: list[Request] = []
        finishes = self.finishes
        while finishes and finishes[0][0] <= self.step:
            _, joined, request = heappop(finishes)
            if request.joined == joined:
                self.leave(request)
                done.append(request)
        return done

    def new_blocks(self, steps: int) -> int:
        """Blocks that the next ``steps`` steps need for their new tokens."""
        size = self.block_size
        start = self.step % size
        if steps == 1:
            return self.crossings[start]
        cycles, rest = divmod(steps, size)
        return self.size * cycles + sum(self.crossings[start : start + rest])

    def steps_ahead(self, free: int) -> int:
        """How many steps of today's composition can be planned: before a request finishes, or stops growing within a
        window, or ``free`` blocks run out."""
        limit = self.next_finish() - self.step
        if self.windows:
            limit = min(limit, self.next_crossing() - self.step)
        if limit <= 0:
            return 0
        # Whoever decodes needs at most one block more than it fills: a bound that spares the count.
        if self.size * (limit // self.block_size + 1) <= free:
            return limit
        return self.steps_within(free, limit)

    def steps_within(self, free: int, limit: int) -> int:
        """How many of the next ``limit`` steps find enough blocks among ``free`` ones."""
        if self.new_blocks(limit) <= free:
            return limit
        cycles = free // self.size
        free -= cycles * self.size
        steps = cycles * self.block_size
        position = self.step % self.block_size
        for crossing in self.crossings[position : position + self.block_size]:
            if crossing > free:
                break
            free -= crossing
            steps += 1
        return steps

    def advance(self, steps: int) -> int:
        """``steps`` more steps of the same composition are planned; returns the output tokens of their decodes."""
        gained = self.size * steps
        self.step += steps
        self.context += gained
        if self.windows:
            for window in self.windows:
                window.context += window.growing * steps
                self._cross(window)
        return gained

    def next_crossing(self) -> int:
        """The first step at which some request stops growing within a window."""
        step = NEVER
        for window in self.windows:
            if window.crossings:
                step = min(step, window.crossings[0][0])
        return step

    def _cross(self, window: _Window) -> None:
        crossings = window.crossings
        while crossings and crossings[0][0] <= self.step:
            _, joined, request = heappop(crossings)
            if request.joined == joined:
                window.growing -= 1
                self.version += 1
