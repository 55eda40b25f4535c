"""One rank's scheduler state: what vLLM V1's scheduler decides, step by step, ahead of the GPU.

The rank plans steps; the executor runs them and hands their ends back. Between the two lie up to D + 1 planned steps
(scheduling depth D), so ``DecodeBatch.step``, the next step to be planned, runs ahead of ``next_output``, the next
step whose output is still to come.

Sources: vLLM ``v1/core/sched/scheduler.py`` (``schedule``, ``update_from_output``), ``v1/core/kv_cache_manager.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from servetwin.engine.admission import admit_waiting
from servetwin.engine.batch import NEVER, DecodeBatch
from servetwin.engine.blocks import BlockPool
from servetwin.engine.entering import enter
from servetwin.engine.in_order import schedule_in_order
from servetwin.engine.lane import Lane
from servetwin.engine.loading import take_in
from servetwin.engine.plan import PlannedStep
from servetwin.engine.prefix_cache import PrefixCache
from servetwin.engine.protocols import EngineSettings, KVConnector, Scheduler
from servetwin.engine.states import DECODING, ENDING
from servetwin.engine.steps import StepMaker
from servetwin.engine.waiting import FcfsQueue, KeyedQueue, WaitingQueue
from servetwin.request import Request

#: No limit, as a number that costs no more to compare than any other.
ANY_NUMBER = (1 << 62) - 1


NOBODY: Final = (-1, -1, -1)
"""What ``Rank.blocked`` is as long as nobody was."""


class Rank:
    """Requests, blocks and planned steps of one rank.

    Args:
        settings: the engine's settings.
        steps: makes and prices the steps.
        scheduler: order of the waiting queue and choice of the victim.
        on_gap: told of each inter-token gap over more than one step: its length, and when its last step began [ps].
        on_finished: told of each request that ends, with the visible time of its last token [ps].
        now: the simulated time [ps].
        hears: told when a connector has something to say, whether after the steps of this instant, and whether that is
            worth waking an idle engine with an empty queue; from when on plans take it in [ps].
        connector: where else cached blocks may lie, or None.
        noise: the factor on the time of the next step that is planned, or None.
        batch: for the requests that decode; None = a ``DecodeBatch``.
    """

    __slots__ = (
        "admitted",
        "aside",
        "batch",
        "blocked",
        "cache",
        "connector",
        "ended",
        "flying",
        "generated",
        "hears",
        "incoming",
        "kept",
        "lane",
        "lanes",
        "leavers",
        "most_decodes",
        "next_output",
        "noise",
        "now",
        "on_finished",
        "on_gap",
        "paused",
        "pipeline",
        "pool",
        "preempted",
        "prefilling",
        "rejoined",
        "released",
        "releases",
        "returning",
        "running",
        "scheduler",
        "settings",
        "steps",
        "tokens_held",
        "visible_ps",
        "waiting",
    )

    def __init__(
        self,
        settings: EngineSettings,
        steps: StepMaker,
        scheduler: Scheduler,
        on_gap: Callable[[int, int], None],
        on_finished: Callable[[Request, int], None],
        now: Callable[[], int],
        hears: Callable[[bool, bool], int],
        connector: KVConnector | None = None,
        noise: Callable[[], float] | None = None,
        batch: DecodeBatch | None = None,
    ) -> None:
        self.now = now
        self.noise = noise
        self.hears = hears
        self.connector = connector
        self.settings = settings
        self.scheduler = scheduler
        self.on_gap = on_gap
        self.on_finished = on_finished
        self.steps = steps
        self.pool = BlockPool(settings.num_blocks)
        self.cache = PrefixCache(self.pool, settings.block_size, settings.prefix_caching)
        self.batch = DecodeBatch(settings.block_size, steps.windows) if batch is None else batch
        self.waiting: WaitingQueue = FcfsQueue() if scheduler.fcfs else KeyedQueue()
        #: Requests in the front end, by the time at which they reach the waiting queue.
        self.incoming: deque[Request] = deque()
        #: Requests for which a connector is at work, with the tokens that they will have, requests that have ended but
        #: whose blocks one still reads, and those that it is done with, by when: they hold blocks but no seat.
        self.aside: dict[Request, int] = {}
        self.kept: dict[Request, None] = {}
        self.returning: deque[tuple[int, Request, int]] = deque()
        #: Requests with a seat, in order of admission.
        self.running: dict[Request, None] = {}
        self.prefilling: dict[Request, None] = {}
        #: Seats given so far: the next request's place in the order of admission.
        self.admitted = 0
        #: Decoding requests that sit out the last planned step, for want of budget.
        self.paused: list[Request] = []
        #: Decoding requests that sat out the step before the one being planned.
        self.rejoined: list[Request] | None = None
        #: Steps that were planned one by one and have not ended; the first of them may be under way.
        self.pipeline: list[PlannedStep] = []
        #: State of batch and blocks, and tokens of the decodes, in which the queue's head last did not fit: in a step
        #: that leaves it another part of the budget, its chunk would have another size.
        self.blocked = NOBODY
        #: How often a finished request has freed blocks.
        self.releases = 0
        #: Whether the last plan preempted somebody, or would have if nobody had been in flight.
        self.preempted = False
        #: The micro-batches of a pipeline, and those of them that are in flight, the oldest first.
        self.lanes: list[Lane] = []
        self.flying: list[Lane] = []
        #: The one whose turn it is, None without a pipeline.
        self.lane: Lane | None = None
        #: How many requests may decode in the next step.
        self.most_decodes = ANY_NUMBER
        self.next_output = 0
        #: When the last step's tokens became visible [ps].
        self.visible_ps = 0
        #: Output tokens so far of the requests that are here.
        self.generated = 0
        #: Tokens in the KV cache, summed over the requests with a seat.
        self.tokens_held = 0
        #: Tokens of KV cache that finished requests have released so far, what others still use not counted.
        self.released = 0
        #: By step: requests whose last token it yields, and those that sit out or lose their seat after it.
        self.ended: dict[int, list[Request]] = {}
        self.leavers: dict[int, list[Request]] = {}

    # -- planning ------------------------------------------------------------------------------------------------

    def settled(self, now: int) -> bool:
        """Whether a plan as of ``now`` [ps] would be today's decodes and nothing else, given enough blocks.

        Then it stays so until a request ends, arrives or returns: of the waiting queue's head, seats and blocks only
        get fewer while decodes go on. But where somebody waits for blocks, only as long as steps have as many tokens.
        """
        if self.prefilling or self.paused or not self.batch.size:
            return False
        incoming = self.incoming
        arrived = incoming and incoming[0].queued_ps <= now
        if self.returning and self.returning[0][0] <= now:
            return False
        return not (arrived or self.waiting) or self._admits_nobody(bool(arrived))

    def _admits_nobody(self, arrived: bool) -> bool:
        """Whether nobody who waits could get a seat, nor anybody who has ``arrived`` at the queue."""
        scheduler = self.scheduler
        if arrived and scheduler.reads_cache:
            return False
        if len(self.running) >= self.settings.max_num_seqs:
            return True
        batch = self.batch
        blocked = bool(self.waiting) and self.blocked == (batch.version, self.releases, batch.tokens())
        return blocked and (scheduler.fcfs or not arrived)

    def plan_ahead(self, now: int, ahead: int) -> None:
        """Plan, as of ``now`` [ps], until ``ahead`` steps are planned or there is nothing more to do."""
        while len(self.pipeline) < ahead:
            # A plan that only preempted is made again at once if there is nothing to run meanwhile.
            if not (self.plan(now) or (self.preempted and not self.pipeline)):
                return

    def plan_late(self, now: int) -> None:
        """Plan one step as of the earlier instant ``now`` [ps], at which the step that has just ended began."""
        self.plan(now)

    def take_up(self, lane: Lane) -> None:
        """Put a micro-batch of a pipeline in the place of the batch: it is planned next, or its output is there."""
        self.lane = lane
        self.batch = lane.batch
        self.ended = lane.ended
        self.next_output = lane.next_output

    def fits_decodes(self) -> bool:
        """Whether blocks and budget serve a step of today's decodes."""
        batch = self.batch
        return batch.new_blocks(1) <= self.pool.free and batch.tokens() <= self.settings.max_num_batched_tokens

    def plan_decodes(self) -> None:
        """Plan a step of today's decodes, which is all that the plan of an earlier instant would have found."""
        if self.batch.size:
            batch = self.batch
            self.pool.take(batch.new_blocks(1))
            if batch.asks:
                batch.decide(batch.size, batch.context)
            self.pipeline.append(self.steps.decodes(self))
            self._advance(0)

    def plan(self, now: int) -> bool:
        """Plan a step as of ``now`` [ps]. Both passes of vLLM's ``schedule``; False if they find no work."""
        incoming = self.incoming
        while incoming and incoming[0].queued_ps <= now:
            enter(self, incoming.popleft())
        if self.returning:
            take_in(self, now)
        if self.paused:
            self._rejoin()
        self.retire()
        batch = self.batch
        chunks: list[tuple[Request, int]] = []
        self.preempted = False
        budget = self.settings.max_num_batched_tokens - batch.tokens()
        need = batch.new_blocks(1)
        short = need > self.pool.free or batch.size > self.most_decodes or budget < 0
        if short or (self.prefilling and not self._take_chunks(budget, need, chunks)):
            budget, self.preempted = schedule_in_order(self, chunks)
        else:
            if need:
                self.pool.take(need)
            for request, want in chunks:
                budget -= want
                self.cache.hold(request, -(-(request.computed + want) // self.settings.block_size))
        for request, want in chunks:
            self.fill(request, want)
        if self.waiting and budget > 0 and not self.preempted:
            admit_waiting(self, now, budget, chunks)
        if chunks:
            self._commit_mixed(chunks)
        elif batch.size:
            if batch.asks:
                batch.decide(batch.size, batch.context)
            self.pipeline.append(self.steps.decodes(self))
            self._advance(0)
        else:
            self.rejoined = None
            return False
        return True

    def _take_chunks(self, budget: int, need: int, chunks: list[tuple[Request, int]]) -> bool:
        """Append the chunks of the running requests if order plays no part: if budget and blocks serve everybody.

        Args:
            budget: tokens left when all decodes have theirs.
            need: blocks that the decodes need.
            chunks: receives the chunks; left empty where the answer is False.
        """
        settings = self.settings
        wants: list[tuple[Request, int]] = []
        for request, newest in zip(reversed(self.prefilling), reversed(self.running), strict=False):
            if request is not newest:
                return False
        for request in self.prefilling:
            want = request.target - request.computed
            if 0 < settings.long_prefill_token_threshold < want:
                want = settings.long_prefill_token_threshold
            if want > budget:
                if budget <= 0:
                    break
                want = budget
            budget -= want
            need += -(-(request.computed + want) // settings.block_size) - request.held
            wants.append((request, want))
        if need > self.pool.free:
            return False
        chunks.extend(wants)
        return True

    def _commit_mixed(self, chunks: list[tuple[Request, int]]) -> None:
        """Plan a step with prefill chunks, and move the state on to the one after it."""
        batch = self.batch
        if batch.asks:
            prompts = sum([request.computed + want for request, want in chunks])
            batch.decide(batch.size + len(chunks), batch.context + prompts)
        step = self.steps.mixed(self, chunks)
        self.pipeline.append(step)
        self._advance(step.prefill_tokens)
        batch.version += 1
        if self.lane is not None:
            self.lane.chunked = [request for request, _ in chunks]
        for request in step.completing or ():
            self._prefilled(request)

    def _advance(self, prefill_tokens: int) -> None:
        """A step with so many prompt tokens has been planned."""
        self.tokens_held += prefill_tokens + self.batch.advance(1)

    def give(self, request: Request, want: int) -> None:
        """Blocks for the request's next ``want`` tokens, which can be found from now on."""
        blocks = -(-(request.computed + want) // self.settings.block_size)
        if request.path is None:
            self.pool.take(blocks - request.held)
            request.held = blocks
        else:
            self.cache.hold(request, blocks)
        self.fill(request, want)

    def fill(self, request: Request, want: int) -> None:
        """The next ``want`` tokens of a prefilling request are about to be computed."""
        if request.path is not None:
            self.cache.fill(request, request.computed + want)
        if self.connector is not None:
            self.connector.saved(request, request.computed + want)

    def _prefilled(self, request: Request) -> None:
        """The step just planned completes the request's prompt and yields a token."""
        self.prefilling.pop(request, None)
        request.produced += 1
        if request.produced == request.output_tokens:
            request.state = ENDING
            self.ended.setdefault(self.batch.step - 1, []).append(request)
        else:
            request.state = DECODING
            self.batch.join(request)

    def _rejoin(self) -> None:
        """Requests that sat out the step before decode again."""
        for request in self.paused:
            request.state = DECODING
            self.batch.join(request)
        self.rejoined = self.paused
        self.paused = []

    def retire(self) -> None:
        """Take requests whose last token is in flight out of the batch; they keep their seats and blocks."""
        batch = self.batch
        finishes = batch.finishes
        if finishes and finishes[0][0] <= batch.step:
            done = batch.retire()
            if done:
                for request in done:
                    request.state = ENDING
                self.ended.setdefault(batch.step - 1, []).extend(done)

    # -- series --------------------------------------------------------------------------------------------------

    def plan_series(self, count: int) -> None:
        """Plan ``count`` steps of today's decodes at once (at most ``DecodeBatch.steps_ahead``)."""
        if count:
            batch = self.batch
            need = batch.new_blocks(count)
            if need:
                self.pool.take(need)
            self.tokens_held += batch.advance(count)

    def ends_nobody(self) -> bool:
        """Whether the next output ends no request and is nobody's last before a pause."""
        return self.next_output not in self.ended and not self.leavers

    def skip_outputs(self, step: PlannedStep, count: int) -> None:
        """The outputs of ``count`` steps like ``step`` inside a run, in which nobody ends, are there."""
        self.next_output += count
        self.generated += count * step.emitted

    def next_news_ps(self) -> int:
        """When there may be something new to plan if nobody wakes the engine before [ps]; ``NEVER`` = not."""
        time = self.incoming[0].queued_ps if self.incoming else NEVER
        if self.returning and self.returning[0][0] < time:
            time = self.returning[0][0]
        return time

    def admits(self) -> bool:
        """Whether a request that arrives now could be admitted before something else changes."""
        if self.scheduler.reads_cache:
            return True
        if len(self.running) >= self.settings.max_num_seqs:
            return False
        return not (self.scheduler.fcfs and self.waiting)
