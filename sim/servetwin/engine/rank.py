"""One rank's scheduler state: what vLLM V1's scheduler decides, step by step, ahead of the GPU.

The rank plans steps; the executor runs them and hands their ends back. Between the two lie up to D + 1 planned steps
(scheduling depth D), so ``DecodeBatch.step``, the next step to be planned, runs ahead of ``next_output``, the next
step whose output is still to come.

Sources: vLLM ``v1/core/sched/scheduler.py`` (``schedule``, ``update_from_output``), ``v1/core/kv_cache_manager.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from servetwin.engine.admission import admit_waiting
from servetwin.engine.batch import DecodeBatch
from servetwin.engine.blocks import BlockPool
from servetwin.engine.in_order import schedule_in_order
from servetwin.engine.plan import PlannedStep
from servetwin.engine.prefix_cache import PrefixCache
from servetwin.engine.protocols import EngineSettings, KVConnector, Scheduler
from servetwin.engine.states import DECODING, ENDING, OUTSIDE, PAUSED, WAITING
from servetwin.engine.waiting import FcfsQueue, KeyedQueue, WaitingQueue
from servetwin.physics.protocols import StepShape, StepTime
from servetwin.request import COMPLETED, Request


class Rank:
    """Requests, blocks and planned steps of one rank.

    Args:
        settings: the engine's settings.
        step_time: prices the steps.
        scheduler: order of the waiting queue and choice of the victim.
        on_gap: told of each inter-token gap [ps] that spans more than one step.
        on_finished: told of each request that ends, with the visible time of its last token [ps].
        now: the simulated time [ps].
        on_returning: told when a request comes back from a connector, outside the steps.
        connector: where else cached blocks may lie, or None.
    """

    __slots__ = (
        "_ended",
        "_last",
        "_leavers",
        "_output_ps",
        "_padded",
        "_price",
        "admitted",
        "aside",
        "batch",
        "cache",
        "connector",
        "generated",
        "incoming",
        "next_output",
        "now",
        "on_finished",
        "on_gap",
        "on_returning",
        "paused",
        "pipeline",
        "pool",
        "prefilling",
        "rejoined",
        "released",
        "returning",
        "running",
        "scheduler",
        "settings",
        "stable",
        "tokens_held",
        "visible_ps",
        "waiting",
    )  # fmt: skip

    def __init__(
        self,
        settings: EngineSettings,
        step_time: StepTime,
        scheduler: Scheduler,
        on_gap: Callable[[int], None],
        on_finished: Callable[[Request, int], None],
        now: Callable[[], int],
        on_returning: Callable[[], None],
        connector: KVConnector | None = None,
    ) -> None:
        self.now = now
        self.on_returning = on_returning
        self.connector = connector
        self.settings = settings
        self.scheduler = scheduler
        self.on_gap = on_gap
        self.on_finished = on_finished
        self._price = step_time.price
        self._output_ps = settings.output_ps_per_request
        self._padded = _padding(settings.graph_sizes)
        self.pool = BlockPool(settings.num_blocks)
        self.cache = PrefixCache(self.pool, settings.block_size, settings.prefix_caching)
        self.batch = DecodeBatch(settings.block_size, step_time.windows)
        self.waiting: WaitingQueue = FcfsQueue() if scheduler.fcfs else KeyedQueue()
        #: Requests in the front end, by the time at which they reach the waiting queue.
        self.incoming: deque[Request] = deque()
        #: Requests for which a connector is at work, and those it has done, by when: they hold blocks but no seat.
        self.aside: dict[Request, None] = {}
        self.returning: deque[tuple[int, Request]] = deque()
        #: Requests with a seat, in order of admission.
        self.running: dict[Request, None] = {}
        self.prefilling: dict[Request, None] = {}
        #: Seats given so far: the next request's place in the order of admission.
        self.admitted = 0
        #: Decoding requests that sit out the last planned step, for want of budget.
        self.paused: list[Request] = []
        #: Decoding requests that sat out the step before the one being planned.
        self.rejoined: list[Request] | None = None
        #: Planned steps: (first step of its series, how many steps later this one comes).
        self.pipeline: deque[tuple[PlannedStep, int]] = deque()
        #: Whether the last plan would come out the same until something changes.
        self.stable = True
        self.next_output = 0
        #: When the last step's tokens became visible [ps].
        self.visible_ps = 0
        #: Output tokens so far of the requests that are here.
        self.generated = 0
        #: Tokens in the KV cache, summed over the requests with a seat.
        self.tokens_held = 0
        #: Tokens of KV cache that finished requests have released so far, what others still use not counted.
        self.released = 0
        self._last: PlannedStep | None = None
        #: By step: requests whose last token it yields, and those that sit out or lose their seat after it.
        self._ended: dict[int, list[Request]] = {}
        self._leavers: dict[int, list[Request]] = {}

    # -- planning ------------------------------------------------------------------------------------------------

    def plan_ahead(self, now: int, ahead: int) -> None:
        """Plan, as of ``now`` [ps], until ``ahead`` steps are planned or there is nothing more to do."""
        while len(self.pipeline) < ahead:
            # A plan that only preempted is made again at once if there is nothing to run meanwhile.
            if not (self._plan(now) or (not self.stable and not self.pipeline)):
                return

    def plan_late(self, now: int, ahead: int) -> None:
        """Make the plans of an earlier instant ``now`` [ps], at which the step that has just ended was still to run."""
        while len(self.pipeline) < ahead and self._plan(now):
            pass

    def _plan(self, now: int) -> bool:
        batch = self.batch
        incoming = self.incoming
        while incoming and incoming[0].queued_ps <= now:
            self._enter(incoming.popleft())
        if self.returning:
            self._return(now)
        if self.paused:
            self._rejoin()
        finishes = batch.finishes
        if finishes and finishes[0][0] <= batch.step:
            self._retire()
        last = self._last
        if last is None or last.version != batch.version or self.waiting:
            return self._plan_anew(now)
        # Nothing has changed since the step before: one more of the same series.
        need = batch.new_blocks(1)
        if need:
            if need > self.pool.free:
                return self._plan_anew(now)
            self.pool.take(need)
        self.stable = True
        last.repeats += 1
        self.pipeline.append((last, last.repeats))
        self.tokens_held += batch.size
        batch.advance(1)
        return True

    def _plan_anew(self, now: int) -> bool:
        """Both passes of vLLM's ``schedule``; False if they find no work."""
        batch = self.batch
        chunks: list[tuple[Request, int]] = []
        preempted = False
        self._last = None
        budget = self.settings.max_num_batched_tokens - batch.size
        need = batch.new_blocks(1)
        if need > self.pool.free or (self.prefilling and not self._take_chunks(budget, need, chunks)):
            budget, preempted = schedule_in_order(self, chunks)
        else:
            if need:
                self.pool.take(need)
            for request, want in chunks:
                budget -= want
                self.cache.hold(request, -(-(request.computed + want) // self.settings.block_size))
        for request, want in chunks:
            self.fill(request, want)
        if self.waiting and budget > 0 and not preempted:
            admit_waiting(self, now, budget, chunks)
        self.stable = not preempted
        if chunks:
            self._commit_mixed(chunks)
        elif batch.size:
            self._commit_decodes()
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

    def _commit_decodes(self) -> None:
        """Make a step of decodes only, and move the state on to the one after it."""
        batch = self.batch
        size = batch.size
        padded = self._padded
        graph = size < len(padded)
        contexts, growing = self._contexts()
        shape = StepShape(size, padded[size] if graph else size, graph, size, size, contexts, growing)
        self.tokens_held += size
        rejoined = self.rejoined or None
        self.rejoined = None
        self._last = step = PlannedStep(
            shape, self._price(shape), batch.version, self.in_use(), self.released, rejoined, None, 0
        )
        self.pipeline.append((step, 0))
        batch.advance(1)

    def _commit_mixed(self, chunks: list[tuple[Request, int]]) -> None:
        """Make a step with prefill chunks, and move the state on to the one after it."""
        batch = self.batch
        completing: list[Request] = []
        sizes = []
        tokens = batch.size
        recomputed = 0
        for request, want in chunks:
            sizes.append((want, request.computed))
            request.computed += want
            tokens += want
            if request.recompute_left:
                again = min(want, request.recompute_left)
                request.recompute_left -= again
                recomputed += again
            if request.computed == request.target:
                completing.append(request)
        padded = self._padded
        graph = tokens < len(padded)
        contexts, growing = self._contexts()
        shape = StepShape(
            tokens, padded[tokens] if graph else tokens, graph, batch.size + len(chunks), batch.size, contexts, growing,
            tuple(sizes),
        )  # fmt: skip
        self.tokens_held += tokens
        rejoined = self.rejoined or None
        self.rejoined = None
        step = PlannedStep(
            shape, self._price(shape), batch.version, self.in_use(), self.released, rejoined, completing, recomputed
        )
        self.pipeline.append((step, 0))
        batch.advance(1)
        batch.version += 1
        for request in completing:
            self._prefilled(request)

    def _contexts(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Per attention kind, the context of the batch and how many of its requests grow."""
        batch = self.batch
        if not batch.windows:
            return (batch.context,), (batch.size,)
        return (
            (batch.context, *(window.context for window in batch.windows)),
            (batch.size, *(window.growing for window in batch.windows)),
        )

    def give(self, request: Request, want: int) -> None:
        """Blocks for the request's next ``want`` tokens, which can be found from now on."""
        self.cache.hold(request, -(-(request.computed + want) // self.settings.block_size))
        self.fill(request, want)

    def fill(self, request: Request, want: int) -> None:
        """The next ``want`` tokens of a prefilling request are about to be computed."""
        self.cache.fill(request, request.computed + want)
        if self.connector is not None:
            self.connector.saved(request, request.computed + want)

    def _commit(self, chunks: list[tuple[Request, int]]) -> None:
        """Make the step, and move the state on to the one after it."""
        batch = self.batch
        completing: list[Request] = []
        sizes = []
        tokens = batch.size
        recomputed = 0
        for request, want in chunks:
            sizes.append((want, request.computed))
            request.computed += want
            tokens += want
            if request.recompute_left:
                again = min(want, request.recompute_left)
                request.recompute_left -= again
                recomputed += again
            if request.computed == request.target:
                completing.append(request)
        padded = self._padded[tokens] if tokens < len(self._padded) else tokens
        contexts: tuple[int, ...] = (batch.context,)
        growing: tuple[int, ...] = (batch.size,)
        for window in batch.windows:
            contexts += (window.context,)
            growing += (window.growing,)
        shape = StepShape(
            tokens, padded, tokens < len(self._padded), batch.size + len(chunks), batch.size, contexts, growing,
            tuple(sizes),
        )  # fmt: skip
        self.tokens_held += tokens
        held = self.in_use()
        step = PlannedStep(
            shape,
            self._price(shape),
            batch.version,
            held,
            self.released,
            completing or None,
            self.rejoined or None,
            recomputed,
        )
        self.rejoined = None
        self.pipeline.append((step, 0))
        batch.advance(1)
        if chunks:
            batch.version += 1
            for request in completing:
                self._prefilled(request)
        else:
            self._last = step

    def _prefilled(self, request: Request) -> None:
        """The step just planned completes the request's prompt and yields a token."""
        self.prefilling.pop(request, None)
        request.produced += 1
        if request.produced == request.output_tokens:
            request.state = ENDING
            self._ended.setdefault(self.batch.step - 1, []).append(request)
        else:
            request.state = DECODING
            self.batch.join(request)

    def _enter(self, request: Request) -> None:
        request.state = WAITING
        self.waiting.push(request, self._key(request))

    def _key(self, request: Request) -> Any:
        """The place of a request that enters the waiting queue, where that is not a matter of arrival."""
        scheduler = self.scheduler
        if scheduler.fcfs:
            return None
        cached = 0
        if scheduler.reads_cache:
            found, _ = self.cache.look_up(request, request.prompt_tokens + request.produced)
            cached = found * self.settings.block_size
        return scheduler.order(request, cached)

    def _return(self, now: int) -> None:
        """Requests come back from the connector, with their blocks."""
        while self.returning and self.returning[0][0] <= now:
            request = self.returning.popleft()[1]
            del self.aside[request]
            self.waiting.push_preempted(request, self._key(request))

    def _rejoin(self) -> None:
        """Requests that sat out the step before decode again."""
        for request in self.paused:
            request.state = DECODING
            self.batch.join(request)
        self.rejoined = self.paused
        self.paused = []

    def _retire(self) -> None:
        """Take requests whose last token is in flight out of the batch; they keep their seats and blocks."""
        batch = self.batch
        done = batch.retire()
        for request in done:
            request.state = ENDING
        if done:
            self._ended.setdefault(batch.step - 1, []).extend(done)

    # -- preemption ----------------------------------------------------------------------------------------------

    def pause(self, request: Request) -> None:
        """The decoding request finds no budget in the step being planned."""
        self.batch.leave(request)
        request.state = PAUSED
        self.paused.append(request)
        if not self._sat_out(request):
            self._leaves(request)

    def preempt(self, request: Request, blocks_of_this_step: int) -> None:
        """Take everything from a running request and queue it again; its generated tokens stay known.

        Args:
            request: the victim.
            blocks_of_this_step: blocks that it got in the plan that now gives it up.
        """
        batch = self.batch
        size = self.settings.block_size
        if request.state == DECODING:
            batch.leave(request)
            if not self._sat_out(request):
                self._leaves(request)
        else:
            self.prefilling.pop(request, None)
        filled = request.computed
        if request.join_step >= 0:
            request.held = -(-request.computed // size) + blocks_of_this_step
            # Blocks that decode steps fill can be found from the end of those steps.
            filled -= batch.step - max(request.join_step, self.next_output)
        self.tokens_held -= request.computed
        self.cache.release(request, filled // size, returns=True)
        del self.running[request]
        request.preempted_at = request.computed
        request.computed = 0
        request.join_step = -1
        request.recompute_left = 0
        request.preemptions += 1
        if request.state != ENDING:
            request.state = WAITING
        self.waiting.push_preempted(request, self._key(request))

    def _sat_out(self, request: Request) -> bool:
        """Whether the request sat out the step before; then it has left no token there."""
        if self.rejoined and request in self.rejoined:
            self.rejoined.remove(request)
            return True
        return False

    def _leaves(self, request: Request) -> None:
        """Remember when the request's last token becomes visible, for the gap up to its next one."""
        step = self.batch.step - 1
        if step < self.next_output:
            request.last_token_ps = self.visible_ps
        else:
            self._leavers.setdefault(step, []).append(request)

    # -- outputs -------------------------------------------------------------------------------------------------

    def complete(self, step: PlannedStep, end_ps: int) -> None:
        """The output of ``step`` is there: stamp its tokens and let go of the requests that it ends."""
        index = self.next_output
        self.next_output = index + 1
        visible = end_ps + self._output_ps * step.shape.requests
        if visible < self.visible_ps:
            visible = self.visible_ps
        self.visible_ps = visible
        self.generated += step.emitted
        if self.batch.step == index + 1:
            # Nothing is planned beyond this step (depth 0): its last decodes have not been retired yet.
            self._retire()
        if step.late is not None:
            for request in step.late:
                self.on_gap(visible - request.last_token_ps)
        if step.completing is not None:
            for request in step.completing:
                self._first_or_resumed_token(request, end_ps, visible)
        if self._leavers:
            for request in self._leavers.pop(index, ()):
                request.last_token_ps = visible
        ended = self._ended.pop(index, None)
        if ended is not None:
            if len(ended) > 1:
                ended.sort(key=_admission_order)
            for request in ended:
                self._finish(request, visible)

    def in_use(self) -> int:
        """Tokens in the KV cache, those that several requests share counted once."""
        return self.tokens_held - self.pool.overlap * self.settings.block_size

    def skip_outputs(self, step: PlannedStep, count: int) -> None:
        """The outputs of ``count`` steps inside a series, in which nobody ends, are there."""
        self.next_output += count
        self.generated += count * step.emitted

    def _first_or_resumed_token(self, request: Request, end_ps: int, visible: int) -> None:
        if request.first_token_ps < 0:
            request.first_token_ps = visible
            request.prefill_done_ps = end_ps
        else:
            self.on_gap(visible - request.last_token_ps)
        request.last_token_ps = visible

    def _finish(self, request: Request, visible: int) -> None:
        if request in self.running:
            size = self.settings.block_size
            del self.running[request]
            request.held = -(-request.computed // size)
            if self.connector is not None:
                self.connector.finished(request)
            before = self.in_use()
            self.tokens_held -= request.computed
            self.cache.release(request, request.computed // size, returns=False)
            self.released += before - self.in_use()
        else:
            # Preempted while its last token was on the way.
            self.waiting.remove(request)
            request.own = None
        self.generated -= request.output_tokens
        request.last_token_ps = visible
        request.outcome = COMPLETED
        request.state = OUTSIDE
        self.on_finished(request, visible)

    # -- series --------------------------------------------------------------------------------------------------

    def further_steps(self, step: PlannedStep) -> int:
        """How many steps beyond the planned ones would continue the series of ``step`` if nobody came."""
        batch = self.batch
        if batch.version != step.version:
            return 0
        limit = min(batch.next_finish(), batch.next_crossing()) - batch.step
        return batch.steps_within(self.pool.free, limit) if limit > 0 else 0

    def plan_series(self, step: PlannedStep, count: int) -> None:
        """Plan ``count`` more steps of the series of ``step`` at once (at most ``further_steps``)."""
        batch = self.batch
        if not count:
            return
        self.pool.take(batch.new_blocks(count))
        self.tokens_held += count * batch.size
        step.repeats += count
        batch.advance(count)

    def admits(self) -> bool:
        """Whether a request that arrives now could be admitted before something else changes."""
        if self.scheduler.reads_cache:
            return True
        if len(self.running) >= self.settings.max_num_seqs:
            return False
        return not (self.scheduler.fcfs and self.waiting)


def _admission_order(request: Request) -> int:
    return request.order


def _padding(graph_sizes: tuple[int, ...]) -> list[int]:
    """By number of tokens, the smallest captured size that holds them."""
    padded: list[int] = [0] if graph_sizes else []
    for size in graph_sizes:
        padded.extend([size] * (size + 1 - len(padded)))
    return padded
