"""The scheduler's rules in small cases worked by hand, at every stepping level, with all accounts checked.

A step takes 1,000 ps whatever is in it, unless a case says otherwise, so that times are counts of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.oracle.plain_log import PlainLog
from tests.reference.simple_policies import Fcfs, Priority
from tests.theory.queue import PerToken

from servetwin.engine.executor import Executor
from servetwin.engine.protocols import STEPPING, EngineSettings
from servetwin.errors import InvariantError
from servetwin.kernel import ARRIVAL, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import COMPLETED, REJECTED, Request


@dataclass
class Ran:
    """One engine after its requests."""

    executor: Executor
    log: PlainLog
    finished: dict[int, int]

    @property
    def gaps(self) -> list[int]:
        return self.log.itl_ps()

    def steps(self) -> list[int]:
        """Tokens of one step after the other."""
        return [step.tokens for step in self.log.steps(0)]


@pytest.fixture(params=STEPPING)
def engine(request: pytest.FixtureRequest) -> Any:
    """Run requests on an engine with some settings."""

    def run(*requests: Request, scheduler: Any = None, token_ps: int = 0, **changes: Any) -> Ran:
        values: dict[str, Any] = {
            "max_num_batched_tokens": 100, "max_num_seqs": 8, "max_model_len": 400, "block_size": 4, "num_blocks": 101,
            "depth": 0, "reserve_full_prompt": False,
        }  # fmt: skip
        settings = EngineSettings(**(values | changes))
        env, log, finished = new_environment(), PlainLog(), {}

        def ended(request: Request, visible_ps: int) -> None:
            finished[request.id] = visible_ps

        executor = Executor(
            env, 0, PerToken(1_000, token_ps), settings, scheduler or Fcfs(), log, ended, request.param, strict=True
        )
        for each in requests:
            order = priority(ARRIVAL, each.id)
            call_at(env, each.arrival_ps, order, lambda each=each: executor.submit(each))
        env.run()
        assert executor.rank.pool.free == executor.rank.pool.total
        assert executor.rank.tokens_held == executor.rank.generated == 0
        assert len(finished) == len(requests)
        return Ran(executor, log, finished)

    return run


def test_the_last_admitted_is_preempted_and_computes_again(engine: Any) -> None:
    """Two prompts of two blocks; both need a third at the second step, and there are five."""
    first, second = Request(0, 0, 8, 10), Request(1, 0, 8, 10)
    ran = engine(first, second, num_blocks=6)
    assert (first.preemptions, first.recomputed_tokens, first.last_token_ps) == (0, 0, 10_000)
    # Ready again when request 0 has gone, its blocks used by it: nine known tokens, eight of them computed before.
    assert (second.first_token_ps, second.preemptions, second.recomputed_tokens) == (1_000, 1, 8)
    assert (second.scheduled_ps, second.hit_tokens) == (0, 0)
    assert second.last_token_ps == 10_000 + 9_000
    assert ran.steps() == [16, *[1] * 9, 9, *[1] * 8]
    # One gap spans request 0's whole life; the others are single steps.
    assert ran.gaps == [1_000] * 17 + [10_000]
    # Eight of the nine tokens of one step were work that had been done before.
    assert ran.log.spent(1)[0]["recompute"] == 1_000 * 8 // 9


def test_whoever_stands_behind_a_victim_sits_out_a_step(engine: Any) -> None:
    """Request 1 is least important and in the middle: it gives up its own seat, which ends the pass."""
    requests = [Request(0, 0, 4, 4, priority=0), Request(1, 0, 4, 2, priority=5), Request(2, 0, 4, 3, priority=0)]
    # In this order in the running list: they arrive one after the other, before the first step ends.
    ran = engine(*requests, scheduler=Order(), num_blocks=5)
    assert [request.preemptions for request in requests] == [0, 1, 0]
    assert ran.steps() == [12, 1, 2, 2, 5]
    assert [request.last_token_ps for request in requests] == [4_000, 5_000, 4_000]
    assert requests[1].recomputed_tokens == 4
    # Request 2 waits two steps for its second token, request 1 four.
    assert ran.gaps == [1_000] * 4 + [2_000, 4_000]


def test_among_equals_the_last_admitted_is_preempted(engine: Any) -> None:
    requests = [Request(number, 0, 8, 10, priority=3) for number in range(2)]
    engine(*requests, scheduler=Order(), num_blocks=6)
    assert [request.preemptions for request in requests] == [0, 1]


class Order(Priority):
    """Admitted by id, preempted by priority."""

    def order(self, request: Request, cached_tokens: int) -> int:
        return request.id


def test_the_head_of_the_queue_blocks_all_behind_it(engine: Any) -> None:
    """Request 1 needs 5 of 8 blocks while request 0 has 4; request 2 would fit and waits."""
    requests = [Request(0, 0, 15, 3), Request(1, 10, 18, 1), Request(2, 20, 1, 1)]
    engine(*requests, num_blocks=9)
    assert [request.scheduled_ps for request in requests] == [0, 3_000, 3_000]


def test_the_whole_prompt_must_fit_where_that_is_asked(engine: Any) -> None:
    """A prompt of 30 tokens in chunks of 10, with 5 blocks free: the first chunk would fit."""
    for reserve, scheduled in ((False, 1_000), (True, 6_000)):
        first, second = Request(0, 0, 10, 6), Request(1, 10, 30, 1)
        engine(first, second, num_blocks=10, max_num_batched_tokens=11, reserve_full_prompt=reserve)
        assert second.scheduled_ps == scheduled, reserve


def test_the_watermark_holds_back_what_would_fit(engine: Any) -> None:
    """Two blocks stay free while anybody runs; alone a request may have them."""
    first, second = Request(0, 0, 16, 3), Request(1, 10, 16, 1)
    engine(first, second, num_blocks=10, watermark_blocks=2)
    assert second.scheduled_ps == 3_000
    first, second = Request(0, 0, 16, 3), Request(1, 10, 12, 1)
    engine(first, second, num_blocks=11, watermark_blocks=2)
    assert second.scheduled_ps == 1_000
    alone = Request(0, 0, 36, 1)
    engine(alone, num_blocks=10, watermark_blocks=2)
    assert alone.scheduled_ps == 0


def test_seats_run_out(engine: Any) -> None:
    requests = [Request(number, 0, 4, 2) for number in range(5)]
    ran = engine(*requests, max_num_seqs=2)
    assert [request.scheduled_ps for request in requests] == [0, 0, 2_000, 2_000, 4_000]
    assert ran.steps() == [8, 2, 8, 2, 4, 1]


def test_prompts_are_cut_to_the_budget(engine: Any) -> None:
    """Budget 10: the first prompt takes three steps, the second what is left of the third."""
    first, second = Request(0, 0, 25, 2), Request(1, 0, 8, 2)
    ran = engine(first, second, max_num_batched_tokens=10)
    assert ran.steps() == [10, 10, 10, 4, 1]
    assert (first.first_token_ps, second.scheduled_ps, second.first_token_ps) == (3_000, 2_000, 4_000)
    assert (first.last_token_ps, second.last_token_ps) == (4_000, 5_000)


def test_prompts_are_not_cut_where_that_is_off(engine: Any) -> None:
    first, second = Request(0, 0, 7, 2), Request(1, 0, 8, 1)
    ran = engine(first, second, max_num_batched_tokens=10, chunked_prefill=False)
    assert ran.steps() == [7, 9]


def test_long_prompts_leave_room_for_short_ones(engine: Any) -> None:
    """At most four tokens a step of one prompt."""
    long, short = Request(0, 0, 10, 1), Request(1, 0, 3, 1)
    ran = engine(long, short, max_num_batched_tokens=10, long_prefill_token_threshold=4)
    assert ran.steps() == [7, 4, 2]
    assert (long.first_token_ps, short.first_token_ps) == (3_000, 1_000)


@pytest.mark.parametrize(
    ("depth", "arrival_ps", "scheduled_ps", "first_token_ps"),
    [
        # An arrival at a boundary is seen by the plan made there.
        (0, 3_000, 3_000, 4_000), (0, 3_001, 4_000, 5_000), (0, 2_999, 3_000, 4_000),
        # One step ahead: the plan made at 3,000 is for the step that starts at 4,000.
        (1, 3_000, 3_000, 5_000), (1, 3_001, 4_000, 6_000), (1, 2_999, 3_000, 5_000),
    ],
)  # fmt: skip
def test_when_an_arrival_takes_part(
    depth: int, arrival_ps: int, scheduled_ps: int, first_token_ps: int, engine: Any
) -> None:
    running, late = Request(0, 0, 4, 50), Request(1, arrival_ps, 4, 1)
    engine(running, late, depth=depth)
    assert (late.scheduled_ps, late.first_token_ps) == (scheduled_ps, first_token_ps)


@pytest.mark.parametrize("depth", [0, 1])
def test_an_idle_engine_starts_at_once(depth: int, engine: Any) -> None:
    requests = [Request(0, 100, 4, 2), Request(1, 7_777, 4, 2)]
    engine(*requests, depth=depth)
    assert [request.scheduled_ps for request in requests] == [100, 7_777]
    assert [request.last_token_ps for request in requests] == [2_100, 9_777]


@pytest.mark.parametrize(("depth", "scheduled_ps"), [(0, 2_000), (1, 2_000)])
def test_blocks_of_a_finished_request_return_at_its_last_output(depth: int, scheduled_ps: int, engine: Any) -> None:
    """One step ahead, the plan that sees them is for the step after the next: nothing runs, so it starts at once."""
    first, second = Request(0, 0, 12, 2), Request(1, 0, 12, 1)
    engine(first, second, depth=depth, num_blocks=5)
    assert second.scheduled_ps == scheduled_ps
    assert second.first_token_ps == 3_000


def test_the_front_end_is_a_queue(engine: Any) -> None:
    """10 ps each and 2 ps a token, and nobody overtakes."""
    requests = [Request(0, 0, 100, 1), Request(1, 1, 4, 1), Request(2, 500, 4, 1)]
    engine(*requests, front_end_ps=10, front_end_per_token_ps=2, max_num_batched_tokens=300)
    assert [request.queued_ps for request in requests] == [210, 210, 518]
    assert [request.scheduled_ps for request in requests] == [210, 210, 1_210]


def test_tokens_are_visible_later_and_in_order(engine: Any) -> None:
    """300 ps a request: two in the first step, so at 1,600; the second step's at 2,300."""
    requests = [Request(0, 0, 4, 3), Request(1, 0, 4, 1)]
    ran = engine(*requests, output_ps_per_request=300)
    assert [request.first_token_ps for request in requests] == [1_600, 1_600]
    assert [request.prefill_done_ps for request in requests] == [1_000, 1_000]
    assert requests[0].last_token_ps == 3_300
    assert ran.gaps == [700, 1_000]
    assert ran.finished == {0: 3_300, 1: 1_600}


def test_tokens_never_overtake_those_of_a_larger_step(engine: Any) -> None:
    """Eight requests end together, 2,400 ps after their step; the next one's token waits for theirs."""
    requests = [*(Request(number, 0, 4, 1) for number in range(7)), Request(7, 0, 4, 4)]
    ran = engine(*requests, output_ps_per_request=300)
    assert {request.first_token_ps for request in requests} == {1_000 + 8 * 300}
    assert ran.gaps == [0, 0, 4_300 - 3_400]
    assert requests[7].last_token_ps == 4_300


@pytest.mark.parametrize("depth", [0, 1])
def test_a_request_that_fills_every_block_runs(depth: int, engine: Any) -> None:
    """Five blocks of four: the last token needs no slot."""
    fits, too_long = Request(0, 0, 11, 10), Request(1, 0, 12, 10)
    engine(fits, too_long, depth=depth, num_blocks=6)
    assert (fits.outcome, too_long.outcome) == (COMPLETED, REJECTED)
    assert too_long.reason == "longer than the KV cache of a replica: 5 blocks of 4 tokens"
    assert too_long.queued_ps == too_long.scheduled_ps == -1


def test_a_request_longer_than_the_model_is_rejected(engine: Any) -> None:
    fits, too_long = Request(0, 0, 30, 10), Request(1, 5, 31, 10)
    ran = engine(fits, too_long, max_model_len=40)
    assert (fits.outcome, too_long.outcome) == (COMPLETED, REJECTED)
    assert too_long.reason == "longer than max_model_len 40"
    assert ran.finished[1] == 5


@pytest.mark.parametrize("depth", [0, 1])
def test_single_tokens(depth: int, engine: Any) -> None:
    """Prompt and answer of one token each: nothing decodes."""
    requests = [Request(number, 0, 1, 1) for number in range(3)]
    ran = engine(*requests, depth=depth)
    assert ran.steps() == [3]
    assert ran.gaps == []
    assert {request.last_token_ps for request in requests} == {1_000}


@pytest.mark.parametrize("depth", [0, 1])
def test_requests_of_one_prefix_in_one_plan(depth: int, engine: Any) -> None:
    """The second finds what the first is about to compute; at least its last token is computed."""
    requests = [Request(number, 0, 16, 1, (("s", 16),)) for number in range(3)]
    ran = engine(*requests, depth=depth)
    assert [request.hit_tokens for request in requests] == [0, 12, 12]
    assert ran.steps() == [16 + 4 + 4]


def test_a_preempted_request_finds_its_own_blocks(engine: Any) -> None:
    """Its two full blocks lie in the free queue behind two that nobody used."""
    first, second = Request(0, 0, 8, 6), Request(1, 0, 8, 6)
    engine(first, second, num_blocks=6)
    # Request 0 needs 13 tokens' slots, four blocks; the fourth is evicted from request 1's end.
    assert (second.preemptions, second.recomputed_tokens) == (1, 4)


def test_accounts_that_do_not_balance_are_noticed() -> None:
    env = new_environment()
    settings = EngineSettings(100, 8, 400, 4, 101, depth=0)
    executor = Executor(env, 0, PerToken(1_000, 0), settings, Fcfs(), PlainLog(), lambda request, at: None, strict=True)
    executor.submit(Request(0, 0, 8, 10))
    env.run(until=1_500)
    executor.rank.tokens_held += 1
    executor.submit(Request(1, 0, 8, 10))
    with pytest.raises(InvariantError, match="tokens in the KV cache"):
        env.run()


def test_a_longer_prompt_costs_its_tokens(engine: Any) -> None:
    """With a price per prompt token the steps differ, and the gaps with them."""
    running, late = Request(0, 0, 4, 5), Request(1, 1_500, 20, 2)
    ran = engine(running, late, token_ps=10)
    # 1,040 · 2,040 · 3,240 (with the prompt of 20) · 4,240 · 5,240.
    assert [running.first_token_ps, running.last_token_ps] == [1_040, 5_240]
    assert (late.scheduled_ps, late.first_token_ps, late.last_token_ps) == (2_040, 3_240, 4_240)
    assert ran.gaps == [1_000] * 4 + [1_200]
