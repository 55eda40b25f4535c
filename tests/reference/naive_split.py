"""Prefill and decode on different replicas in the naive engine: a prefill is a job of its own, transfers are fluid.

Events at the same instant: arrivals, ends of transfers, boundaries, hand-overs; each by the index of whose they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from tests.reference.naive_deciders import Decider
from tests.reference.naive_drafting import DraftingReplica, Drafts
from tests.reference.naive_engine import BOUNDARY, Cluster, Job, Plan, Replica, blocks_for
from tests.reference.naive_fabric import rates
from tests.reference.naive_pipeline import PipelinedReplica

from servetwin.request import Request

FLOW_END = 0.5
HAND_OVER = 1.5
PS_PER_S = 10**12

PREFILL, DECODE, BOTH = "prefill", "decode", "both"


@dataclass(frozen=True)
class HandOvers:
    """How KV cache is handed over.

    Attributes:
        mode: pull, stream or push.
        regenerates: whether the decoding replica yields the first token.
        decode_first: whether it is chosen first.
        policy: who decides whether a request is split, as in a scenario.
        setup_ps, block_ps, lease_ps, retry_ps: times.
        block_size: of the blocks that are moved [tokens].
        retries: how often a failed transfer is begun again.
        fails: whether an attempt fails, by request and number.
        gives_up: whether a request fails when its transfer does.
        layers: of the model.
        legs: by pair of replicas, ``(path, bytes of KV cache per token, share of the links that it gets)``.
        onward: by replica, the same from CPU memory.
        capacities, latencies_ps: of the links.
    """

    mode: str
    regenerates: bool
    decode_first: bool
    policy: dict[str, Any]
    setup_ps: int
    block_ps: int
    lease_ps: int
    retry_ps: int
    block_size: int
    retries: int
    fails: Callable[[int, int], bool]
    gives_up: bool
    layers: int
    legs: Callable[[int, int], Sequence[tuple[tuple[int, ...], float, float]]]
    onward: Callable[[int], Sequence[tuple[tuple[int, ...], float, float]]]
    capacities: dict[int, int]
    latencies_ps: dict[int, int]


class Way:
    """One request on its way from one replica to another."""

    def __init__(self, job: Job, prefill: Job) -> None:
        self.job, self.prefill = job, prefill
        self.source: SplitReplica | None = None
        self.target: SplitReplica | None = None
        self.at_target = False
        self.prefilled = self.fetched = self.kept = self.over = self.closed = self.failing = False
        self.reserved = False
        self.computed = self.sent = self.found = self.flying = self.attempts = self.bytes = 0
        self.ready_ps = self.layers_end_ps = self.start_ps = self.end_ps = -1
        self.queued_ps = self.scheduled_ps = -1


class Flows:
    """Fluid transfers: rates are divided anew whenever one begins or has been sent."""

    def __init__(self, cluster: SplitCluster) -> None:
        self.cluster = cluster
        self.flows: list[list[Any]] = []
        self.since = 0
        self.version = 0

    def send(self, path: tuple[int, ...], size: int, index: int, done: Callable[[], None], now: int) -> None:
        self.move(now)
        latency = sum(self.cluster.rules.latencies_ps[link] for link in path)
        if not path or size <= 0:
            self.cluster.at(now + latency, FLOW_END, index, done)
            return
        self.flows.append([path, Fraction(size), Fraction(0), latency, index, done])
        self.divide(now)

    def move(self, now: int) -> None:
        for flow in self.flows:
            flow[1] -= flow[2] * (now - self.since) / PS_PER_S
        self.since = now
        ended = [flow for flow in self.flows if flow[1] <= 0]
        if ended:
            self.flows = [flow for flow in self.flows if flow[1] > 0]
            for _, _, _, latency, index, done in ended:
                self.cluster.at(now + latency, FLOW_END, index, done)
            self.divide(now)

    def divide(self, now: int) -> None:
        self.version += 1
        if not self.flows:
            return
        for flow, rate in zip(
            self.flows, rates([flow[0] for flow in self.flows], self.cluster.rules.capacities), strict=True
        ):
            flow[2] = rate
        first = min(now + ceil(left / rate * PS_PER_S) for _, left, rate, *_ in self.flows)
        version = self.version
        self.cluster.at(first, FLOW_END, -1, lambda: self.move(first) if version == self.version else None)


class SplitReplica(Replica):
    """A replica that lets its prefills be fetched, or fetches those of others."""

    cluster: SplitCluster

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.kept: list[Job] = []
        self.aside: list[Job] = []
        self.news: list[tuple[int, str, Job]] = []
        self.loaded: set[int] = set()

    def tell(self, now: int, what: str, job: Job, after: bool = False) -> None:
        # What comes after the boundaries of its instant is seen by the next plan of an engine that works.
        time_ps = now + (after and self.current is not None)
        self.news.append((time_ps, what, job))
        if self.current is None:
            self.cluster.push(time_ps, BOUNDARY, self.index, self)

    def submit(self, job: Job, now: int) -> bool:
        # An idle engine may have been woken for something else.
        idle = self.current is None
        taken = super().submit(job, now)
        if taken and idle and len(self.front_end) > 1:
            self.cluster.push(job.queued_ps, BOUNDARY, self.index, self)
        return taken

    def boundary(self, now: int) -> None:
        if self.current is not None and now < self.cluster.end_of_step[self.index]:
            return
        super().boundary(now)
        if self.current is None:
            for time_ps, _, _ in self.news:
                self.cluster.push(time_ps, BOUNDARY, self.index, self)

    def start(self, entries: Plan, now: int) -> None:
        super().start(entries, now)
        end = now + self.steps[-1].duration_ps
        self.cluster.end_of_step[self.index] = end
        self.tell_of_chunks(entries, now, end)

    def tell_of_chunks(self, entries: list[Any], now: int, end: int) -> None:
        if self.cluster.rules.mode == "pull":
            return
        for entry in entries:
            way = self.cluster.ways.get(id(entry.job))
            if way is not None and entry.job is way.prefill and not entry.decode:
                self.cluster.computing(way, entry.before + entry.tokens, now, end)

    def plan(self, now: int) -> tuple[Plan, bool]:
        self.take_in(now)
        return super().plan(now)

    def take_in(self, now: int) -> None:
        back = []
        for entry in [entry for entry in self.news if entry[0] <= now]:
            self.news.remove(entry)
            _, what, job = entry
            if what == "freed":
                self.kept.remove(job)
                self.pool.release(job, job.computed)
            elif what in ("loaded", "lost"):
                self.aside.remove(job)
                if what == "lost":
                    self.pool.release(job, job.computed)
                    job.computed_at_preemption = job.target - 1
                    job.computed = 0
                else:
                    self.loaded.add(job.id)
                back.append(job)
            elif what == "gone":
                if job in self.aside:
                    self.aside.remove(job)
                    self.pool.release(job, job.computed)
                elif job in self.waiting:
                    self.waiting.remove(job)
                    if job.id in self.loaded:
                        self.pool.release(job, job.computed)
                else:
                    self.front_end.remove(job)
        for job in sorted(back, key=lambda job: (job.queued_ps, job.id), reverse=True):
            self.enter_queue(job, preempted=True)

    def used(self) -> int:
        others = [*self.aside, *self.kept, *(job for job in self.waiting if job.id in self.loaded)]
        users = [*self.running, *others]
        blocks = {block.number: block for job in users for block in job.blocks}
        shared = sum(len(block.users) - 1 for block in blocks.values())
        tokens = sum(job.computed for job in self.running)
        tokens += sum(job.target - 1 if job in self.aside else job.computed for job in others)
        return tokens - shared * self.settings.block_size

    def keeps(self, job: Job, now: int) -> bool:
        way = self.cluster.ways.get(id(job))
        if way is None or job is not way.prefill or way.over or way.fetched:
            return False
        way.kept = True
        self.kept.append(job)
        return True

    def plan_waiting(self, step: list[Any], budget: int, now: int) -> None:
        settings = self.settings
        while self.waiting and budget > 0 and len(self.running) < settings.max_num_seqs:
            job = self.waiting[0]
            job.target = job.prompt + job.produced
            loaded = job.id in self.loaded
            found = job.computed if loaded else self.found(job)
            way = self.cluster.ways.get(id(job))
            external = 0
            if way is not None and job is way.job and not way.over and not loaded:
                external = job.target - 1 - found
                if external <= 0:
                    external = 0
                    self.cluster.unneeded(way, now)
            want = external or job.target - found
            if not external:
                if settings.long_prefill_token_threshold > 0:
                    want = min(want, settings.long_prefill_token_threshold)
                if not settings.chunked_prefill and want > budget:
                    return
                want = min(want, budget)
            slots = job.target if external or settings.reserve_full_prompt else found + want
            if loaded:
                slots = job.computed + 1 + self.lookahead
            need = self.pool.needed(job, slots)
            if step:
                need += settings.watermark_blocks
            if need > len(self.pool.free):
                behind = [other for other in self.waiting[1:] if other.id in self.loaded]
                if self.running or self.aside or self.kept or not behind:
                    return
                for other in behind:
                    self.loaded.remove(other.id)
                    self.pool.release(other, other.computed)
                    other.computed_at_preemption = other.computed
                    other.computed = 0
                continue
            self.waiting.pop(0)
            if external:
                assert way is not None
                job.computed = found
                self.pool.allocate(job, job.target)
                self.aside.append(job)
                self.cluster.reserved(way, found, now)
                continue
            if loaded:
                self.pool.allocate(job, job.computed + 1 + self.lookahead)
                self.loaded.remove(job.id)
                job.joined = True
                if job.scheduled_ps < 0:
                    job.scheduled_ps = now
                job.victim_key = self.scheduler.victim(job.request)
                self.running.append(job)
                self.schedule(job, 1, step)
                self.pool.fill(job)
                budget -= 1
                continue
            self.admit(job, found, now)
            self.pool.allocate(job, found + want)
            self.schedule(job, want, step)
            self.pool.fill(job)
            budget -= want


class SplitDraftingReplica(DraftingReplica, SplitReplica):
    """The same, which drafts."""


class SplitPipelinedReplica(PipelinedReplica, SplitReplica):
    """The same with stages."""

    def boundary(self, now: int) -> None:
        if self.in_flight and now < self.in_flight[0].ends[-1]:
            return
        # What comes back is over before anything is planned.
        self.current = self.in_flight[1].entries if len(self.in_flight) > 1 else None
        super().boundary(now)
        if not self.in_flight:
            for time_ps, _, _ in self.news:
                self.cluster.push(time_ps, BOUNDARY, self.index, self)

    def depart(self, entries: list[Any], now: int) -> None:
        super().depart(entries, now)
        self.tell_of_chunks(entries, now, self.in_flight[-1].ends[-1])


class SplitCluster(Cluster):
    """Replicas of different roles."""

    def __init__(self, replicas: Sequence[Any], roles: Sequence[str], routers: dict[str, str], rules: HandOvers,
                 follow_up: Any, drafts: Sequence[Drafts | None]) -> None:  # fmt: skip
        self.drafts = drafts
        self.rules = rules
        self.roles = roles
        self.routers = routers
        self.turns = dict.fromkeys(roles, 0)
        self.decider = Decider(self, rules.policy)
        self.ways: dict[int, Way] = {}
        self.flows = Flows(self)
        self.end_of_step = [0] * len(replicas)
        self.listed: list[Way] = []
        self.now = self.numbers = 0
        super().__init__(replicas, "round-robin", follow_up)

    def replica(self, index: int, settings: Any, step_time: Any, scheduler: Any) -> Replica:
        drafts = self.drafts[index]
        if drafts is not None:
            return SplitDraftingReplica(index, settings, step_time, scheduler, self, drafts)
        kind = SplitPipelinedReplica if settings.stages > 1 else SplitReplica
        return kind(index, settings, step_time, scheduler, self)

    def at(self, time_ps: int, event_class: float, index: int, call: Callable[[], None]) -> None:
        self.push(time_ps, event_class, index, _Call(call))  # type: ignore[arg-type]

    def group(self, role: str) -> list[Any]:
        return [replica for replica in self.replicas if self.roles[replica.index] == role]

    def tokens(self, replica: Any) -> int:
        """Prompt and generated tokens of what was sent to a replica and has not ended."""
        return sum(
            job.prompt + (job.produced if getattr(job, "here", True) and not job.unseen else 0)
            for job in replica.present.values()
        )

    def idlest(self, role: str) -> Any:
        return min(self.group(role), key=self.tokens)

    def pick(self, role: str) -> Any:
        group = self.group(role)
        router = self.routers[role]
        if router == "round-robin":
            return group[self.turns[role] % len(group)]
        if router == "least-requests":
            return min(group, key=lambda replica: len(replica.present))
        assert router == "least-tokens"
        return self.idlest(role)

    # -- requests ----------------------------------------------------------------------------------------------

    def choose(self) -> Any:
        raise AssertionError("requests are split")

    def run(self, requests: Sequence[Request], check: Any = None) -> Any:
        for request in requests:
            self.arrive(request)
        while self.heap:
            time_ps, _, _, what = heapq.heappop(self.heap)
            assert time_ps >= self.now
            self.now = now = time_ps
            if isinstance(what, Job):
                self.enter(what, now)
            elif isinstance(what, _Call):
                what.call()
            else:
                what.boundary(now)
        for way in self.listed:
            self.settle(way)
        return self.result(self.now)

    def settle(self, way: Way) -> None:
        """A job has the stamps of its prefill."""
        job, prefill = way.job, way.prefill
        way.queued_ps, way.scheduled_ps = job.queued_ps, job.scheduled_ps
        job.queued_ps, job.scheduled_ps, job.hit_tokens = prefill.queued_ps, prefill.scheduled_ps, prefill.hit_tokens
        job.recomputed_tokens += prefill.recomputed_tokens
        job.preemptions += prefill.preemptions
        if way.target is None:
            job.replica = prefill.replica

    def push(self, time_ps: int, event_class: Any, index: int, what: Any) -> None:
        self.numbers += 1
        heapq.heappush(self.heap, _Entry(time_ps, event_class, index, what, self.numbers))  # type: ignore[misc]

    def enter(self, job: Job, now: int) -> None:
        rules = self.rules
        target = self.pick(DECODE) if rules.decode_first else None
        choice = self.decider.decide(job, target, now)
        if choice == "split":
            self.split(job, target, now)
        elif choice == "reject":
            job.outcome = job.request.outcome = "rejected"
            for follower in self.follow_up(job.request, now):
                if follower.arrival_ps <= now:
                    follower.postpone(now + 1 - follower.arrival_ps)
                self.arrive(follower)
        else:
            replica = self.pick(BOTH) if choice == "mixed" else target or self.pick(DECODE)
            self.give(job, replica)
            if not replica.submit(job, now):
                del replica.present[job.id]

    def split(self, job: Job, target: Any, now: int) -> None:
        rules, request = self.rules, job.request
        child = Request(request.id, request.arrival_ps, request.prompt_tokens, 1, request.segments, request.continues,
                        request.session_id, request.turn, request.class_name, request.priority,
                        request.deadline_ps)  # fmt: skip
        prefill = Job(child)
        prefill.unseen = rules.regenerates
        way = Way(job, prefill)
        self.ways[id(job)] = self.ways[id(prefill)] = way
        self.listed.append(way)
        job.early = 0 if rules.regenerates else 1
        if target is not None:
            self.choose_target(way, target)
        way.source = self.pick(PREFILL)
        self.give(prefill, way.source)
        if rules.mode != "pull" and not rules.decode_first:
            self.choose_target(way)
        if not way.source.submit(prefill, now):
            self.take(prefill, way.source)
            self.end(way, "rejected", now)
            return
        if rules.mode == "stream":
            self.to_target(way, now)

    def give(self, job: Job, replica: Any) -> None:
        replica.present[job.id] = job
        job.replica = replica.index
        self.turns[self.roles[replica.index]] += 1
        self.decider.sent(job, replica, self.now)

    def take(self, prefill: Job, replica: Any) -> None:
        del replica.present[prefill.id]
        self.decider.back(prefill, replica, self.now)

    def choose_target(self, way: Way, target: Any = None) -> None:
        way.target = target or self.pick(DECODE)
        way.job.here = False  # type: ignore[attr-defined]
        self.give(way.job, way.target)

    def to_target(self, way: Way, now: int) -> None:
        if way.closed:
            return
        if way.target is None:
            self.choose_target(way)
        assert way.target is not None
        way.at_target = True
        way.job.here = True  # type: ignore[attr-defined]
        if not way.target.submit(way.job, now):
            self.end(way, "rejected", now)

    def finished(self, replica: Replica, job: Job, now: int, visible: int) -> None:
        way = self.ways.get(id(job))
        if way is not None and job is way.prefill:
            self.take(job, replica)
            self.prefilled(way, now, visible)
            return
        if way is not None:
            self.close(way, now)
        super().finished(replica, job, now, visible)

    def prefilled(self, way: Way, now: int, visible: int) -> None:
        rules, job = self.rules, way.job
        if way.closed:
            return
        way.prefilled = True
        job.prefill_done_ps = way.prefill.prefill_done_ps
        if not rules.regenerates:
            job.early = 0
            job.token_ps.append(visible)
            job.chunk_ps.append(visible)
            if job.output == 1:
                self.end(way, "completed", now, visible, after=True)
                return
        if way.kept:
            self.at(now + rules.lease_ps, FLOW_END, -2, lambda: self.expire(way, now + rules.lease_ps))
        if rules.mode == "pull":
            way.computed = job.prompt
        if rules.mode == "pull" or (rules.mode == "push" and (way.fetched or way.over)):
            self.at(visible, HAND_OVER, job.id, lambda: self.to_target(way, visible))
        elif rules.mode == "stream" and not rules.regenerates and not way.flying:
            self.at(now, HAND_OVER, job.id, lambda: self.complete(way, now, after=True))

    def end(self, way: Way, outcome: str, now: int, visible: int | None = None, after: bool = False) -> None:
        job = way.job
        if way.at_target and outcome != "rejected":
            assert way.target is not None
            way.target.tell(now, "gone", job, after)
        self.close(way, now)
        job.outcome = outcome
        if way.target is not None:
            del way.target.present[job.id]
        if outcome != "rejected":
            job.request.outcome = outcome
            for follower in self.follow_up(job.request, now if visible is None else visible):
                self.arrive(follower)

    def close(self, way: Way, now: int) -> None:
        way.over = way.closed = True
        self.let_go(way, now)

    # -- KV cache ----------------------------------------------------------------------------------------------

    def unneeded(self, way: Way, now: int) -> None:
        way.over = True
        self.let_go(way, now)

    def let_go(self, way: Way, now: int) -> None:
        if way.kept:
            way.kept = False
            assert way.source is not None
            way.source.tell(now, "freed", way.prefill, after=True)

    def reserved(self, way: Way, found: int, now: int) -> None:
        way.reserved = True
        way.found = found
        if self.rules.mode == "push":
            assert way.target is not None
            self.send_at(way, now, now, self.rules.onward(way.target.index), way.found, self.rounded(way.job.prompt))
        else:
            way.sent = found
            self.send(way, way.layers_end_ps, now)

    def computing(self, way: Way, computed: int, now: int, end: int) -> None:
        if way.over or computed <= way.computed:
            return
        way.computed = computed
        way.layers_end_ps = end
        if self.rules.mode == "push" or way.reserved:
            self.send(way, end, now)

    def rounded(self, tokens: int) -> int:
        return blocks_for(tokens, self.rules.block_size) * self.rules.block_size

    def send(self, way: Way, end: int, now: int) -> None:
        rules = self.rules
        first, last = way.sent, way.computed
        if last <= first:
            return
        way.sent = last
        if last == way.job.prompt:
            last = self.rounded(last)
        if way.ready_ps < 0:
            way.attempts += 1
            way.ready_ps = now + rules.setup_ps
            way.start_ps = now if way.start_ps < 0 else way.start_ps
            way.failing = rules.fails(way.job.id, way.attempts)
        begin = max(now, way.ready_ps) + rules.block_ps * blocks_for(last - first, rules.block_size)
        assert way.source is not None and way.target is not None
        legs = rules.legs(way.source.index, way.target.index)
        if end <= now:
            self.send_at(way, begin, now, legs, first, last)
            return
        self.send_at(way, max(begin, end), now, legs, first, last, part="last layer")
        self.send_at(way, max(begin, now + (end - now) // rules.layers), now, legs, first, last, part="other layers")

    def send_at(self, way: Way, time_ps: int, now: int, legs: Any, first: int, last: int, part: str = "all") -> None:
        way.flying += 1
        sizes = []
        for _, each, _ in legs:
            size = round(each * (last - first))
            if part != "all":
                tail = size // self.rules.layers
                size = tail if part == "last layer" else size - tail
            sizes.append(size)
        way.bytes += sum(sizes)
        index = way.job.id

        def begin() -> None:
            if not any(path for path, _, _ in legs):
                self.arrived(way, time_ps)
                return
            left = len(legs)

            def done() -> None:
                nonlocal left
                left -= 1
                if not left:
                    self.arrived(way, self.now)

            for (path, _, efficiency), size in zip(legs, sizes, strict=True):
                self.flows.send(path, ceil(size / efficiency), index, done, time_ps)

        if time_ps <= now:
            begin()
        else:
            self.at(time_ps, FLOW_END, index, begin)

    def arrived(self, way: Way, now: int) -> None:
        rules = self.rules
        way.flying -= 1
        if not way.flying and (rules.mode != "stream" or rules.regenerates or way.prefilled):
            self.complete(way, now)

    def complete(self, way: Way, now: int, after: bool = False) -> None:
        rules = self.rules
        if way.over or way.sent < way.job.prompt:
            return
        if way.failing:
            if way.attempts <= rules.retries:
                self.at(now + rules.retry_ps, FLOW_END, way.job.id, lambda: self.again(way, now + rules.retry_ps))
            else:
                self.lose(way, now, after)
        elif rules.mode == "push" and not way.fetched:
            way.fetched = True
            self.let_go(way, now)
            if way.prefilled:
                self.pass_on(way, now)
        else:
            way.fetched = way.over = True
            way.end_ps = now
            self.let_go(way, now)
            assert way.target is not None
            way.job.computed = way.job.target - 1
            way.target.pool.fill(way.job)
            way.target.tell(now, "loaded", way.job, after)

    def pass_on(self, way: Way, now: int) -> None:
        visible = way.prefill.last_token_ps
        time_ps = max(now, visible)
        self.at(time_ps, HAND_OVER, way.job.id, lambda: self.to_target(way, time_ps))

    def again(self, way: Way, now: int) -> None:
        if way.over:
            return
        way.ready_ps = -1
        way.sent = way.found
        self.send(way, -1, now)

    def lose(self, way: Way, now: int, after: bool = False) -> None:
        way.over = True
        if self.rules.gives_up:
            self.end(way, "failed", now, after=after)
            return
        self.let_go(way, now)
        way.job.computed_at_preemption = way.job.prompt
        assert way.target is not None or not way.at_target
        if way.reserved:
            assert way.target is not None
            way.target.tell(now, "lost", way.job, after)
        elif way.at_target:
            assert way.target is not None
            way.target.tell(now, "news", way.job)
        elif self.rules.mode == "push" and way.prefilled:
            self.pass_on(way, now)

    def expire(self, way: Way, now: int) -> None:
        if way.kept and way.start_ps < 0:
            self.lose(way, now)


class _Call:
    """Something to do at an instant."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call


class _Entry(tuple):  # type: ignore[type-arg]
    """An event; those of the same instant, class and index in the order in which they were pushed."""

    def __new__(cls, time_ps: int, event_class: float, index: int, what: Any, number: int) -> _Entry:
        return super().__new__(cls, (time_ps, event_class, index, what))

    def __init__(self, time_ps: int, event_class: float, index: int, what: Any, number: int) -> None:
        self.key = (time_ps, event_class, index, number)

    def __lt__(self, other: Any) -> bool:
        return bool(self.key < other.key)
