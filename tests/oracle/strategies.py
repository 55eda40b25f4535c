"""Random small scenarios: few requests, few blocks, coarse prices, many ties."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from tests.reference.naive_engine import ROUTERS
from tests.reference.simple_policies import SCHEDULERS
from tests.reference.simple_price import AffinePrice

from servetwin.engine.protocols import EngineSettings
from servetwin.request import Request


@dataclass(frozen=True)
class Turn:
    """A later turn of a session: ``new`` prompt tokens and ``output`` tokens, ``think_ps`` after the last token."""

    new: int
    output: int
    think_ps: int


@dataclass(frozen=True)
class Spec:
    """A request, and the turns that follow it."""

    arrival_ps: int
    segments: tuple[tuple[Any, int], ...]
    prompt: int
    output: int
    continues: bool = False
    priority: int = 0
    deadline_ps: int = 0
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class Case:
    """A whole scenario. ``requests()`` and ``follow_up()`` make new objects each time."""

    replicas: tuple[tuple[EngineSettings, AffinePrice], ...]
    scheduler: str
    router: str
    specs: tuple[Spec, ...]

    def requests(self) -> list[Request]:
        return [self._request(i, spec) for i, spec in enumerate(self.specs)]

    def _request(self, i: int, spec: Spec) -> Request:
        segments = spec.segments
        continues = bool(segments) and (spec.continues or bool(spec.turns))
        if continues and segments[-1][0] != ("tail", i):
            # A stream is continued by one session only, and nobody else's prompt runs along it.
            segments = (*segments, (("tail", i), 0))
        return Request(
            id=i,
            arrival_ps=spec.arrival_ps,
            prompt_tokens=spec.prompt,
            output_tokens=spec.output,
            segments=segments,
            continues=continues,
            session_id=i,
            priority=spec.priority,
            deadline_ps=spec.deadline_ps,
        )

    def parts(self) -> list[tuple[EngineSettings, AffinePrice, Any]]:
        return [(settings, price, SCHEDULERS[self.scheduler]()) for settings, price in self.replicas]

    def follow_up(self) -> Callable[[Request, int], list[Request]]:
        """The next turn of a session; its id says nothing about when the turn before it ended."""

        def next_turn(request: Request, visible_ps: int) -> list[Request]:
            spec = self.specs[request.session_id]
            if request.turn >= len(spec.turns):
                return []
            turn = spec.turns[request.turn]
            key, length = request.segments[-1]
            grown = length + request.output_tokens + turn.new
            following = Request(
                id=request.id + len(self.specs),
                arrival_ps=visible_ps + turn.think_ps,
                prompt_tokens=request.prompt_tokens + request.output_tokens + turn.new,
                output_tokens=turn.output,
                segments=(*request.segments[:-1], (key, grown)),
                continues=True,
                session_id=request.session_id,
                turn=request.turn + 1,
                priority=spec.priority,
                deadline_ps=spec.deadline_ps + visible_ps,
            )
            return [following]

        return next_turn


@st.composite
def prices(draw: st.DrawFn) -> AffinePrice:
    """Half of them coarse, so that boundaries of several replicas and arrivals meet."""
    unit = draw(st.sampled_from((1, 10, 100)))
    windows = draw(st.sampled_from(((), (), (5,), (3, 8))))
    kinds = 1 + len(windows)
    coefficient = st.integers(0, 3)
    return AffinePrice(
        base=unit * draw(st.integers(1, 12)),
        token=unit * draw(coefficient),
        request=unit * draw(coefficient),
        context=tuple(draw(st.sampled_from((0, 0, 1, unit))) for _ in range(kinds)),
        context_bound=tuple(draw(st.booleans()) for _ in range(kinds)),
        pair=draw(st.sampled_from((0, 0, 1, unit))),
        eager=unit * draw(st.sampled_from((0, 0, 5))),
        launching=unit * draw(st.sampled_from((0, 0, 20, 60))),
        communication=unit * draw(st.sampled_from((0, 0, 1))),
        windows=windows,
        layers=draw(st.integers(1, 4)),
    )


@st.composite
def engine_settings(draw: st.DrawFn, room: int = 80) -> EngineSettings:
    """Settings with KV room for about ``room`` tokens."""
    max_num_seqs = draw(st.sampled_from((1, 2, 3, 4, 6, 8, 12)))
    max_num_batched_tokens = max_num_seqs + draw(st.sampled_from((0, 1, 5, 20, 60)))
    chunked_prefill = draw(st.sampled_from((True, True, True, False)))
    block_size = draw(st.sampled_from((1, 2, 3, 4, 8, 16)))
    # An unchunked prompt longer than the budget would wait for ever.
    if not chunked_prefill:
        max_num_batched_tokens += room
    max_model_len = 200 if chunked_prefill else max_num_batched_tokens
    return EngineSettings(
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
        block_size=block_size,
        num_blocks=1 + max(1, room // block_size + draw(st.integers(0, 2))),
        prefix_caching=draw(st.sampled_from((True, True, False))),
        chunked_prefill=chunked_prefill,
        long_prefill_token_threshold=draw(st.sampled_from((0, 0, 1, 3, 7))),
        reserve_full_prompt=draw(st.booleans()),
        watermark_blocks=draw(st.sampled_from((0, 0, 1, 3))),
        depth=draw(st.integers(0, 1)),
        graph_sizes=draw(st.sampled_from(((), (), (1, 2, 4, 8), (4,)))),
        front_end_ps=draw(st.sampled_from((0, 0, 10, 137))),
        front_end_per_token_ps=draw(st.sampled_from((0, 0, 10, 3))),
        output_ps_per_request=draw(st.sampled_from((0, 0, 10, 170))),
    )


@st.composite
def specs(draw: st.DrawFn, index: int, arrival_ps: int, longest: int, longest_output: int) -> Spec:
    prefix = draw(st.sampled_from((longest, longest // 2, longest // 3)))
    tail = draw(st.integers(0, longest))
    kind = draw(st.sampled_from(("own", "shared", "shared", "session", "twin")))
    turns: tuple[Turn, ...] = ()
    if kind == "own":
        segments: tuple[tuple[Any, int], ...] = ()
        prompt = max(1, tail)
    else:
        shared = (draw(st.sampled_from(("system", "other"))), max(1, prefix))
        # A twin's prompt is that of others, whole or in part.
        last = ("twin" if kind == "twin" else ("tail", index), tail)
        segments = (shared, last) if tail else (shared,)
        prompt = sum(length for _, length in segments)
    if kind == "session":
        turn = st.builds(Turn, st.integers(0, 9), st.integers(1, 9), st.sampled_from((1, 10, 100, 997)))
        turns = tuple(draw(st.lists(turn, min_size=1, max_size=3)))
    return Spec(
        arrival_ps=arrival_ps,
        segments=segments,
        prompt=prompt,
        output=draw(st.sampled_from((1, 2, 3, longest_output // 2, longest_output - 1, longest_output))),
        continues=draw(st.booleans()),
        priority=draw(st.integers(0, 3)),
        deadline_ps=draw(st.sampled_from((0, 500, 1000, 5000))),
        turns=turns,
    )


@st.composite
def cases(draw: st.DrawFn, replicas: int = 1, most_requests: int = 14) -> Case:
    """One replica, or several of the same or of different kinds."""
    room = draw(st.sampled_from((12, 20, 40, 40, 80, 80, 400)))
    if draw(st.booleans()):
        one = (draw(engine_settings(room)), draw(prices()))
        parts = tuple(one for _ in range(replicas))
    else:
        parts = tuple((draw(engine_settings(room)), draw(prices())) for _ in range(replicas))
    # Prefix, tail and output of a request fit into the room together, as a rule.
    longest = max(2, min(40, room // draw(st.sampled_from((4, 6, 10)))))
    longest_output = max(2, min(40, room // draw(st.sampled_from((2, 3, 8)))))
    base, step = parts[0][1].base, parts[0][1].base + 5 * parts[0][1].token
    arrival_ps = draw(st.sampled_from((0, 0, 70)))
    chosen = []
    for index in range(draw(st.sampled_from((1, 2, 3, 5, 8, most_requests, most_requests)))):
        arrival_ps += draw(st.sampled_from((0, 0, 0, 1, base, base, step, 3 * step, 40 * step)))
        chosen.append(draw(specs(index, arrival_ps, longest, longest_output)))
    return Case(
        replicas=parts,
        scheduler=draw(st.sampled_from(("fcfs", "fcfs", *SCHEDULERS))),
        router=draw(st.sampled_from(ROUTERS)),
        specs=tuple(chosen),
    )


def random_case(seed: int, replicas: int = 1, requests: int = 100, tight: bool = False) -> Case:
    """A larger scenario from a seed: enough requests for queues, evictions and preemptions.

    ``tight`` is for preemption storms: a third of the room, short prompts, few gaps between arrivals.
    """
    rng = random.Random(seed)
    block_size = rng.choice((1, 2, 3, 4, 5) if tight else (1, 2, 4, 8, 16))
    max_num_seqs = rng.choice((2, 4, 8, 16, 32))
    settings = EngineSettings(
        max_num_batched_tokens=max_num_seqs + rng.choice((0, 8, 30, 100, 400)),
        max_num_seqs=max_num_seqs,
        max_model_len=400,
        block_size=block_size,
        num_blocks=1 + rng.choice((36, 50, 70) if tight else (100, 150, 300, 1000)) // block_size,
        prefix_caching=rng.random() < 0.75,
        long_prefill_token_threshold=rng.choice((0, 0, 5, 20)),
        reserve_full_prompt=rng.random() < 0.5,
        watermark_blocks=rng.choice((0, 0, 2)),
        depth=rng.randint(0, 1),
        graph_sizes=rng.choice(((), (1, 2, 4, 8, 16), (8,))),
        front_end_ps=rng.choice((0, 0, 170)),
        front_end_per_token_ps=rng.choice((0, 0, 7)),
        output_ps_per_request=rng.choice((0, 0, 3, 40)),
    )
    if rng.random() < 0.2:
        settings = replace(settings, chunked_prefill=False, max_num_batched_tokens=400)
    windows = rng.choice(((), (), (16,), (10, 50)))
    unit = rng.choice((1, 10, 100))
    price = AffinePrice(
        base=100 * rng.randint(1, 5),
        token=unit * rng.randint(0, 3),
        request=unit * rng.randint(0, 2),
        context=tuple(rng.choice((0, 1, 3)) for _ in range(1 + len(windows))),
        context_bound=tuple(rng.random() < 0.5 for _ in range(1 + len(windows))),
        pair=rng.choice((0, 1)),
        communication=rng.choice((0, 0, 2)),
        eager=rng.choice((0, 50)),
        launching=rng.choice((0, 0, 500, 1200)),
        windows=windows,
    )
    step_ps = price.base + price.token * max_num_seqs
    mean_gap = rng.choice((0.3, 2) if tight else (0.3, 2, 6)) * step_ps / replicas
    chosen: list[Spec] = []
    arrival_ps = 0
    for index in range(requests):
        if rng.random() < 0.7:
            arrival_ps += int(rng.expovariate(1 / mean_gap)) // unit * unit
        shared = rng.choice((0, 4, 9) if tight else (0, 16, 33))
        tail = rng.choice((0, 1, 4, 9) if tight else (0, 3, 20, 60))
        segments: tuple[tuple[Any, int], ...] = ()
        if rng.random() < 0.8 and shared + tail:
            tail_key = ("tail", index) if rng.random() < 0.8 else "twin"
            pairs = ((("system", rng.randint(0, 2)), shared), (tail_key, tail))
            segments = tuple(pair for pair in pairs if pair[1])
        turns: tuple[Turn, ...] = ()
        if segments and rng.random() < 0.2:
            count = rng.randint(1, 2)
            turns = tuple(Turn(rng.randint(0, 8), rng.randint(1, 15), rng.choice((1, 500))) for _ in range(count))
        chosen.append(
            Spec(
                arrival_ps=arrival_ps,
                segments=segments,
                prompt=sum(length for _, length in segments) or max(1, shared + tail),
                output=rng.choice((1, 2, 8, 12, 15) if tight else (1, 2, 5, 10, 20, 40)),
                continues=rng.random() < 0.5,
                priority=rng.randint(0, 3),
                deadline_ps=arrival_ps + rng.choice((1000, 5000)),
                turns=turns,
            )
        )
    return Case(
        replicas=tuple((settings, price) for _ in range(replicas)),
        scheduler=rng.choice(("fcfs", "fcfs", *SCHEDULERS)),
        router=rng.choice(ROUTERS),
        specs=tuple(chosen),
    )
