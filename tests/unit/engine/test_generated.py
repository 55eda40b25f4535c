"""What a router reads in the middle of a run: output tokens as of the last step that ended."""

from __future__ import annotations

import pytest
from tests.oracle.plain_log import PlainLog
from tests.theory.queue import Fcfs, PerToken

from servetwin.engine.executor import Executor
from servetwin.engine.protocols import STEPPING, EngineSettings
from servetwin.kernel import ARRIVAL, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import Request


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("stepping", STEPPING)
def test_a_step_counts_when_it_has_ended_and_not_at_that_instant(stepping: str, depth: int) -> None:
    """Steps of 1,000 ps: both prompts, then decodes; an arrival goes before a boundary of the same instant."""
    settings = EngineSettings(100, 8, 400, 4, 101, depth=depth, reserve_full_prompt=False)
    env, seen = new_environment(), {}
    executor = Executor(env, 0, PerToken(1_000, 0), settings, Fcfs(), PlainLog(), lambda *_: None, stepping)
    for number in range(2):
        request = Request(number, 0, 5, 7)
        call_at(env, 0, priority(ARRIVAL, number), lambda request=request: executor.submit(request))
    instants = [at + off for at in range(1_000, 7_001, 1_000) for off in (-1, 0, 1)]
    for number, at in enumerate(instants, 2):
        call_at(env, at, priority(ARRIVAL, number), lambda at=at: seen.update({at: executor.generated(at)}))
    env.run()
    # One token of each request by every step; with the seventh they end, and their tokens count no more.
    for at in range(1_000, 7_000, 1_000):
        ended = at // 1_000
        assert (seen[at - 1], seen[at], seen[at + 1]) == (2 * ended - 2, 2 * ended - 2, 2 * ended)
    assert (seen[6_999], seen[7_000], seen[7_001]) == (12, 12, 0)
