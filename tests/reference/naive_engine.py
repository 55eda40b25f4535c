"""An engine that is too simple to be wrong: a loop over the batch in each step, an object per block, a stamp per token.

It follows the written rules of the engine and shares no code with the package: from ``servetwin`` it takes the
request, the settings and the price of a step, nothing else. The real engine must agree with it to the last picosecond.

Events at the same instant: arrivals by request id, then boundaries (ends of steps and wake-ups) by replica index.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from servetwin.engine.protocols import EngineSettings
from servetwin.physics.protocols import StepPrice, StepShape
from servetwin.request import Request

ARRIVAL = 0
BOUNDARY = 1

ROUND_ROBIN = "round-robin"
LEAST_REQUESTS = "least-requests"
LEAST_TOKENS = "least-tokens"
ROUTERS = (ROUND_ROBIN, LEAST_REQUESTS, LEAST_TOKENS)


def blocks_for(tokens: int, block_size: int) -> int:
    """How many blocks give ``tokens`` tokens their slots."""
    return -(-tokens // block_size)


class Job:
    """A request on its way, with everything that the naive engine knows about it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.id = request.id
        self.prompt = request.prompt_tokens
        self.output = request.output_tokens
        # What comes out.
        self.replica = -1
        self.queued_ps = -1
        self.scheduled_ps = -1
        self.prefill_done_ps = -1
        self.hit_tokens = 0
        self.recomputed_tokens = 0
        self.preemptions = 0
        self.outcome = "unfinished"
        self.token_ps: list[int] = []
        # When a step's tokens became visible: one stamp for each step that yielded some.
        self.chunk_ps: list[int] = []
        self.drafted_tokens = 0
        self.accepted_tokens = 0
        # Tokens by what happened to them, for the tests of the naive engine itself.
        self.scheduled_tokens = 0
        self.found_tokens = 0
        self.lost_tokens = 0
        # Inside the engine.
        self.target = 0
        self.computed = 0
        self.computed_at_preemption = 0
        self.tokens_in_flight = 0
        # Those of them that decode steps yield.
        self.decoded_in_flight = 0
        self.blocks: list[Block] = []
        self.contents: list[int] = []
        self.victim_key: Any = None
        # Tokens that others yield and that are not stamped yet; whether it decodes although its last known token is
        # not computed; whether nobody sees its token.
        self.early = 0
        self.joined = False
        self.unseen = False

    @property
    def produced(self) -> int:
        return len(self.token_ps) + self.early

    @property
    def decodes(self) -> bool:
        return self.joined or self.computed >= self.target

    @property
    def first_token_ps(self) -> int:
        return self.token_ps[0] if self.token_ps else -1

    @property
    def last_token_ps(self) -> int:
        return self.token_ps[-1] if self.outcome == "completed" else -1

    def gaps(self) -> list[int]:
        """The inter-token latencies [ps], in order."""
        return [later - earlier for earlier, later in zip(self.chunk_ps, self.chunk_ps[1:], strict=False)]

    def token(self, position: int) -> tuple[Any, int]:
        """The identity of the token at ``position``: the stream that it comes from and its place in that stream."""
        request = self.request
        start = 0
        for key, length in request.segments:
            if position < start + length:
                return ("stream", key), position - start
            start += length
        if not request.segments and position < self.prompt:
            return ("prompt of", self.id), position
        if request.continues and request.segments:
            key, length = request.segments[-1]
            return ("stream", key), length + position - self.prompt
        return ("output of", self.id), position - self.prompt


class Block:
    """One KV block. ``content`` names the chain of tokens that it holds or is going to hold; None = anonymous."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.content: int | None = None
        self.filled = False
        self.users: list[Job] = []


class Pool:
    """The blocks of a replica: the free queue, and which block holds which content."""

    def __init__(self, settings: EngineSettings) -> None:
        self.size = settings.block_size
        self.caching = settings.prefix_caching
        # The null block is number 0 and is never handed out.
        self.free: OrderedDict[int, Block] = OrderedDict(
            (number, Block(number)) for number in range(1, settings.num_blocks)
        )
        self.by_content: dict[int, Block] = {}
        self.names: dict[tuple[int, tuple[tuple[Any, int], ...]], int] = {}

    def content(self, job: Job, index: int) -> int:
        """The name of the token chain 0 … (index + 1) · size: equal names, equal chains."""
        while len(job.contents) <= index:
            i = len(job.contents)
            parent = job.contents[-1] if i else -1
            span = tuple(job.token(position) for position in range(i * self.size, (i + 1) * self.size))
            job.contents.append(self.names.setdefault((parent, span), len(self.names)))
        return job.contents[index]

    def existing(self, job: Job, index: int) -> Block | None:
        """The block that already holds, or will hold, the known content ``index`` of the job."""
        if not self.caching or (index + 1) * self.size > job.target:
            return None
        return self.by_content.get(self.content(job, index))

    def lookup(self, job: Job, target: int) -> int:
        """Tokens found of a request with ``target`` known tokens."""
        if not self.caching:
            return 0
        run = 0
        while run < (target - 1) // self.size:
            block = self.by_content.get(self.content(job, run))
            if block is None or not block.filled:
                break
            run += 1
        return run * self.size

    def needed(self, job: Job, tokens: int) -> int:
        """How many blocks leave the free queue when the job's first ``tokens`` tokens get their slots."""
        count = 0
        for index in range(len(job.blocks), blocks_for(tokens, self.size)):
            block = self.existing(job, index)
            if block is None or not block.users:
                count += 1
        return count

    def allocate(self, job: Job, tokens: int) -> None:
        """Give the job's first ``tokens`` tokens their slots."""
        for index in range(len(job.blocks), blocks_for(tokens, self.size)):
            block = self.existing(job, index)
            if block is None:
                block = self._pop()
                if self.caching and (index + 1) * self.size <= job.target:
                    block.content = self.content(job, index)
                    self.by_content[block.content] = block
            elif not block.users:
                del self.free[block.number]
            block.users.append(job)
            job.blocks.append(block)

    def _pop(self) -> Block:
        _, block = self.free.popitem(last=False)
        assert not block.users
        if block.content is not None:
            del self.by_content[block.content]
        block.content, block.filled = None, False
        return block

    def fill(self, job: Job) -> None:
        """What the job has planned or computed can be found from now on, as far as its tokens were known."""
        for index in range(min(job.computed, job.target) // self.size):
            block = job.blocks[index]
            if block.content is not None:
                block.filled = True

    def release(self, job: Job, full_tokens: int) -> None:
        """Take all blocks from the job; full blocks of its first ``full_tokens`` tokens can be found afterwards."""
        if self.caching:
            for index in range(full_tokens // self.size):
                block = job.blocks[index]
                content = self.content(job, index)
                if block.content is None and content not in self.by_content:
                    block.content, block.filled = content, True
                    self.by_content[content] = block
        for block in reversed(job.blocks):
            block.users.remove(job)
            if not block.users:
                if block.content is not None and not block.filled:
                    del self.by_content[block.content]
                    block.content = None
                self.free[block.number] = block
        job.blocks = []


@dataclass
class Entry:
    """One request in one step: ``gain`` is how many output tokens it gets from it."""

    job: Job
    tokens: int
    before: int
    decode: bool
    gain: int
    drafted: int = 0
    accepted: int = 0


class Plan(list[Entry]):
    """A step that is planned.

    Attributes:
        drafts: tokens that it drafts at its end, per request.
        held: tokens of KV cache in use when it was planned, its own included.
        released: what requests had released until then by finishing.
    """

    drafts = 0
    held = 0
    released = 0


@dataclass
class Step:
    """A step that ran, as the tests see it."""

    start_ps: int
    duration_ps: int
    tokens: int
    decodes: int
    chunks: tuple[tuple[int, int], ...]
    context: int
    emitted: int
    visible_ps: int
    price: StepPrice
    ids: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0
    held: int = -1


class Replica:
    """One replica: front end, waiting queue, running list, pipeline of planned steps."""

    def __init__(self, index: int, settings: EngineSettings, step_time: Any, scheduler: Any, cluster: Cluster) -> None:
        assert settings.max_num_batched_tokens >= settings.max_num_seqs
        self.index = index
        self.settings = settings
        self.step_time = step_time
        self.scheduler = scheduler
        self.cluster = cluster
        self.pool = Pool(settings)
        self.front_end: deque[Job] = deque()
        self.waiting: list[Job] = []
        self.waiting_keys: dict[int, Any] = {}
        self.entered = 0
        self.running: list[Job] = []
        self.pipeline: list[Plan] = []
        self.current: list[Entry] | None = None
        #: Tokens of KV cache that finished requests have released so far, what others still use not counted.
        self.released = 0
        self.last_queued_ps = 0
        self.last_visible_ps = 0
        self.steps: list[Step] = []
        # What the router sees: requests routed here and not yet finished.
        self.present: dict[int, Job] = {}

    # -- arrival ---------------------------------------------------------------------------------------------

    def submit(self, job: Job, now: int) -> bool:
        """Take a request in; False if it can never fit."""
        settings = self.settings
        longest = blocks_for(job.prompt + job.output - 1, settings.block_size)
        if job.prompt + job.output > settings.max_model_len or longest > settings.num_blocks - 1:
            job.outcome = "rejected"
            return False
        delay = settings.front_end_ps + settings.front_end_per_token_ps * job.prompt
        job.queued_ps = self.last_queued_ps = max(now + delay, self.last_queued_ps)
        self.front_end.append(job)
        if self.current is None and len(self.front_end) == 1:
            self.cluster.push(job.queued_ps, BOUNDARY, self.index, self)
        return True

    def enter_queue(self, job: Job, preempted: bool) -> None:
        """Into the waiting queue."""
        self.entered += 1
        if self.scheduler.fcfs:
            self.waiting.insert(0 if preempted else len(self.waiting), job)
            return
        cached = self.pool.lookup(job, job.prompt + job.produced)
        self.waiting_keys[job.id] = (self.scheduler.order(job.request, cached), self.entered)
        self.waiting.append(job)
        self.waiting.sort(key=lambda each: self.waiting_keys[each.id])

    # -- the loop --------------------------------------------------------------------------------------------

    def boundary(self, now: int) -> None:
        """The running step ends, or an idle engine wakes."""
        if self.current is not None:
            entries, self.current = self.current, None
            self.outputs(entries, now)
        while len(self.pipeline) < self.settings.depth + 1:
            while self.front_end and self.front_end[0].queued_ps <= now:
                self.enter_queue(self.front_end.popleft(), preempted=False)
            entries, preempted = self.plan(now)
            if entries:
                self.pipeline.append(entries)
            elif not (preempted and not self.pipeline):
                break
            # A plan that only preempted, with nothing to run meanwhile, is repeated at once.
        if self.pipeline:
            self.start(self.pipeline.pop(0), now)
        elif self.front_end:
            self.cluster.push(self.front_end[0].queued_ps, BOUNDARY, self.index, self)

    def start(self, entries: Plan, now: int) -> None:
        shape = self.shape(entries)
        price = self.step_time.price(shape)
        end = now + price.total_ps
        visible = max(end + self.settings.output_ps_per_request * len(entries), self.last_visible_ps)
        self.last_visible_ps = visible
        emitted = sum(entry.gain for entry in entries if not entry.job.unseen)
        ids = tuple(entry.job.id for entry in entries)
        self.steps.append(
            Step(now, price.total_ps, shape.tokens, shape.decodes, shape.chunks, shape.context[0], emitted, visible,
                 price, ids, shape.drafted, sum(entry.accepted for entry in entries),
                 entries.held + entries.released - self.released)
        )  # fmt: skip
        self.current = entries
        self.cluster.push(end, BOUNDARY, self.index, self)

    def outputs(self, entries: list[Entry], now: int) -> None:
        visible = self.steps[-1].visible_ps
        for entry in entries:
            job = entry.job
            if not entry.gain:
                continue
            job.decoded_in_flight -= entry.gain * entry.decode
            job.tokens_in_flight -= entry.gain
            job.token_ps += [visible] * entry.gain
            job.chunk_ps.append(visible)
            if job.prefill_done_ps < 0:
                job.prefill_done_ps = now
            if job.produced == job.output:
                self.finish(job, now, visible)

    def finish(self, job: Job, now: int, visible: int) -> None:
        if job in self.running:
            self.running.remove(job)
            assert job.computed == job.prompt + job.output - 1
            if not self.keeps(job, now):
                before = job.computed + self.used()
                self.pool.release(job, job.computed)
                self.released += before - self.used()
        else:
            self.waiting.remove(job)
        job.outcome = "completed"
        self.cluster.finished(self, job, now, visible)

    # -- a plan ----------------------------------------------------------------------------------------------

    def plan(self, now: int) -> tuple[Plan, bool]:
        """The next step, and whether somebody was preempted for it."""
        step = Plan()
        budget, preempted = self.plan_running(step, self.settings.max_num_batched_tokens)
        for entry in step:
            self.pool.fill(entry.job)
        if not preempted:
            self.plan_waiting(step, budget, now)
        step.held = self.used() + sum(entry.drafted + 1 - entry.gain for entry in step if entry.decode)
        step.released = self.released
        return step, preempted

    def used(self) -> int:
        """Tokens in the KV cache, those of shared blocks counted once."""
        blocks = {block.number: block for job in self.running for block in job.blocks}
        shared = sum(len(block.users) - 1 for block in blocks.values())
        return sum(job.computed for job in self.running) - shared * self.settings.block_size

    def plan_running(self, step: list[Entry], budget: int) -> tuple[int, bool]:
        """Pass 1. The budget that is left, and whether somebody was preempted."""
        threshold = self.settings.long_prefill_token_threshold
        preempted = False
        index = 0
        while index < len(self.running) and budget > 0:
            job = self.running[index]
            if self.passed_over(job, step):
                index += 1
                continue
            decode = job.decodes
            want = self.decode_tokens(job) if decode else job.target - job.computed
            if threshold > 0 and not decode:
                want = min(want, threshold)
            want = min(want, budget)
            slots = job.computed + want + (self.lookahead if decode else 0)
            while self.pool.needed(job, slots) > len(self.pool.free):
                victim = self.victim()
                preempted = True
                if self.keeps_blocks(victim):
                    return budget, preempted
                if self.running.index(victim) < index:
                    index -= 1
                budget += self.preempt(victim, step)
                if victim is job:
                    return budget, preempted
            self.pool.allocate(job, slots)
            self.schedule(job, want, step)
            budget -= want
            index += 1
        return budget, preempted

    #: Slots that a request holds beyond those of its step while it decodes.
    lookahead = 0

    def decode_tokens(self, job: Job) -> int:
        """Tokens that a job that decodes has in a step, if the budget lets it."""
        return 1

    def found(self, job: Job) -> int:
        """Tokens of a waiting job that need not be computed."""
        return self.pool.lookup(job, job.target)

    def keeps(self, job: Job, now: int) -> bool:
        """Whether the blocks of a job that ends are kept for others."""
        return False

    def passed_over(self, job: Job, step: list[Entry]) -> bool:
        """Whether a running job gets nothing in this step, whatever there is: its last token is on the way."""
        return job.produced + job.tokens_in_flight == job.output

    def keeps_blocks(self, job: Job) -> bool:
        """Whether nobody may take the blocks of a running job now."""
        return False

    def plan_waiting(self, step: list[Entry], budget: int, now: int) -> None:
        """Pass 2."""
        settings = self.settings
        while self.waiting and budget > 0 and len(self.running) < settings.max_num_seqs:
            job = self.waiting[0]
            assert job.tokens_in_flight == 0
            job.target = job.prompt + job.produced
            found = self.found(job)
            want = job.target - found
            if settings.long_prefill_token_threshold > 0:
                want = min(want, settings.long_prefill_token_threshold)
            if not settings.chunked_prefill and want > budget:
                return
            want = min(want, budget)
            need = self.pool.needed(job, job.target if settings.reserve_full_prompt else found + want)
            if step:
                need += settings.watermark_blocks
            if need > len(self.pool.free):
                return
            self.waiting.pop(0)
            self.admit(job, found, now)
            self.pool.allocate(job, found + want)
            self.schedule(job, want, step)
            self.pool.fill(job)
            budget -= want

    def admit(self, job: Job, found: int, now: int) -> None:
        """Onto the running list."""
        if job.scheduled_ps < 0:
            job.scheduled_ps = now
            job.hit_tokens = found
        job.recomputed_tokens += max(0, min(job.computed_at_preemption, job.target) - found)
        job.computed = found
        job.found_tokens += found
        job.victim_key = self.scheduler.victim(job.request)
        self.running.append(job)

    def schedule(self, job: Job, want: int, step: list[Entry]) -> None:
        if job.decodes:
            entry = self.decoding(job, want)
            job.computed += entry.gain
            job.decoded_in_flight += entry.gain
        else:
            entry = Entry(job, want, job.computed, decode=False, gain=int(job.computed + want == job.target))
            job.computed += want
        job.scheduled_tokens += want
        job.tokens_in_flight += entry.gain
        step.append(entry)

    def decoding(self, job: Job, want: int) -> Entry:
        """What a job that decodes gets from ``want`` tokens."""
        return Entry(job, want, job.computed, decode=True, gain=1)

    def victim(self) -> Job:
        last = self.running[-1]
        if self.scheduler.fcfs or last.victim_key is None:
            return last
        place = max(range(len(self.running)), key=lambda i: (self.running[i].victim_key, i))
        return self.running[place]

    def preempt(self, job: Job, step: list[Entry]) -> int:
        """Back to the waiting queue. The tokens that return to the budget, if it was in the step already."""
        returned = 0
        for entry in step:
            if entry.job is job:
                returned = entry.tokens
                job.computed = entry.before
                job.scheduled_tokens -= entry.tokens
                job.tokens_in_flight -= entry.gain
                job.decoded_in_flight -= entry.gain * entry.decode
        step[:] = [entry for entry in step if entry.job is not job]
        self.running.remove(job)
        job.computed_at_preemption = job.computed
        job.lost_tokens += job.computed
        self.pool.release(job, job.computed - job.decoded_in_flight)
        job.computed = 0
        job.joined = False
        job.preemptions += 1
        self.enter_queue(job, preempted=True)
        return returned

    def shape(self, entries: list[Entry]) -> StepShape:
        windows = self.step_time.windows
        tokens = sum(entry.tokens for entry in entries)
        reads = [entry.before + 1 for entry in entries if entry.decode]
        context = [sum(reads)]
        growing = [len(reads)]
        for window in windows:
            context.append(sum(min(read, window) for read in reads))
            growing.append(sum(read < window for read in reads))
        padded = next((size for size in self.settings.graph_sizes if size >= tokens), None)
        return StepShape(
            tokens=tokens,
            padded_tokens=tokens if padded is None else padded,
            graph=padded is not None,
            requests=len(entries),
            decodes=len(reads),
            context=tuple(context),
            growing=tuple(growing),
            chunks=tuple((entry.tokens, entry.before) for entry in entries if not entry.decode),
        )


@dataclass
class NaiveResult:
    """What a run leaves behind."""

    jobs: dict[int, Job]
    steps: list[list[Step]]
    itl_ps: list[int]
    blocks_free: list[int]
    ledger: dict[str, int]
    end_ps: int
    replicas: list[Replica] = field(repr=False)

    @property
    def number_of_steps(self) -> int:
        return sum(len(steps) for steps in self.steps)


class Cluster:
    """Replicas behind a router.

    Args:
        replicas: settings, step time and scheduler of each replica.
        router: one of ``ROUTERS``.
        follow_up: called at the end of each completed request with the visible time of its last token [ps]; the
            requests that this end causes. They must arrive at least 1 ps after the end of the step.
    """

    def __init__(
        self,
        replicas: Sequence[tuple[EngineSettings, Any, Any]],
        router: str = ROUND_ROBIN,
        follow_up: Callable[[Request, int], Sequence[Request]] = lambda request, visible_ps: (),
    ) -> None:
        self.replicas = [self.replica(i, *parts) for i, parts in enumerate(replicas)]
        self.router = router
        self.follow_up = follow_up
        self.heap: list[tuple[int, int, int, Any]] = []
        self.jobs: dict[int, Job] = {}
        self.routed = 0

    def replica(self, index: int, settings: EngineSettings, step_time: Any, scheduler: Any) -> Replica:
        return Replica(index, settings, step_time, scheduler, self)

    def push(self, time_ps: int, event_class: int, index: int, what: Any) -> None:
        heapq.heappush(self.heap, (time_ps, event_class, index, what))

    def arrive(self, request: Request) -> None:
        job = Job(request)
        assert job.id not in self.jobs
        self.jobs[job.id] = job
        self.push(request.arrival_ps, ARRIVAL, job.id, job)

    def choose(self) -> Replica:
        """The router: ties go to the smallest index."""
        self.routed += 1
        if self.router == ROUND_ROBIN:
            return self.replicas[(self.routed - 1) % len(self.replicas)]
        if self.router == LEAST_REQUESTS:
            return min(self.replicas, key=lambda replica: len(replica.present))
        assert self.router == LEAST_TOKENS
        return min(
            self.replicas,
            key=lambda replica: sum(job.prompt + job.produced for job in replica.present.values()),
        )

    def finished(self, replica: Replica, job: Job, now: int, visible: int) -> None:
        del replica.present[job.id]
        for follower in self.follow_up(job.request, visible):
            assert follower.arrival_ps > now
            self.arrive(follower)

    def run(self, requests: Sequence[Request], check: Callable[[Cluster, int], None] | None = None) -> NaiveResult:
        """Run until nothing is left to do. ``check`` is called after each event."""
        for request in requests:
            self.arrive(request)
        now = 0
        while self.heap:
            time_ps, event_class, _, what = heapq.heappop(self.heap)
            assert time_ps >= now
            now = time_ps
            if event_class == ARRIVAL:
                replica = self.choose()
                what.replica = replica.index
                if replica.submit(what, now):
                    replica.present[what.id] = what
            else:
                what.boundary(now)
            if check is not None:
                check(self, now)
        return self.result(now)

    def result(self, end_ps: int) -> NaiveResult:
        ledger = dict.fromkeys(("compute", "memory", "communication", "host"), 0)
        for replica in self.replicas:
            for step in replica.steps:
                for part in ledger:
                    ledger[part] += getattr(step.price, part + "_ps")
        return NaiveResult(
            jobs=self.jobs,
            steps=[replica.steps for replica in self.replicas],
            itl_ps=[gap for job in self.jobs.values() for gap in job.gaps()],
            blocks_free=[len(replica.pool.free) for replica in self.replicas],
            ledger=ledger,
            end_ps=end_ps,
            replicas=self.replicas,
        )
