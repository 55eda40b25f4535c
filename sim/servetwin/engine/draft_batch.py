"""The decoding requests of a rank that verify drafts: how much each step yields follows from their fates.

What a request gains in each of its steps is read from its fate when it joins, for as many drafts as are made today, and
added to sums by step; so nothing here loops over the batch in a step. Where the number of drafts changes, what is still
to come is read again.
"""

from __future__ import annotations

from heapq import heappush
from typing import Final

from servetwin.engine.batch import DecodeBatch
from servetwin.engine.draft_control import DraftControl
from servetwin.engine.draft_reading import Packing, Reading
from servetwin.engine.protocols import DraftController, Fates, StepForecast
from servetwin.engine.step_sums import StepSums
from servetwin.request import Request

#: Steps that are looked ahead at once: a run is seldom longer, and what is beyond its end was looked at in vain.
_AHEAD: Final = 64


class DraftBatch(DecodeBatch):
    """A ``DecodeBatch`` whose requests gain one token and the drafts that stand in each step.

    A request holds blocks for what it has computed, the tokens of its step, and ``lookahead`` more; what was rejected
    is overwritten by the next step, and the blocks stay.

    Args:
        block_size: tokens per KV block.
        windows: attention windows of the model besides full attention [tokens].
        most: drafts in a row per request, at most.
        nodes: drafted tokens that a request verifies for ``most`` drafts in a row: more where they form a tree.
        lookahead: slots that a request holds besides those of its step [tokens].
        budget: tokens that a step has at most.
        depth: scheduling depth: the outcome of a step is known so many plans later.
        fates: how the drafts fare.
        controller: how many to make; None = always ``most``.
        forecast: predicts the time of steps for the controller.
        named: the name of the controller's policy and where the scenario says so, for messages.

    Attributes:
        most: see above.
        packing: how drafts that stand are counted.
        drafts: drafts in a row that each request has for the next step.
    """

    __slots__ = ("_budget", "_control", "_depth", "_fates", "_lookahead", "_nodes", "_steps", "_sums", "drafts",
                 "most", "packing")  # fmt: skip

    def __init__(
        self,
        block_size: int,
        windows: tuple[int, ...],
        most: int,
        nodes: int,
        lookahead: int,
        budget: int,
        depth: int,
        fates: Fates,
        controller: DraftController | None,
        forecast: StepForecast,
        named: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(block_size, windows)
        self.most = self.drafts = self.next_drafts = most
        self._nodes = nodes
        self._lookahead = lookahead
        self._budget = budget
        self._depth = depth
        self._fates = fates
        self._control = DraftControl(controller, most, depth, forecast, named) if controller is not None else None
        self.asks = controller is not None
        self.packing = Packing(most, budget + most)
        #: What a request that accepts so many drafts adds to a step.
        self._steps = [self.packing.step(accepted) for accepted in range(most + 1)]
        self._sums = StepSums(len(windows))

    # -- requests ------------------------------------------------------------------------------------------------

    def join_loaded(self, request: Request) -> None:
        """``request``, whose prompt was loaded, decodes from the next step on; nobody has drafted for it yet."""
        self._join(request, 0)

    def first_blocks(self, request: Request) -> int:
        """Blocks that a request has in its first step after its prompt was loaded."""
        return self._slots(request.computed, 1)

    def join(self, request: Request) -> None:
        """``request`` decodes from the next step on."""
        self._join(request, -1)

    def _join(self, request: Request, trimmed: int) -> None:
        """The same; see ``_read``."""
        if request.fate is None:
            request.fate = self._fates.of(request)
        request.join_step = self.step
        self.size += 1
        reads = request.computed + 1
        self.context += reads
        self.version += 1
        for window in self.windows:
            window.context += min(reads, window.window)
        self._read(request, trimmed)

    def leave(self, request: Request) -> None:
        """``request`` does not decode in the next step; its own counts are brought up to date."""
        self._settle(request)
        request.joined = 0
        self.size -= 1
        reads = request.computed + 1
        self.context -= reads
        self.version += 1
        for window in self.windows:
            window.context -= min(reads, window.window)

    def computed(self, request: Request) -> int:
        """Tokens of a decoding request computed before the next step."""
        reading = _reading(request)
        return request.computed + sum(reading.gained[: self.step - reading.start])

    def gained_since(self, request: Request, step: int) -> int:
        """Output tokens that the planned decode steps of ``request`` from ``step`` on yield."""
        reading = _reading(request)
        return reading.between(step, self.step if request.joined else reading.end)

    def held(self, request: Request) -> int:
        """KV blocks of a decoding request before the next step."""
        reading = _reading(request)
        done = self.step - reading.start
        return self._held_after(request, reading, done, sum(reading.gained[:done]))

    def tokens_of(self, request: Request) -> int:
        """Tokens of a decoding request in the next step."""
        reading = _reading(request)
        done = self.step - reading.start
        if done >= len(reading.gained):
            # Its last step has been planned, and it is still to be retired.
            return 1 + self._verified(self.drafts)
        return 1 + (reading.tokens if reading.verified is None else reading.verified[done])

    def need(self, request: Request, want: int) -> int:
        """Free blocks that ``want`` tokens of a decoding request in the next step take."""
        if self.step - _reading(request).start >= len(_reading(request).gained):
            return 0
        return max(0, self._slots(self.computed(request), want) - self.held(request))

    def trim(self, request: Request, want: int) -> None:
        """The budget has room for only ``want`` tokens of a decoding request in the step being planned."""
        self._settle(request)
        self._read(request, trimmed=want - 1)
        self.version += 1

    # -- steps ---------------------------------------------------------------------------------------------------

    def tokens(self) -> int:
        """Tokens of the decodes of the next step."""
        return self.size + self.drafted(0)

    def gains(self, ahead: int) -> int:
        """Output tokens that the decodes of the step ``ahead`` steps after the next one yield."""
        return self.packing.gained(self.stood(ahead))

    def drafted(self, ahead: int) -> int:
        """Drafted tokens that that step verifies."""
        usual = self.size * self._verified(self.drafts)
        uneven = self._sums.uneven
        if uneven:
            odd = uneven.get(self.step + ahead)
            return usual if odd is None else usual + odd[0]
        return usual

    def verifying(self, ahead: int) -> int:
        """Requests that verify any in that step."""
        usual = self.size if self.drafts else 0
        uneven = self._sums.uneven
        if uneven:
            odd = uneven.get(self.step + ahead)
            return usual if odd is None else usual + odd[1]
        return usual

    def attended(self, ahead: int, context: int) -> int:
        """See ``DecodeBatch``; a draft attends those before it in its chain too."""
        verified = self._verified(self.drafts)
        usual = (1 + verified) * context + self.size * self._own_pairs(verified)
        uneven = self._sums.uneven
        if uneven:
            odd = uneven.get(self.step + ahead)
            return usual if odd is None else usual + odd[2]
        return usual

    def width(self, ahead: int, context: int) -> float:
        """See ``DecodeBatch``."""
        uneven = self._sums.uneven
        if uneven:
            odd = uneven.get(self.step + ahead)
            if odd is not None and odd[0]:
                drafted, attended = self.drafted(ahead), self.attended(ahead, context)
                each = drafted // self.size
                if drafted > each * self.size or attended != (1 + each) * context + self.size * self._own_pairs(each):
                    return attended / (context + drafted)
        return 0.0

    def stood(self, ahead: int) -> int:
        """What that step yields and which drafts stand, packed."""
        return self._sums.yield_of(self.step + ahead)

    def accepted(self, ahead: int) -> int:
        """Drafts that stand in that step."""
        return self.packing.accepted(self.stood(ahead))

    def _own_pairs(self, tokens: int) -> int:
        """Pairs of a drafted token and itself or one that it follows, of so many; a tree has at least those of a chain
        and each other token with itself."""
        chain = min(tokens, self.most)
        return tokens + (chain * (chain - 1) >> 1)

    def _verified(self, drafts: int) -> int:
        """Tokens that a request verifies for so many drafts in a row."""
        return self._nodes if drafts == self.most else drafts

    def contexts(self, ahead: int, grown: int) -> tuple[int, ...]:
        """Per attention kind, the context that that step reads, its drafts included; ``grown`` is what the decodes
        have gained up to it."""
        drafted = self.drafted(ahead)
        if not self.windows:
            return (self.context + grown + drafted,)
        wide = [
            window.context + self._sums.growth(index, self.step, ahead) + drafted
            for index, window in enumerate(self.windows)
        ]
        return (self.context + grown + drafted, *wide)

    def new_blocks(self, steps: int) -> int:
        """Blocks that the next ``steps`` steps need."""
        return self._sums.blocks_of(self.step, steps)

    def steps_ahead(self, free: int) -> int:
        """How many steps of today's composition can be planned, a bounded number at a time: before a request
        finishes, the controller is asked, a step passes the budget, or ``free`` blocks run out."""
        limit = min(self.next_finish() - self.step, _AHEAD)
        if self._control is not None:
            limit = min(limit, self._control.steps_left(self.size, self.step))
        if self.size * (1 + self._nodes) > self._budget:
            limit = self._within_budget(limit)
        return self.steps_within(free, limit) if limit > 0 else 0

    def steps_alike(self, limit: int) -> int:
        """How many of the next ``limit`` steps have as many tokens as the first one."""
        if self._sums.uneven:
            first = self.drafted(0)
            for ahead in range(1, limit):
                if self.drafted(ahead) != first:
                    return ahead
        return limit

    def steps_within(self, free: int, limit: int) -> int:
        """How many of the next ``limit`` steps find enough blocks among ``free`` ones."""
        return self._sums.within(self.step, free, limit)

    def _within_budget(self, limit: int) -> int:
        for ahead in range(limit):
            if self.size + self.drafted(ahead) > self._budget:
                return ahead
        return limit

    def advance(self, steps: int) -> int:
        """``steps`` more steps have been planned; returns the output tokens of their decodes."""
        if self._control is not None and self._control.observes:
            self._remember(self._control, steps)
        gained = 0
        for ahead in range(steps):
            gained += self.gains(ahead)
        for index, window in enumerate(self.windows):
            window.context += self._sums.growth(index, self.step, steps)
        self.step += steps
        self.context += gained
        if max(0, self.next_drafts) != self.drafts:
            self._redraft()
        self._sums.forget_before(self.step)
        return gained

    # -- how many drafts -----------------------------------------------------------------------------------------

    def decide(self, requests: int, context: int) -> None:
        """Decide how many drafts the step being planned makes at its end.

        Args:
            requests: requests in the step.
            context: KV tokens that they have.
        """
        if self._control is not None:
            self.next_drafts = self._control.decide(requests, context, self.step, self.next_drafts)

    def _remember(self, control: DraftControl, steps: int) -> None:
        """Keep what comes of the next steps for the controller."""
        for ahead in range(steps):
            verifying = self.verifying(ahead)
            if verifying:
                accepted = self.packing.by_position(self.stood(ahead))[: self.drafts]
                control.remember(self.step + ahead, verifying, self.drafted(ahead), accepted)

    def _redraft(self) -> None:
        """Requests have another number of drafts from the next step on."""
        self.drafts = max(0, self.next_drafts)
        self.version += 1
        requests = self.members()
        # Whoever finishes later than before must not be found under its old step.
        self.finishes.clear()
        for request in requests:
            self._settle(request)
            self._read(request)

    # -- readings ------------------------------------------------------------------------------------------------

    def _read(self, request: Request, trimmed: int = -1) -> None:
        """Read what the request gains from the next step on, and add it to the sums.

        Args:
            request: the request.
            trimmed: drafted tokens that the budget leaves it in the next step; -1 = all.
        """
        old = request.reading
        recent = self.step - 1 - self._depth
        before = old if isinstance(old, Reading) and old.end > recent else None
        if before is not None and before.start <= recent:
            before.before = None
        drafts = self.drafts
        tokens = self._verified(drafts)
        reading = Reading(self.step, tokens, before)
        request.reading = reading
        fate = request.fate
        assert fate is not None
        limited = self._control is not None and self._control.per_request
        if fate.proposed is not None or limited or trimmed >= 0:
            self._read_one_by_one(request, reading, limited, trimmed)
            self._add(reading, 0, request.computed, request.held, 1)
        else:
            # What ``_read_one_by_one`` and ``_add`` do where all steps have as many drafts, as tight as it can be, for
            # it is run once for each request. ``tests/oracle/test_drafting_equals_naive.py`` holds the two together.
            matches, steps, gained = fate.matches, self._steps, reading.gained
            position, output = request.produced, request.output_tokens
            ahead = self._sums
            ahead.reach(self.step + output - position)
            at, yields, blocks = self.step - ahead.origin, ahead.yields, ahead.blocks
            computed, held = request.computed, request.held
            size, slots = self.block_size, 1 + tokens + self._lookahead
            capacity = held * size - slots
            wide = bool(self.windows)
            while position < output:
                accepted = matches[position]
                if accepted > drafts:
                    accepted = drafts
                gain = accepted + 1
                if gain > output - position:
                    reading.beyond = gain - (output - position)
                    gain -= reading.beyond
                    yields[at] += steps[accepted] - reading.beyond
                else:
                    yields[at] += steps[accepted]
                gained.append(gain)
                if computed > capacity:
                    need = -(-(computed + slots) // size)
                    blocks[at] += need - held
                    held = need
                    capacity = held * size - slots
                if wide:
                    self._add_windows(at, computed, gain, 1)
                computed += gain
                position += gain
                at += 1
        # A number of its own for each reading, so that what an older one said about the end is stale.
        self._joins = request.joined = self._joins + 1
        heappush(self.finishes, (self.step + len(reading.gained), request.joined, request))

    def _read_one_by_one(self, request: Request, reading: Reading, limited: bool, trimmed: int) -> None:
        """Read a request whose steps have different numbers of drafts."""
        fate = request.fate
        assert fate is not None
        matches, proposed = fate.matches, fate.proposed
        history: list[tuple[int, int, int]] = list(request.history) if limited else []
        known: list[tuple[int, int]] = []
        reading.verified = verified = []
        position, output = request.produced, request.output_tokens
        step = self.step
        while position < output:
            drafts = self.drafts
            if proposed is not None:
                drafts = min(drafts, proposed[position])
            if limited and drafts:
                # Made at the end of the step before, whose plan knew as much.
                while len(known) < len(history) and history[len(known)][0] < step - 1 - self._depth:
                    known.append(history[len(known)][1:])
                assert self._control is not None
                drafts = min(drafts, self._control.limit(known))
            tokens = self._verified(drafts)
            if step == self.step and 0 <= trimmed < tokens:
                tokens = trimmed
                drafts = min(drafts, tokens)
            accepted = min(matches[position], drafts)
            gain = min(accepted + 1, output - position)
            if limited and tokens:
                history.append((step, tokens, accepted))
            verified.append(tokens)
            reading.gained.append(gain)
            reading.beyond = accepted + 1 - gain
            position += gain
            step += 1

    def _settle(self, request: Request) -> None:
        """The request's reading ends before the next step; what it would have gained is taken out of the sums."""
        reading = _reading(request)
        done = self.step - reading.start
        whole = done >= len(reading.gained)
        # Whoever is done has gained what was missing: no sum.
        gained = request.output_tokens - request.produced if whole else sum(reading.gained[:done])
        held = self._held_after(request, reading, done, gained)
        request.computed += gained
        request.produced += gained
        request.held = held
        request.accepted_tokens += gained - done + (reading.beyond if whole else 0)
        if reading.verified is None:
            request.drafted_tokens += done * reading.tokens
        else:
            request.drafted_tokens += sum(reading.verified[:done])
            if self._control is not None and self._control.per_request and not whole:
                self._keep_history(request, reading, done)
        reading.end = self.step
        if not whole:
            self._add(reading, done, request.computed, held, -1)

    def _keep_history(self, request: Request, reading: Reading, done: int) -> None:
        verified = reading.verified
        assert verified is not None
        start = reading.start
        steps = [(start + index, verified[index], reading.accepted(index)) for index in range(done) if verified[index]]
        request.history = (*request.history, *steps)

    def _add(self, reading: Reading, first: int, computed: int, held: int, sign: int) -> None:
        """Add a reading from its step ``first`` on to the sums, or take it out.

        Args:
            reading: the reading.
            first: its first step that counts.
            computed: tokens that the request has computed before it.
            held: blocks that it holds before it.
            sign: 1, or −1 to take it out.
        """
        gained, verified = reading.gained, reading.verified
        last = len(gained) - 1
        ahead = self._sums
        ahead.reach(reading.start + last + 1)
        at, yields, blocks = reading.start + first - ahead.origin, ahead.yields, ahead.blocks
        tokens = reading.tokens
        for index in range(first, last + 1):
            gain = gained[index]
            accepted = gain - 1
            if index == last:
                accepted += reading.beyond
            yields[at] += sign * (self._steps[accepted] - accepted - 1 + gain)
            if verified is not None:
                tokens = verified[index]
                if tokens != reading.tokens:
                    self._add_uneven(reading.start + index, tokens, reading.tokens, computed + 1, sign)
            need = self._slots(computed, 1 + tokens)
            if need > held:
                blocks[at] += sign * (need - held)
                held = need
            if self.windows:
                self._add_windows(at, computed, gain, sign)
            computed += gain
            at += 1

    def _add_uneven(self, step: int, tokens: int, usual: int, context: int, sign: int) -> None:
        """A request of so much context, its next token included, verifies ``tokens`` in a step and not ``usual``."""
        more, pairs = tokens - usual, self._own_pairs(tokens) - self._own_pairs(usual)
        requests = (tokens > 0) - (usual > 0)
        self._sums.add_uneven(step, sign * more, sign * requests, sign * (more * context + pairs))

    def _add_windows(self, at: int, computed: int, gain: int, sign: int) -> None:
        for index, window in enumerate(self.windows):
            wide = window.window
            self._sums.grown[index][at] += sign * (min(computed + gain + 1, wide) - min(computed + 1, wide))

    def _held_after(self, request: Request, reading: Reading, done: int, gained: int) -> int:
        """Blocks of a request after ``done`` steps of its reading, in which it has ``gained`` tokens."""
        held = request.held
        if not done:
            return held
        verified = reading.verified
        if verified is None:
            computed = request.computed + gained
            if done <= len(reading.gained):
                computed -= reading.gained[done - 1]
            return max(held, self._slots(computed, 1 + reading.tokens))
        computed = request.computed
        for index in range(done):
            held = max(held, self._slots(computed, 1 + verified[index]))
            computed += reading.gained[index]
        return held

    def _slots(self, computed: int, tokens: int) -> int:
        """Blocks that a request has when a step of ``tokens`` tokens follows ``computed`` ones."""
        return -(-(computed + tokens + self._lookahead) // self.block_size)


def _reading(request: Request) -> Reading:
    reading = request.reading
    assert isinstance(reading, Reading)
    return reading
