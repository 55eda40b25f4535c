"""Micro-batches on pipeline stages, worked by hand, at every stepping level, with all accounts checked.

A stage takes 100 ps for a step, whatever is in it, unless a case says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.oracle.plain_log import PlainLog
from tests.reference.simple_policies import Fcfs
from tests.reference.simple_price import AffinePrice, PipelinePrice

from servetwin.engine.audit import audit_rank
from servetwin.engine.pipeline import PipelinedExecutor
from servetwin.engine.protocols import STEPPING, EngineSettings
from servetwin.errors import InvariantError
from servetwin.kernel import ARRIVAL, new_environment, priority
from servetwin.kernel.nap import call_at
from servetwin.request import Request


@dataclass
class Ran:
    """One pipeline after its requests."""

    executor: PipelinedExecutor
    log: PlainLog
    end_ps: int

    def returns(self) -> list[int]:
        """When each micro-batch came back."""
        return [step.start_ps + step.duration_ps for step in self.log.steps(0)]

    def sizes(self) -> list[int]:
        """Tokens of each micro-batch."""
        return [step.tokens for step in self.log.steps(0)]

    def books(self) -> dict[str, int]:
        """The ledger, without what is 0."""
        (spent,) = self.log.spent(1)
        return {bucket: time for bucket, time in self.executor.ledger(spent, self.end_ps).items() if time}


Run = Callable[..., Ran]


def stage(base: int = 100, token: int = 0) -> AffinePrice:
    return AffinePrice(base=base, token=token, context=(0,), layers=1)


@pytest.fixture(params=STEPPING)
def pipeline(request: pytest.FixtureRequest) -> Run:
    """Run requests on stages of some prices."""

    def run(*requests: Request, stages: Any = 2, hand_off: int = 0, until: int | None = None, **changes: Any) -> Ran:
        values: dict[str, Any] = {
            "max_num_batched_tokens": 100, "max_num_seqs": 8, "max_model_len": 400, "block_size": 4, "num_blocks": 101,
            "depth": 0, "reserve_full_prompt": False,
        }  # fmt: skip
        parts = tuple([stage()] * stages) if isinstance(stages, int) else tuple(stages)
        settings = EngineSettings(**(values | changes), stages=len(parts))
        env, log = new_environment(), PlainLog()
        executor = PipelinedExecutor(
            env, 0, PipelinePrice(parts, latency=hand_off), settings, Fcfs(), log, lambda *_: None, request.param,
            strict=True,
        )  # fmt: skip
        for each in requests:
            order = priority(ARRIVAL, each.id)
            call_at(env, each.arrival_ps, order, lambda each=each: executor.submit(each))
        env.run(until)
        end = max(each.last_token_ps for each in requests) if until is None else until
        executor.stop(end)
        if until is None:
            assert executor.rank.pool.free == executor.rank.pool.total
            assert executor.rank.tokens_held == executor.rank.generated == 0
        return Ran(executor, log, end)

    return run


def test_a_single_request_passes_through_all_stages(pipeline: Run) -> None:
    """A token takes the sum of the stages and of the hand-offs; each stage works 1 / 3 of the rest of the time."""
    one = Request(0, 0, 8, 3)
    ran = pipeline(one, stages=3, hand_off=10)
    assert ran.returns() == [320, 640, 960]
    assert (one.first_token_ps, one.last_token_ps) == (320, 960)
    assert ran.log.itl_ps() == [320, 320]
    # 3 · 960 ps: every stage works 3 · 100; two hand-offs of 10 in each round, while the next stage waits for them.
    assert ran.books() == {"hbm": 900, "exposed_communication": 60, "bubble": 1920}


def test_what_arrives_meanwhile_joins_the_only_micro_batch(pipeline: Run) -> None:
    """The engine sees arrivals when a batch comes back, and schedules them with what has come back: one batch."""
    requests = [Request(0, 0, 8, 4), Request(1, 50, 8, 4), Request(2, 250, 8, 4)]
    ran = pipeline(*requests)
    # 0 alone; with 1; with both others; and so on: the second stage is never busy beside the first.
    assert ran.returns() == [200, 400, 600, 800, 1000, 1200]
    assert ran.sizes() == [8, 9, 10, 3, 2, 1]
    assert ran.books()["bubble"] == ran.books()["hbm"] == 1200


def test_prompts_beyond_the_budget_fill_the_slots(pipeline: Run) -> None:
    """Two prompts at once, a budget for one: the second goes into the next slot, and both keep their micro-batch."""
    ran = pipeline(Request(0, 0, 10, 3), Request(1, 0, 10, 3), max_num_batched_tokens=10)
    # Stage 1: A 0–100, B 100–200; stage 2: A 100–200, B 200–300. A again from 200 on stage 1: no stage ever waits.
    assert ran.returns() == [200, 300, 400, 500, 600, 700]
    assert ran.sizes() == [10, 10, 1, 1, 1, 1]
    # At the ends one stage waits for 100 each.
    assert ran.books() == {"hbm": 1200, "bubble": 200}


def test_a_full_pipeline_is_as_fast_as_its_slowest_stage(pipeline: Run) -> None:
    """Three micro-batches on three stages of 100, 150 and 50: one comes back every 150 ps."""
    requests = [Request(number, 0, 10, 4) for number in range(3)]
    ran = pipeline(*requests, stages=[stage(100), stage(150), stage(50)], max_num_batched_tokens=10)
    assert ran.returns() == [300 + 150 * place for place in range(12)]
    assert ran.log.itl_ps() == [450] * 9


def test_one_more_slot_hides_the_return(pipeline: Run) -> None:
    """With asynchronous scheduling p + 1 batches are in flight: the third waits before the first stage."""
    requests = [Request(number, 0, 10, 3) for number in range(3)]
    ran = pipeline(*requests, max_num_batched_tokens=10, depth=1)
    assert ran.returns() == [200 + 100 * place for place in range(9)]
    # The third slot is the only difference: without it the third prompt waits until the first batch is back.
    slower = pipeline(*(Request(number, 0, 10, 3) for number in range(3)), max_num_batched_tokens=10)
    # At 200 request 0 decodes together with the prompt of request 2, as far as the budget goes: nine tokens of ten.
    assert slower.sizes()[:4] == [10, 10, 10, 2]


def test_the_chunks_of_a_prompt_follow_each_other(pipeline: Run) -> None:
    """The next chunk is scheduled while the one before is in flight; the request decodes where its last chunk is."""
    one = Request(0, 0, 40, 2)
    ran = pipeline(one, stages=4, max_num_batched_tokens=10, max_num_seqs=4)
    assert ran.sizes() == [10, 10, 10, 10, 1]
    assert ran.returns() == [400, 500, 600, 700, 1100]
    assert (one.first_token_ps, one.last_token_ps) == (700, 1100)


def test_a_hand_off_behind_a_busy_stage_is_hidden(pipeline: Run) -> None:
    """Stage 2 is the slower one, and always has the next input before it is done."""
    requests = [Request(number, 0, 10, 4) for number in range(3)]
    ran = pipeline(*requests, stages=[stage(50), stage(200)], hand_off=20, max_num_batched_tokens=10, depth=1)
    assert ran.returns() == [270 + 200 * place for place in range(12)]
    # Only the very first input is waited for.
    assert ran.books()["exposed_communication"] == 20


def test_balanced_micro_batches(pipeline: Run) -> None:
    """Four requests that decode in one batch spread over two, and stay there."""

    def four() -> list[Request]:
        return [Request(number, 0, 10, 5) for number in range(4)]

    stages = [stage(100, 10), stage(100, 10)]
    together = pipeline(*four(), stages=stages)
    assert together.sizes() == [40, 4, 4, 4, 4]
    assert together.returns()[1:] == [1000 + 280 * turn for turn in range(1, 5)]
    balanced = pipeline(*four(), stages=stages, balanced=True)
    assert balanced.sizes() == [40, *[2] * 8]
    # Both halves leave at 1000, one behind the other; then each half comes back every 240, 120 after the other.
    assert balanced.returns()[1:] == [1240 + 120 * turn for turn in range(8)]


def test_nobody_in_flight_is_preempted(pipeline: Run) -> None:
    """Request 0 finds no block while request 1, whose turn it is to go, is in flight: it waits for it to come back."""
    first, second = Request(0, 0, 8, 6), Request(1, 0, 8, 6)
    ran = pipeline(first, second, max_num_batched_tokens=8, num_blocks=5, prefix_caching=False)
    # Both prompts take two blocks; at 200 request 0 needs a third. Request 1 is back at 300 and gives up its own.
    assert ran.returns()[:3] == [200, 300, 500]
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert first.last_token_ps == 300 + 5 * 200
    # One token of it is there: nine known ones, eight of them computed before.
    assert second.recomputed_tokens == 8


def test_an_idle_pipeline_sees_an_arrival_at_once(pipeline: Run) -> None:
    late = Request(1, 1000, 8, 1)
    ran = pipeline(Request(0, 0, 8, 1), late)
    assert late.first_token_ps == 1200
    assert ran.books() == {"hbm": 400, "bubble": 400, "idle": 1600}


@pytest.mark.parametrize(("until", "books"), [
    (50, {"hbm": 50, "bubble": 50}),
    (105, {"hbm": 100, "exposed_communication": 5, "bubble": 105}),
    (200, {"hbm": 190, "exposed_communication": 10, "bubble": 200}),
    (210, {"hbm": 200, "exposed_communication": 10, "bubble": 210}),
    (260, {"hbm": 250, "exposed_communication": 10, "bubble": 260}),
])  # fmt: skip
def test_a_run_that_stops_with_a_step_on_its_way(pipeline: Run, until: int, books: dict[str, int]) -> None:
    """Stage 1 works from 0 to 100, the hand-off takes 10, stage 2 works from 110 to 210; then again."""
    assert pipeline(Request(0, 0, 8, 3), hand_off=10, until=until).books() == books


def test_tokens_are_shown_in_order(pipeline: Run) -> None:
    """The output of a large micro-batch delays that of the small one behind it; both gaps are its own requests'."""
    many = [Request(number, 0, 2, 3) for number in range(4)]
    few = Request(4, 0, 8, 3)
    ran = pipeline(*many, few, max_num_batched_tokens=8, output_ps_per_request=60)
    # Micro-batches of four and of one come back at 200, 300, 400, …: shown at 440, 440, 640, 640, 840, 840.
    assert [request.first_token_ps for request in (many[0], few)] == [440, 440]
    assert [request.last_token_ps for request in (many[0], few)] == [840, 840]
    assert ran.log.itl_ps() == [200] * 10


def test_the_audit_counts_every_micro_batch(pipeline: Run) -> None:
    """In the middle of a run, two micro-batches have one decoding request each."""
    ran = pipeline(Request(0, 0, 10, 9), Request(1, 0, 10, 9), max_num_batched_tokens=10, until=650)
    rank = ran.executor.rank
    assert [lane.batch.size for lane in rank.lanes] == [1, 1]
    audit_rank(rank, 0)
    rank.lanes[1].batch.context += 1
    with pytest.raises(InvariantError, match="the context of the decodes of micro-batch 1"):
        audit_rank(rank, 0)
