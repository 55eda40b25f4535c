"""The seam for KV cache that lies elsewhere, with a connector that finds tokens and takes its time to load them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.theory.queue import Fcfs, Log, PerToken

from servetwin.engine.executor import Executor
from servetwin.engine.protocols import STEPPING, EngineSettings
from servetwin.kernel import ARRIVAL, FLOW_END, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import Request

STEP_PS = 1_000


class Store:
    """Finds ``hits[id]`` tokens and loads them in ``load_ps``."""

    def __init__(self, env: object, hits: dict[int, int], load_ps: int) -> None:
        self.env = env
        self.hits = hits
        self.load_ps = load_ps
        self.calls: list[tuple[str, int, int]] = []
        self.watches = False

    def lookup(self, request: Request, local_tokens: int) -> int:
        return max(0, self.hits.get(request.id, 0) - local_tokens)

    def load(self, request: Request, tokens: int, done: Callable[[bool, bool], None]) -> None:
        self.calls.append(("load", request.id, tokens))
        call_at(self.env, self.env.now + self.load_ps, priority(FLOW_END, request.id), lambda: done(True, False))

    def saved(self, request: Request, tokens: int) -> None:
        self.calls.append(("saved", request.id, tokens))

    def computing(self, request: Request, before: int, tokens: int, end_ps: int) -> None:
        raise AssertionError("nobody watches")

    def finished(self, request: Request) -> bool:
        self.calls.append(("finished", request.id, request.computed))
        return False


def _run(
    requests: list[Request], hits: dict[int, int], load_ps: int, depth: int = 0, blocks: int = 101,
    stepping: str = "skip-ahead",
) -> tuple[Executor, Store]:  # fmt: skip
    env = new_environment()
    log = Log()
    settings = EngineSettings(256, 8, 4096, 16, blocks, depth=depth)
    store = Store(env, hits, load_ps)
    executor = Executor(
        env, 0, PerToken(STEP_PS, 10), settings, Fcfs(), log, lambda request, at: log.finished(request), stepping,
        strict=True, connector=store,
    )  # fmt: skip
    for request in requests:
        call_at(
            env, request.arrival_ps, priority(ARRIVAL, request.id), lambda request=request: executor.submit(request)
        )
    env.run()
    assert len(log.done) == len(requests)
    assert executor.rank.pool.free == blocks - 1
    assert executor.rank.tokens_held == 0
    return executor, store


def test_loaded_tokens_are_not_computed_and_the_wait_does_not_block_those_behind() -> None:
    """Request 0 loads 64 of its 100 tokens for 5,000 ps; request 1 comes later and is served meanwhile."""
    first, second = Request(0, 0, 100, 2), Request(1, 10, 20, 1)
    _, store = _run([first, second], {0: 64}, 5_000)
    # Request 1: prefill of 20 tokens from 10 on: 1000 + 20 · 10.
    assert second.first_token_ps == 10 + 1_200
    # Request 0 is back at 5000 and computes the remaining 36 tokens, then one decode step.
    assert first.scheduled_ps == 5_000
    assert first.hit_tokens == 64
    assert first.first_token_ps == 5_000 + 1_360
    assert first.last_token_ps == 5_000 + 1_360 + 1_000
    assert ("load", 0, 64) in store.calls
    assert ("finished", 0, 101) in store.calls
    assert ("saved", 0, 100) in store.calls


def test_a_return_from_the_connector_cuts_a_run_short() -> None:
    """A request decodes 50 steps; another returns from loading in the middle and joins at the next boundary."""
    decoding, loading = Request(0, 0, 16, 50), Request(1, 100, 100, 1)
    _run([decoding, loading], {1: 96}, 20_000)
    # Steps end at 1160 + k · 1000; request 1 is looked at when the first ends, and is back 20,000 ps later.
    assert loading.scheduled_ps == 1_160 + 20_000


@pytest.mark.parametrize("depth", [0, 1])
def test_stepping_levels_agree_with_a_connector(depth: int) -> None:
    """Loads that end in the middle of runs, with few blocks, at all three levels."""
    stamps = []
    for stepping in STEPPING:
        requests = [Request(i, 700 * i, 40 + 13 * i % 90, 5 + 7 * i % 60) for i in range(40)]
        hits = {i: 16 * (i % 5) for i in range(40) if 16 * (i % 5) < 40 + 13 * i % 90}
        _run(requests, hits, 3_333, depth, 40, stepping)
        stamps.append([(r.scheduled_ps, r.first_token_ps, r.last_token_ps, r.preemptions) for r in requests])
    assert stamps[0] == stamps[1] == stamps[2]


def test_loaded_blocks_never_lock_the_head_out() -> None:
    """The blocks are nearly all loaded for requests that wait behind a head that needs them."""
    requests = [Request(0, 0, 32, 100), *(Request(i, i, 120, 8) for i in range(1, 5))]
    _run(requests, dict.fromkeys(range(1, 5), 96), 500, 1, 10)
