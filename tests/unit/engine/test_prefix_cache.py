"""The prefix cache against a model that keeps every block by itself, and the rules one by one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.reference.naive_engine import Job, Pool

from servetwin.engine.blocks import BlockPool
from servetwin.engine.prefix_cache import PrefixCache
from servetwin.engine.prefix_node import Node
from servetwin.engine.protocols import EngineSettings
from servetwin.request import Request, Segment


def cost_of(tokens: int, size: int) -> int:
    return -(-tokens // size)


class Side:
    """A cache and its pool, driven as the engine does, and the plain pool that must agree with it."""

    def __init__(self, blocks: int, size: int, enabled: bool = True) -> None:
        self.size = size
        self.pool = BlockPool(blocks)
        self.cache = PrefixCache(self.pool, size, enabled)
        self.plain = Pool(EngineSettings(1, 1, 1, size, blocks, prefix_caching=enabled))
        self.running: dict[int, Request] = {}
        self.waiting: dict[int, Request] = {}
        self.jobs: dict[int, Job] = {}

    def arrive(self, request: Request) -> None:
        self.waiting[request.id] = request
        self.jobs[request.id] = Job(request)

    def admit(self, number: int, want: int) -> bool:
        """Look up, and give the request blocks for its next ``want`` tokens if there are enough."""
        request, job = self.waiting[number], self.jobs[number]
        request.target = job.target = request.prompt_tokens + request.produced
        found, referred = self.cache.look_up(request, request.target)
        assert found * self.size == self.plain.lookup(job, job.target)
        want = min(want, request.target - found * self.size)
        blocks = cost_of(found * self.size + want, self.size)
        need = blocks - min(referred, blocks)
        assert need == self.plain.needed(job, found * self.size + want)
        if need > self.pool.free:
            return False
        del self.waiting[number]
        self.running[number] = request
        self.cache.admit(request)
        request.computed = job.computed = found * self.size
        self._prefill(request, job, want)
        return True

    def prefill(self, number: int, want: int) -> bool:
        """The next chunk of a running request."""
        request, job = self.running[number], self.jobs[number]
        want = min(want, request.target - request.computed)
        if want <= 0:
            return False
        need = self.cache.cost(request, cost_of(request.computed + want, self.size))
        assert need == self.plain.needed(job, request.computed + want)
        if need > self.pool.free:
            return False
        self._prefill(request, job, want)
        return True

    def _prefill(self, request: Request, job: Job, want: int) -> None:
        self.cache.hold(request, cost_of(request.computed + want, self.size))
        self.cache.fill(request, request.computed + want)
        self.plain.allocate(job, request.computed + want)
        request.computed = job.computed = request.computed + want
        self.plain.fill(job)
        if request.computed == request.target:
            self._token(request, job)

    def _token(self, request: Request, job: Job) -> None:
        request.produced += 1
        job.token_ps.append(0)

    def decode(self, number: int) -> bool:
        request, job = self.running[number], self.jobs[number]
        if request.computed < request.target or request.produced >= request.output_tokens:
            return False
        need = int(request.computed % self.size == 0)
        assert need == self.plain.needed(job, request.computed + 1)
        if need > self.pool.free:
            return False
        self.pool.take(need)
        self.plain.allocate(job, request.computed + 1)
        request.computed = job.computed = request.computed + 1
        self._token(request, job)
        return True

    def leave(self, number: int) -> None:
        """Finished if all tokens are there, else preempted."""
        request, job = self.running.pop(number), self.jobs[number]
        done = request.produced == request.output_tokens
        request.held = cost_of(request.computed, self.size)
        self.cache.release(request, request.computed // self.size, returns=not done)
        self.plain.release(job, request.computed)
        if not done:
            request.computed = job.computed = 0
            self.waiting[number] = request

    def agree(self) -> None:
        assert self.pool.free == self.pool.queued() == len(self.plain.free)
        held = sum(cost_of(request.computed, self.size) for request in self.running.values())
        assert held - self.pool.overlap == self.pool.total - self.pool.free
        for number, request in self.waiting.items():
            target = request.prompt_tokens + request.produced
            found, _ = self.cache.look_up(request, target)
            assert found * self.size == self.plain.lookup(self.jobs[number], target)


@dataclass(frozen=True)
class Shape:
    segments: tuple[Segment, ...]
    prompt: int
    output: int
    continues: bool


@st.composite
def shapes(draw: st.DrawFn, number: int) -> Shape:
    kind = draw(st.sampled_from(["own", "shared", "nested", "twin", "session"]))
    lengths = st.integers(1, 14)
    shared = (draw(st.sampled_from("ab")), draw(lengths))
    if kind == "own":
        segments: tuple[Segment, ...] = ()
    elif kind == "shared":
        segments = (shared,)
    elif kind == "nested":
        segments = (shared, (draw(st.sampled_from("cd")), draw(lengths)))
    else:
        # A stream is continued by one request only.
        segments = (shared, ("t" if kind == "twin" else ("tail", number), draw(lengths)))
    own = draw(st.integers(0 if segments and kind != "session" else 1, 9)) if kind != "session" else 0
    prompt = sum(tokens for _, tokens in segments) + own
    return Shape(segments, prompt, draw(st.integers(1, 9)), kind == "session")


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["admit", "admit", "prefill", "decode", "decode", "leave"]),
        st.integers(0, 7),
        st.integers(1, 20),
    ),
    max_size=70,
)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.tuples(*(shapes(number) for number in range(8))), OPERATIONS, st.sampled_from([1, 2, 3, 4, 8]),
    st.integers(4, 40), st.sampled_from([True, True, True, False]),
)  # fmt: skip
def test_it_finds_what_a_model_with_single_blocks_finds(
    chosen: tuple[Shape, ...], operations: list[tuple[str, int, int]], size: int, room: int, enabled: bool
) -> None:
    side = Side(1 + max(3, room // size), size, enabled)
    for number, shape in enumerate(chosen):
        side.arrive(Request(number, 0, shape.prompt, shape.output, shape.segments, shape.continues, session_id=number))
    for what, which, amount in operations:
        if what == "admit" and which in side.waiting:
            side.admit(which, amount)
        elif what == "prefill" and which in side.running:
            side.prefill(which, amount)
        elif what == "decode" and which in side.running:
            side.decode(which)
        elif what == "leave" and which in side.running:
            side.leave(which)
        side.agree()
    for number in list(side.running):
        side.leave(number)
    side.agree()
    assert side.pool.free == side.pool.total
    assert side.pool.overlap == 0


def whole(side: Side, number: int, segments: tuple[Segment, ...], prompt: int, output: int = 1, **more: Any) -> int:
    """Run one request from its admission to its end; returns the tokens found."""
    side.arrive(Request(number, 0, prompt, output, segments, **more))
    found, _ = side.cache.look_up(side.waiting[number], prompt)
    assert side.admit(number, prompt)
    while side.decode(number):
        pass
    side.leave(number)
    side.agree()
    return found * side.size


def test_whole_blocks_are_found_and_one_token_is_always_computed() -> None:
    side = Side(101, 16)
    assert whole(side, 0, (("s", 64),), 64) == 0
    assert whole(side, 1, (("s", 64),), 64) == 48
    assert whole(side, 2, (("s", 65),), 65) == 64
    assert whole(side, 3, (("s", 40),), 90) == 32
    assert whole(side, 4, (("other", 64),), 64) == 0


def test_a_prompt_that_nobody_shares_is_not_kept() -> None:
    side = Side(101, 16)
    whole(side, 0, (), 64)
    assert whole(side, 1, (), 64) == 0
    assert side.pool.free == 100


def test_an_answer_is_found_only_where_it_is_continued() -> None:
    """Prompt 30, answer 40: 69 tokens were computed, 4 blocks of 16 are full."""
    side = Side(101, 16)
    whole(side, 0, (("session", 30),), 30, 40, continues=True)
    assert whole(side, 1, (("session", 90),), 90, continues=True) == 64
    whole(side, 2, (("plain", 30),), 30, 40)
    assert whole(side, 3, (("plain", 90),), 90) == 16


def test_without_caching_nothing_is_found() -> None:
    side = Side(101, 16, enabled=False)
    whole(side, 0, (("s", 64),), 64)
    assert whole(side, 1, (("s", 64),), 64) == 0


def test_two_at_once_share_their_blocks() -> None:
    side = Side(101, 16)
    for number in range(2):
        side.arrive(Request(number, 0, 64, 4, (("s", 48),)))
        assert side.admit(number, 64)
    # Three shared blocks and one each of their own.
    assert side.pool.total - side.pool.free == 5
    assert side.pool.overlap == 3
    side.leave(0)
    assert side.pool.total - side.pool.free == 4
    side.leave(1)
    assert side.pool.free == side.pool.total


def test_blocks_that_are_being_filled_cannot_be_found_but_are_shared() -> None:
    side = Side(101, 16)
    for number in range(2):
        side.arrive(Request(number, 0, 64, 4, (("s", 64),)))
    assert side.admit(0, 20)
    found, referred = side.cache.look_up(side.waiting[1], 64)
    assert (found, referred) == (1, 2)


def test_a_preempted_request_finds_its_blocks_again() -> None:
    """Also those of a prompt of its own and of its answer, as far as they are full; nobody else does."""
    side = Side(101, 4)
    side.arrive(Request(0, 0, 10, 20))
    assert side.admit(0, 10)
    for _ in range(5):
        assert side.decode(0)
    side.leave(0)
    request = side.waiting[0]
    assert isinstance(request.own, Node)
    assert side.cache.look_up(request, request.prompt_tokens + request.produced)[0] == 3
    assert side.admit(0, 99)
    assert side.pool.total - side.pool.free == 4


def test_what_is_evicted_is_lost_from_its_end() -> None:
    side = Side(9, 4)
    whole(side, 0, (("s", 24),), 24)
    whole(side, 1, (), 16)
    # Six blocks of the stream stood behind two that were never used; four were needed.
    request = Request(2, 0, 25, 1, (("s", 24),))
    assert side.cache.look_up(request, 25)[0] == 4


def test_what_is_found_again_is_the_last_to_be_evicted() -> None:
    side = Side(9, 4)
    whole(side, 0, (("old", 12),), 12)
    whole(side, 1, (("new", 12),), 12)
    whole(side, 2, (("old", 12),), 13)
    whole(side, 3, (), 20)
    assert side.cache.look_up(Request(4, 0, 13, 1, (("old", 12),)), 13)[0] == 3
    assert side.cache.look_up(Request(5, 0, 13, 1, (("new", 12),)), 13)[0] < 3


def test_the_tree_forgets_what_nothing_is_left_of() -> None:
    """Streams that come once leave no nodes behind when their blocks are used again."""
    side = Side(9, 4)
    for number in range(50):
        whole(side, number, ((("shared"), 4), (("one", number), 12)), 16)
    children = side.cache._root.children
    assert children is not None
    (shared,) = children.values()
    assert shared.children is not None
    assert len(shared.children) <= 3


@pytest.mark.parametrize("size", [1, 16])
def test_cost_of_blocks_that_are_held_already(size: int) -> None:
    side = Side(101, size)
    side.arrive(Request(0, 0, 64, 1, (("s", 64),)))
    assert side.admit(0, 32)
    request = side.running[0]
    assert side.cache.cost(request, 32 // size) == 0
    assert side.cache.cost(request, 48 // size) == 16 // size
    side.cache.hold(request, 32 // size)
    assert side.pool.total - side.pool.free == 32 // size


@pytest.mark.parametrize("seed", range(30))
def test_long_histories(seed: int) -> None:
    """Many admissions, preemptions and ends of sessions and shared prompts in a pool that is always too small."""
    rng = random.Random(seed)
    size = rng.choice((1, 2, 4, 5, 16))
    side = Side(1 + rng.choice((30, 60, 120)) // size, size)
    history: dict[int, int] = {}
    number = 0
    for _ in range(2_000):
        what = rng.choice(("arrive", "admit", "admit", "prefill", "decode", "decode", "decode", "leave"))
        running, waiting = list(side.running), list(side.waiting)
        if what == "arrive" and len(waiting) + len(running) < 8:
            head = (rng.choice("abc"), rng.choice((3, 8, 13)))
            session = rng.randrange(3)
            free = all(each.session_id != session for each in (*side.running.values(), *side.waiting.values()))
            if rng.random() < 0.4 and free:
                # The next turn of a session, whose stream holds what was said and answered before.
                said = history.get(session, 0) + rng.randint(1, 5)
                answer = rng.randint(1, 6)
                history[session] = said + answer
                segments: tuple[Segment, ...] = (("system", 4), (("session", session), said))
                request = Request(number, 0, 4 + said, answer, segments, True, session_id=session)
            else:
                own = rng.randint(0, 6)
                request = Request(number, 0, head[1] + own, rng.randint(1, 12), (head,))
            if cost_of(request.prompt_tokens + request.output_tokens, size) <= side.pool.total:
                side.arrive(request)
                number += 1
            elif request.continues:
                history.pop(request.session_id)
        elif what == "admit" and waiting:
            side.admit(rng.choice(waiting), rng.randint(1, 30))
        elif what == "prefill" and running:
            side.prefill(rng.choice(running), rng.randint(1, 12))
        elif what == "decode" and running:
            side.decode(rng.choice(running))
        elif what == "leave" and running:
            side.leave(rng.choice(running))
        side.agree()
    assert number > 40
