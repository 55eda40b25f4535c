"""The sums over the decoding requests, against the same sums counted request by request."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from servetwin.engine.batch import NEVER, DecodeBatch
from servetwin.request import Request


def decoding(number: int, computed: int, left: int) -> Request:
    """A request that decodes with ``computed`` tokens in the cache and ``left`` tokens still to produce."""
    request = Request(number, 0, computed, left + 1)
    request.computed = computed
    request.produced = 1
    return request


class Plain:
    """The batch as a dictionary: per request, tokens computed and steps left."""

    def __init__(self, block_size: int, windows: tuple[int, ...]) -> None:
        self.block_size = block_size
        self.windows = windows
        self.step = 0
        self.members: dict[Request, list[int]] = {}

    def new_blocks(self, steps: int) -> int:
        return sum(
            sum((computed + step) % self.block_size == 0 for step in range(steps))
            for computed, _ in self.members.values()
        )

    def context(self, window: int | None = None) -> int:
        reads = [computed + 1 for computed, _ in self.members.values()]
        return sum(reads if window is None else [min(read, window) for read in reads])

    def growing(self, window: int) -> int:
        return sum(computed + 1 < window for computed, _ in self.members.values())


def agree(batch: DecodeBatch, plain: Plain) -> None:
    assert (batch.size, batch.step, batch.context) == (len(plain.members), plain.step, plain.context())
    for window in batch.windows:
        assert (window.context, window.growing) == (plain.context(window.window), plain.growing(window.window))
    for request, (computed, _) in plain.members.items():
        assert batch.computed(request) == computed
    for steps in (1, 2, 3, batch.block_size, 2 * batch.block_size + 1):
        assert batch.new_blocks(steps) == plain.new_blocks(steps)
    ends = [plain.step + left for _, left in plain.members.values()]
    assert batch.next_finish() == min(ends, default=NEVER)
    crossings = [
        plain.step + window - (computed + 1)
        for window in plain.windows
        for computed, _ in plain.members.values()
        if computed + 1 < window
    ]
    # Requests that have left may still stand in the heap; the answer may be too early, never too late.
    assert batch.next_crossing() <= min(crossings, default=NEVER)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 40), st.integers(1, 30)),
        st.tuples(st.just("leave"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("rejoin"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("advance"), st.integers(1, 12), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(operations, st.sampled_from([1, 2, 3, 4, 16]), st.sampled_from([(), (8,), (5, 20)]))
def test_sums_are_those_of_the_requests(
    steps: list[tuple[str, int, int]], block_size: int, windows: tuple[int, ...]
) -> None:
    batch, plain = DecodeBatch(block_size, windows), Plain(block_size, windows)
    number = 0
    for what, one, other in steps:
        version = batch.version
        if what == "join":
            request = decoding(number, one, other)
            number += 1
            plain.members[request] = [one, other]
            batch.join(request)
        elif what in ("leave", "rejoin") and plain.members:
            request = list(plain.members)[one % len(plain.members)]
            batch.leave(request)
            computed, left = plain.members.pop(request)
            assert request.computed == computed
            assert request.output_tokens - request.produced == left
            if what == "rejoin":
                plain.members[request] = [computed, left]
                batch.join(request)
        elif what == "advance":
            limit = min([left for _, left in plain.members.values()], default=one)
            crossing = batch.next_crossing() - batch.step
            count = min(one, limit, crossing) if crossing > 0 else min(one, limit)
            batch.advance(count)
            plain.step += count
            for member in plain.members.values():
                member[0] += count
                member[1] -= count
            done = batch.retire()
            assert set(done) == {request for request, (_, left) in plain.members.items() if left == 0}
            for request in done:
                del plain.members[request]
        else:
            continue
        assert batch.version >= version
        if what in ("join", "rejoin", "leave"):
            assert batch.version > version
        agree(batch, plain)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(0, 60), st.integers(0, 80),
    st.sampled_from([1, 2, 3, 8, 16]), st.integers(0, 20),
)  # fmt: skip
def test_steps_within_free_blocks(contexts: list[int], free: int, limit: int, block_size: int, start: int) -> None:
    """As many steps as find a block for every request that needs one, at most the limit."""
    batch, plain = DecodeBatch(block_size, ()), Plain(block_size, ())
    batch.advance(start)
    for number, computed in enumerate(contexts):
        request = decoding(number, computed, 1_000)
        batch.join(request)
        plain.members[request] = [computed, 1_000]
    steps = 0
    while steps < limit and plain.new_blocks(steps + 1) <= free:
        steps += 1
    assert batch.steps_within(free, limit) == steps


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40)), min_size=1, max_size=8), st.integers(0, 12),
    st.sampled_from([1, 2, 3, 16]), st.sampled_from([(), (8,), (4, 30)]),
)  # fmt: skip
def test_steps_ahead_are_those_that_change_nothing(
    members: list[tuple[int, int]], free: int, block_size: int, windows: tuple[int, ...]
) -> None:
    """Until the first request ends, stops growing within a window, or finds no block."""
    batch, plain = DecodeBatch(block_size, windows), Plain(block_size, windows)
    for number, (computed, left) in enumerate(members):
        request = decoding(number, computed, left)
        batch.join(request)
        plain.members[request] = [computed, left]
    limit = min(left for _, left in members)
    crossings = [window - computed - 1 for window in windows for computed, _ in members if computed + 1 < window]
    limit = min([limit, *crossings])
    expected = 0
    while expected < limit and plain.new_blocks(expected + 1) <= free:
        expected += 1
    assert batch.steps_ahead(free) == expected


def test_requests_end_in_the_order_in_which_they_joined() -> None:
    """Two whose last steps are the same."""
    batch = DecodeBatch(16, ())
    first, second, longer = decoding(0, 5, 3), decoding(1, 9, 3), decoding(2, 1, 9)
    for request in (longer, first, second):
        batch.join(request)
    batch.advance(3)
    assert batch.retire() == [first, second]
    assert (batch.size, batch.next_finish()) == (1, 9)


def test_a_request_that_left_finishes_nothing() -> None:
    """Its entry in the heap is stale, also when it has joined again since."""
    batch = DecodeBatch(4, ())
    request = decoding(0, 3, 5)
    batch.join(request)
    batch.advance(2)
    batch.leave(request)
    assert (request.computed, request.produced) == (5, 3)
    assert batch.next_finish() == NEVER
    batch.advance(4)
    batch.join(request)
    assert batch.next_finish() == 6 + 3
    batch.advance(3)
    assert batch.retire() == [request]
    assert batch.retire() == []


def test_a_window_is_left_where_it_is_full() -> None:
    """With 6 tokens computed a request reads 7, 8 and then no more than 8."""
    batch = DecodeBatch(16, (8,))
    (window,) = batch.windows
    batch.join(decoding(0, 6, 9))
    sums: list[Any] = [(window.context, window.growing)]
    for _ in range(3):
        batch.advance(1)
        sums.append((window.context, window.growing))
    assert sums == [(7, 1), (8, 0), (8, 0), (8, 0)]
