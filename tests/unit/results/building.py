"""Runs made by hand for the tests of results and report.

``toy_run`` is a small step-by-step engine of its own, good enough to leave a consistent log; ``Step`` and ``record``
write arbitrary steps, as one segment or as many.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from servetwin.physics.protocols import Phase
from servetwin.records import LEDGER_BUCKETS, pack_segment
from servetwin.request import COMPLETED, REJECTED, UNFINISHED, Request
from servetwin.results import DraftUse, HandOverMeta, PoolMeta, Recorder, Result, RunMeta
from servetwin.results.exchanged import CollectiveUse
from servetwin.results.links import LinkUse
from servetwin.units import PS_PER_MS, PS_PER_S


def work(tokens: int, requests: int, context: int, attended: int) -> tuple[float, float]:
    """An 8B model in bf16."""
    return 16e9 * tokens + 1e9 * requests + 5e5 * attended, 16e9 + 131072.0 * context


def meta(replicas: int = 1, **changes) -> RunMeta:
    """A run on ``replicas`` replicas of one pool."""
    pool = PoolMeta(
        name="engines",
        role="both",
        first_replica=0,
        replicas=replicas,
        gpus_per_replica=2,
        hardware="h100-sxm",
        peak_flops=2 * 989e12,
        peak_bytes_per_s=2 * 3.35e12,
        kv_capacity_tokens=430_000,
        work=work,
        price_per_gpu_hour_usd=3.0,
        tdp_watts=700.0,
    )
    values = {
        "name": "toy", "seed": 7, "version": "0.1.0", "engine": "vllm", "engine_version": "0.15",
        "config_hash": "abc", "pools": [pool], "model": "llama-3.1-8b",
    }  # fmt: skip
    return RunMeta(**(values | changes))


def split_meta(prefill: int = 1, decode: int = 1, first_token: str = "decode", **changes) -> RunMeta:
    """A run on replicas that prefill, which come first, and replicas that decode; their links carry 100 GB/s."""
    pools = []
    for role, replicas in (("prefill", prefill), ("decode", decode)):
        (pool,) = meta(replicas).pools
        pools.append(replace(pool, name=role, role=role, first_replica=sum(one.replicas for one in pools)))
    return meta(pools=pools, hand_overs=HandOverMeta(first_token, lambda source, target: 1e11), **changes)


@dataclass
class Moved:
    """A hand-over as it is recorded; times in ps."""

    source: int = 0
    target: int = 1
    queued: int = -1
    scheduled: int = -1
    reserved: int = -1
    start: int = -1
    end: int = -1
    kept: int = -1
    freed: int = -1
    moved_bytes: int = 0
    attempts: int = 0
    found: int = 0

    def record(self, recorder: Recorder, request: Request) -> None:
        """Write it, and its request."""
        recorder.handed_over(
            request.id, self.source, self.target, self.queued, self.scheduled, self.reserved, self.start, self.end,
            self.kept, self.freed, self.moved_bytes, self.attempts, self.found,
        )  # fmt: skip
        recorder.finished(request)


MODES = ("pull", "stream", "push")


def random_hand_over(rng: random.Random, request: Request, prefills: int, replicas: int, by_prefill: bool) -> Moved:
    """A plausible hand-over, whose request gets the stamps that go with it; a few stop half-way.

    Args:
        rng: where the numbers come from.
        request: the request, with stamps up to the end of its prefill.
        prefills: how many replicas prefill.
        replicas: how many there are.
        by_prefill: whether the prefilling replica yields the first token.
    """

    def later(time: int) -> int:
        return time + rng.choice((0, rng.randrange(PS_PER_S)))

    moved = Moved(rng.randrange(prefills), rng.randrange(prefills, replicas), attempts=1)
    mode, done = rng.choice(MODES), request.prefill_done_ps
    moved.moved_bytes, moved.found = rng.randrange(10**9), rng.randrange(request.prompt_tokens)
    if mode == "stream":
        moved.queued = moved.reserved = later(request.queued_ps)
        moved.start = max(moved.reserved, request.scheduled_ps)
        moved.end = later(max(done, moved.start))
    else:
        moved.queued = later(done)
        moved.reserved = later(moved.queued)
        moved.start = moved.reserved if mode == "pull" else rng.randrange(request.scheduled_ps, done + 1)
        moved.end = later(moved.reserved)
    moved.kept = done
    moved.freed = moved.end if mode != "push" else rng.randrange(done, moved.queued + 1)
    moved.scheduled = later(moved.end)
    request.first_token_ps = later(done) if by_prefill else moved.scheduled + rng.randrange(1, PS_PER_S)
    request.last_token_ps = later(max(moved.scheduled, request.first_token_ps))
    request.replica, request.pool = moved.target, 1
    if rng.random() < 0.15:
        # It stops while something is still to come.
        request.outcome, request.last_token_ps = UNFINISHED, -1
        moved.scheduled = moved.end = -1
        moved.freed = moved.freed if mode == "push" else -1
        if not by_prefill:
            request.first_token_ps = -1
    return moved


def split_run(
    requests: int = 60, first_token: str = "decode", prefill: int = 2, decode: int = 2, timeline: bool = False,
    seed: int = 0, network: dict | None = None, **changes,
) -> Result:  # fmt: skip
    """Requests of which nine in ten are prefilled by one replica and decoded by another; busy for a second each."""
    rng = random.Random(seed)
    recorder = Recorder(split_meta(prefill, decode, first_token, **changes), timeline=timeline)
    replicas = prefill + decode
    for identity in range(requests):
        request = random_request(rng, identity, replicas)
        request.output_tokens += 1
        request.prefill_done_ps += 1
        if rng.random() < 0.9:
            random_hand_over(rng, request, prefill, replicas, first_token == "prefill").record(recorder, request)
        else:
            request.first_token_ps = max(request.first_token_ps, request.prefill_done_ps)
            request.last_token_ps = max(request.last_token_ps, request.first_token_ps)
            request.replica = rng.randrange(prefill, replicas)
            recorder.finished(request)
    for replica in range(replicas):
        bound = {"compute": 600 * PS_PER_MS} if replica < prefill else {"memory": 900 * PS_PER_MS}
        record(recorder, [Run(Step(replica, PS_PER_S, (1 + replica) * PS_PER_S, PS_PER_S, **bound))])
    return finish(recorder, 30 * PS_PER_S, **(network or {}))


@dataclass
class Step:
    """One engine step."""

    replica: int
    start: int
    duration: int
    gap: int
    weight: int = 1
    tokens: int = 1
    prefill: int = 0
    emitted: int = 1
    decodes: int = 1
    context: int = 100
    attended: int = 100
    held: int = 100
    compute: int = 0
    memory: int = 0
    communication: int = 0
    recomputed: int = 0
    draft: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass
class Run:
    """A segment: ``count`` steps of which each is ``growth`` longer than the one before."""

    step: Step
    count: int = 1
    growth: int = 0
    compute_growth: int = 0
    waiting_growth: int = 0

    @property
    def memory_growth(self) -> int:
        return self.growth - self.compute_growth - self.waiting_growth

    def steps(self) -> list[Step]:
        """The steps one by one."""
        found, start = [], self.step.start
        for j in range(self.count):
            duration = self.step.duration + j * self.growth
            grown = j * self.step.decodes
            found.append(
                replace(
                    self.step,
                    start=start,
                    duration=duration,
                    gap=self.step.gap if j == 0 else duration,
                    context=self.step.context + grown,
                    attended=self.step.attended + grown,
                    held=self.step.held + grown,
                    compute=self.step.compute + j * self.compute_growth,
                    memory=self.step.memory + j * self.memory_growth,
                )
            )
            start += duration
        return found

    def singles(self) -> list[Run]:
        """The same as segments of one step, each knowing how it would have gone on."""
        return [Run(step, 1, self.growth, self.compute_growth, self.waiting_growth) for step in self.steps()]


def record(recorder: Recorder, runs: Sequence[Run], flush_every: int = 0) -> None:
    """Write segments as the engine does."""
    for number, run in enumerate(runs, 1):
        step = run.step
        recorder.segments += pack_segment(
            step.replica, step.start, run.count, step.duration, run.growth, step.gap, step.weight, step.tokens,
            step.prefill, step.emitted, step.decodes, step.context, step.attended, step.held, step.compute,
            step.memory, step.communication, step.recomputed, run.compute_growth, run.memory_growth,
            step.draft, step.drafted, step.accepted,
        )  # fmt: skip
        if len(recorder.segments) > recorder.segment_limit or (flush_every and number % flush_every == 0):
            recorder.flush_segments()


def random_runs(rng: random.Random, replicas: int, number: int, scale: int = PS_PER_MS) -> list[Run]:
    """Random segments, contiguous or with idle time in between, in order of their starts."""
    now = [rng.randrange(scale) for _ in range(replicas)]
    runs = []
    for _ in range(number):
        replica = rng.randrange(replicas)
        now[replica] += rng.choice((0, 0, rng.randrange(5 * scale)))
        count = rng.choice((1, 1, 2, rng.randrange(1, 300)))
        duration = rng.randrange(scale // 2, 2 * scale)
        growth = rng.choice((0, rng.randrange(1 + scale // 1000)))
        prefill = rng.randrange(500) if count == 1 else 0
        decodes = rng.randrange(0 if prefill else 1, 40)
        compute = rng.randrange(duration)
        step = Step(
            replica, now[replica], duration, duration + rng.randrange(scale), decodes, prefill + decodes, prefill,
            decodes, decodes, rng.randrange(10**5), rng.randrange(10**6), rng.randrange(10**5), compute,
            duration - compute,
        )  # fmt: skip
        if count == 1 and decodes and rng.random() < 0.3:
            step.drafted = rng.randrange(1, 8) * decodes
            step.tokens += step.drafted
            step.accepted = rng.randrange(step.drafted + 1)
        run = Run(step, count, growth, rng.randrange(growth + 1))
        now[replica] += sum(one.duration for one in run.steps())
        runs.append(run)
    return runs


def ledger(gpus: int, end: int, busy: int = 0) -> dict[str, int]:
    """A ledger of one replica that adds up."""
    spent = dict.fromkeys(LEDGER_BUCKETS, 0)
    busy = min(busy, end)
    spent["compute"], spent["host"] = gpus * (busy // 3), gpus * (busy // 10)
    spent["hbm"] = gpus * (busy - busy // 3 - busy // 10)
    spent["idle"] = gpus * (end - busy)
    return spent


def finish(recorder: Recorder, end: int, **more) -> Result:
    """The result of a run whose replicas were idle or busy as its segments say."""
    recorder.flush_segments()
    run = recorder.meta
    busy = [0] * run.replicas
    for chunk in recorder._segment_store:
        columns = (chunk[name].tolist() for name in ("replica", "count", "first_ps", "growth_ps"))
        for replica, count, first, growth in zip(*columns, strict=True):
            busy[replica] += count * first + growth * count * (count - 1) // 2
    if "drafts" not in more:
        more["drafts"] = [_plain_use(recorder, replica) for replica in range(run.replicas)]
    gpus = [run.pools[owner].gpus_per_replica for owner in run.pool_of()]
    ledgers = [ledger(number, end, spent) for number, spent in zip(gpus, busy, strict=True)]
    return recorder.result(**({"end_ps": end, "ledgers": ledgers, "events": 1234} | more))


def _plain_use(recorder: Recorder, replica: int) -> DraftUse | None:
    """A count of drafts that agrees with the segments: one token a draft."""
    store = recorder._segment_store
    mine = store.column("replica") == replica
    drafted, accepted = (int(store.column(name)[mine].sum()) for name in ("drafted", "accepted"))
    return DraftUse(drafted, drafted, (accepted,)) if drafted else None


def random_request(rng: random.Random, identity: int, replicas: int, outcome: str = COMPLETED) -> Request:
    """A request with plausible stamps."""
    arrival = rng.randrange(10 * PS_PER_S)
    request = Request(identity, arrival, rng.randrange(1, 2000), rng.choice((1, 2, rng.randrange(1, 500))))
    request.class_name = rng.choice(("", "chat", "code"))
    request.session_id = rng.choice((-1, identity // 3))
    request.outcome = outcome
    if outcome == REJECTED:
        request.reason = rng.choice(("max_model_len", "too many waiting"))
        return request
    request.replica, request.pool = rng.randrange(replicas), 0
    stamps = [arrival]
    for _ in range(6):
        stamps.append(stamps[-1] + rng.choice((0, rng.randrange(PS_PER_S))))
    (request.routed_ps, request.queued_ps, request.scheduled_ps, request.prefill_done_ps) = stamps[1:5]
    request.first_token_ps = stamps[5]
    request.hit_tokens = rng.randrange(request.prompt_tokens)
    if outcome == COMPLETED:
        request.last_token_ps = stamps[6] if request.output_tokens > 1 else stamps[5]
    request.preemptions = rng.choice((0, 0, 0, 1, 2))
    request.recomputed_tokens = 10 * request.preemptions
    request.drafted_tokens = rng.choice((0, rng.randrange(1000)))
    request.accepted_tokens = rng.randrange(request.drafted_tokens + 1)
    return request


def toy_run(
    requests: int = 400,
    rate_per_s: float = 8.0,
    replicas: int = 1,
    seed: int = 0,
    slo: dict | None = None,
    timeline: bool = False,
    seats: int = 256,
    network: dict | None = None,
    **changes,
) -> Result:
    """A consistent run: Poisson arrivals, continuous batching, one chunk of prefill per step, round robin."""
    rng = random.Random(seed)
    recorder = Recorder(meta(replicas, slo=slo or {}, **changes), timeline=timeline)
    arrival, everybody = 0.0, []
    for identity in range(requests):
        arrival += rng.expovariate(rate_per_s)
        prompt = min(max(int(rng.gauss(500, 150)), 50), 1500)
        output = min(max(int(rng.gauss(250, 80)), 20), 800)
        everybody.append(Request(identity, int(arrival * PS_PER_S), prompt, output))
    done: list[Request] = []
    end = 0
    for replica in range(replicas):
        end = max(end, _serve(recorder, everybody[replica::replicas], replica, seats, done))
    for request in sorted(done, key=lambda one: one.last_token_ps):
        recorder.finished(request)
    return finish(recorder, end + PS_PER_MS, **(network or {}))


def drafting_run(replicas: int = 1, timeline: bool = False, steps: int = 200, **changes) -> Result:
    """Decoding with drafts: K is 3 at first, 1 in the middle and 0 at the end.

    Replica ``r`` has ``4 + r`` requests, half of which have the last of their drafts rejected. Each step takes 10 ms,
    1 ms of which is drafting.
    """
    recorder = Recorder(meta(replicas, **changes), timeline=timeline)
    uses = [_draft(recorder, replica, steps) for replica in range(replicas)]
    ledgers = [{bucket: 2 * time for bucket, time in spent.items()} for spent in recorder.spent(replicas)]
    return recorder.result(end_ps=steps * 10 * PS_PER_MS, ledgers=ledgers, events=steps, drafts=uses)


def _draft(recorder: Recorder, replica: int, steps: int) -> DraftUse:
    """The steps and requests of one replica."""
    requests, duration = 4 + replica, 10 * PS_PER_MS
    drafts, drafted, stood, before = 0, 0, [0, 0, 0], -1
    for number in range(steps):
        k, start = (3, 1, 0)[3 * number // steps], number * duration
        if k != before:
            recorder.choice(replica, start, k)
        before = k
        by_position = [requests] * (k - 1) + [requests // 2] * (k > 0)
        for place, count in enumerate(by_position):
            stood[place] += count
        drafts += requests * (k > 0)
        drafted += requests * k
        draft = PS_PER_MS * (k > 0)
        step = Step(
            replica, start, duration, duration, requests, requests * (1 + k), 0, requests + sum(by_position), requests,
            1000 * requests, 1000 * requests, 1000 * requests, 2 * PS_PER_MS, 6 * PS_PER_MS, draft=draft,
            drafted=requests * k, accepted=sum(by_position),
        )  # fmt: skip
        record(recorder, [Run(step)])
        if recorder.wants_phases:
            recorder.phases(replica, start, _drafting_phases(k, duration - draft))
    for identity in range(requests):
        request = Request(100 * replica + identity, 0, 1000, steps)
        request.pool, request.replica, request.outcome = 0, replica, COMPLETED
        request.routed_ps = request.queued_ps = request.scheduled_ps = request.prefill_done_ps = 0
        request.first_token_ps, request.last_token_ps = duration, steps * duration
        request.drafted_tokens, request.accepted_tokens = drafted // requests, sum(stood) // requests
        recorder.finished(request)
    return DraftUse(drafts, drafted, tuple(stood))


def _drafting_phases(k: int, rest: int) -> list[Phase]:
    """A draft for each position, and what the step does besides."""
    drafting = [Phase("draft", "hbm", k, PS_PER_MS)] if k else []
    host = rest // 10
    return [*drafting, Phase("host", "host", 1, host), Phase("verify" if k else "layers", "hbm", 32, rest - host)]


LINK_BYTES_PER_TOKEN = 4


def linked_run(requests: int = 60, **more) -> Result:
    """``toy_run`` with a port of 1 GB/s that carries four bytes a token, and a NIC with a transfer, from 2 s to 3 s."""

    def times(factor: int):
        return lambda sizes: factor * sizes.reshape(-1, 1)

    links = [
        LinkUse("node0/gpu0/link-out", 10**9, (), ()),
        LinkUse("node0/gpu0/nic-out", 10**11, (2 * PS_PER_S, 3 * PS_PER_S), (10**10, 0)),
        LinkUse("node0/gpu0/nic-in", 10**11, (), ()),
    ]
    use = CollectiveUse(
        0, [[0]], np.zeros(0, np.int64), 1, times(LINK_BYTES_PER_TOKEN), times(0), times(0), in_order=True
    )  # fmt: skip
    return toy_run(requests, network={"links": links, "collectives": lambda: [use]}, **more)


def _serve(recorder: Recorder, queue: list[Request], replica: int, seats: int, done: list[Request]) -> int:
    now = visible = 0
    waiting = list(reversed(queue))
    running: list[Request] = []
    open_run: Run | None = None
    runs: list[Run] = []
    while waiting or running:
        if not running and waiting[-1].arrival_ps > now:
            now = waiting[-1].arrival_ps
        new = None
        if waiting and waiting[-1].arrival_ps <= now and len(running) < seats:
            new = waiting.pop()
            new.replica, new.pool, new.routed_ps, new.queued_ps = replica, 0, new.arrival_ps, new.arrival_ps
            new.scheduled_ps = now
        context = sum(one.prompt_tokens + one.produced for one in running)
        prefill = new.prompt_tokens if new else 0
        decodes = len(running)
        compute = 15_000_000 * prefill
        memory = 5_000_000_000 + 39_000 * context + 6_000_000 * decodes
        duration = compute + memory
        rows = decodes + (new is not None)
        shown = max(now + duration + 30_000_000 * rows, visible)
        step = Step(
            replica, now, duration, shown - visible, decodes, prefill + decodes, prefill, rows, decodes,
            context + decodes, context + decodes + prefill * prefill // 2, context + prefill, compute, memory,
        )  # fmt: skip
        growth = 39_000 * decodes
        goes_on = (
            open_run is not None
            and new is None
            and open_run.step.prefill == 0
            and open_run.step.decodes == decodes
            and shown - visible == duration == open_run.step.duration + open_run.count * growth
        )
        if goes_on:
            open_run.count += 1
        else:
            open_run = Run(step, 1, growth, 0)
            runs.append(open_run)
        now, visible = now + duration, shown
        if new:
            running.append(new)
            new.prefill_done_ps, new.first_token_ps = now, visible
        leaving = []
        for one in running:
            one.produced += 1
            if one.produced >= one.output_tokens:
                one.last_token_ps, one.outcome = visible, COMPLETED
                leaving.append(one)
        if leaving:
            running = [one for one in running if one.outcome != COMPLETED]
            done += leaving
            open_run = None
    record(recorder, runs)
    if recorder.wants_phases:
        for run in runs:
            recorder.phases(replica, run.step.start, _phases(run.step))
    return now


def _phases(step: Step) -> list[Phase]:
    """Host, attention and MLP of 32 layers, sampling."""
    host, sampling = step.memory // 10, step.memory // 50
    left = step.memory - host - sampling
    return [
        Phase("host", "host", 1, host),
        Phase("attention", "hbm", 32, left),
        Phase("mlp", "sm", 32, step.compute),
        Phase("sampling", "sm", 1, sampling),
    ]
