"""The naive engine on its own: small cases worked by hand, and what must hold in every run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from tests.oracle.strategies import Case, cases, random_case
from tests.reference import naive_engine
from tests.reference.naive_engine import Cluster, NaiveResult, Replica
from tests.reference.simple_policies import SCHEDULERS, Fcfs, Priority
from tests.reference.simple_price import AffinePrice

from servetwin.engine.protocols import EngineSettings
from servetwin.request import Request

REFERENCE = Path(naive_engine.__file__).parent
QUICK = settings(
    derandomize=True, deadline=None, database=None, max_examples=150, suppress_health_check=list(HealthCheck)
)


def engine(**changes: object) -> EngineSettings:
    values: dict[str, object] = {
        "max_num_batched_tokens": 64, "max_num_seqs": 8, "max_model_len": 100, "block_size": 4, "num_blocks": 51,
        "depth": 0,
    }  # fmt: skip
    return EngineSettings(**(values | changes))  # type: ignore[arg-type]


def run(settings: EngineSettings, price: AffinePrice, requests: list[Request], scheduler: object = None) -> NaiveResult:
    return Cluster([(settings, price, scheduler or Fcfs())]).run(requests)


def timeline(result: NaiveResult) -> list[tuple[int, int]]:
    return [(step.start_ps, step.duration_ps) for step in result.steps[0]]


# -- who imports what ----------------------------------------------------------------------------------------

ALLOWED = {
    "servetwin.request": {"Fate", "Request"},
    "servetwin.engine.protocols": {"EngineSettings"},
    "servetwin.physics.protocols": {"DRAFT", "Phase", "StepPrice", "StepShape"},
}


@pytest.mark.parametrize("path", sorted(REFERENCE.glob("*.py")), ids=lambda path: path.name)
def test_reference_is_independent(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not any(name.name.split(".")[0] in ("servetwin", "simpy") for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            assert node.level == 0
            assert module.split(".")[0] != "simpy"
            if module.split(".")[0] == "servetwin":
                assert {name.name for name in node.names} <= ALLOWED.get(module, set()), module


# -- worked by hand ------------------------------------------------------------------------------------------

LINEAR = AffinePrice(base=100, token=10, context=(1,))
FLAT = AffinePrice(base=100, token=0, context=(0,))


def two_requests() -> list[Request]:
    return [
        Request(0, 0, prompt_tokens=3, output_tokens=3),
        Request(1, 150, prompt_tokens=2, output_tokens=2),
    ]


def test_two_requests_synchronous() -> None:
    result = run(engine(depth=0), LINEAR, two_requests())
    # Step 1 at 0: prompt 0 (3 tokens): 100 + 30 = 130.
    # Step 2 at 130: decode 0, context 4: 100 + 10 + 4 = 114. Request 1 arrives at 150, in the middle.
    # Step 3 at 244: decode 0, context 5, and prompt 1 (2 tokens): 100 + 30 + 5 = 135.
    # Step 4 at 379: decode 1, context 3: 100 + 10 + 3 = 113.
    assert timeline(result) == [(0, 130), (130, 114), (244, 135), (379, 113)]
    assert result.jobs[0].token_ps == [130, 244, 379]
    assert result.jobs[1].token_ps == [379, 492]
    assert [job.scheduled_ps for job in result.jobs.values()] == [0, 244]
    assert [job.prefill_done_ps for job in result.jobs.values()] == [130, 379]
    assert sorted(result.itl_ps) == [113, 114, 135]
    assert result.ledger == {"compute": 80, "memory": 412, "communication": 0, "host": 0}


def test_two_requests_one_step_ahead() -> None:
    result = run(engine(depth=1), LINEAR, two_requests())
    # At 0: steps 1 (prompt 0: 130) and 2 (decode 0, context 4: 114) are planned.
    # At 130: step 3 (decode 0, context 5: 115) is planned; request 1 is not there yet.
    # At 244: step 4 is planned: request 0 has its last token in flight, prompt 1 gets 2 tokens: 120.
    # At 359: request 0 ends; step 5 (decode 1, context 3: 113) is planned.
    # At 479: nothing is left to plan.
    assert timeline(result) == [(0, 130), (130, 114), (244, 115), (359, 120), (479, 113)]
    assert result.jobs[0].token_ps == [130, 244, 359]
    assert result.jobs[1].token_ps == [479, 592]
    assert [job.scheduled_ps for job in result.jobs.values()] == [0, 244]


def test_finish_frees_the_seat_one_step_later_when_planned_ahead() -> None:
    # One seat, two requests of one output token at once. Synchronous: back to back. Ahead: the second plan
    # finds the seat taken, so the engine plans and starts request 1 when step 1 ends, which is the same
    # instant.
    for depth in (0, 1):
        requests = [Request(i, 0, prompt_tokens=2, output_tokens=1) for i in range(2)]
        result = run(engine(depth=depth, max_num_seqs=1), FLAT, requests)
        assert timeline(result) == [(0, 100), (100, 100)]
    # With two output tokens: at 0 steps 1 and 2 of request 0 are planned; at 100 its last token is in
    # flight and the seat still taken; at 200 it ends and request 1 starts.
    requests = [Request(i, 0, prompt_tokens=2, output_tokens=2) for i in range(2)]
    result = run(engine(depth=1, max_num_seqs=1), FLAT, requests)
    assert [job.scheduled_ps for job in result.jobs.values()] == [0, 200]


def preempting_pair() -> list[Request]:
    return [Request(0, 0, prompt_tokens=3, output_tokens=4), Request(1, 0, prompt_tokens=2, output_tokens=3)]


def test_one_preemption() -> None:
    # Four usable blocks of two tokens. Step 1 at 0: both prompts, blocks 2 + 1. Step 2 at 100: 4 and 3
    # tokens need 2 and 2 blocks. At 200 request 0 needs a third block, so request 1 goes back with 3
    # computed tokens. At 300 it would need 2 blocks for its 4 known tokens, 1 is free. At 400 request 0
    # ends and request 1 computes 4 tokens.
    small = engine(block_size=2, num_blocks=5, prefix_caching=False)
    result = run(small, FLAT, preempting_pair())
    assert result.jobs[0].token_ps == [100, 200, 300, 400]
    assert result.jobs[1].token_ps == [100, 200, 500]
    assert result.jobs[1].preemptions == 1
    assert result.jobs[1].recomputed_tokens == 3
    assert sorted(result.itl_ps) == [100, 100, 100, 100, 300]
    assert [step.chunks for step in result.steps[0]] == [((3, 0), (2, 0)), (), (), (), ((4, 0),)]
    assert [step.tokens for step in result.steps[0]] == [5, 2, 1, 1, 4]


def test_a_preempted_request_finds_its_own_block() -> None:
    # As above, but request 1's first block keeps its content: request 0 takes the head of the free queue,
    # which is the block that was freed first, request 1's last. At 400: found 2 of 4, recomputed 3 − 2 = 1.
    result = run(engine(block_size=2, num_blocks=5), FLAT, preempting_pair())
    assert result.jobs[1].token_ps == [100, 200, 500]
    assert result.jobs[1].recomputed_tokens == 1
    assert result.jobs[1].hit_tokens == 0
    assert result.steps[0][-1].chunks == ((2, 2),)


def test_preemption_one_step_ahead_delivers_the_token_in_flight() -> None:
    # As above with depth 1. At 0: step 1 (both prompts) and step 2 (both decode: 2 + 2 blocks) are planned.
    # At 100 step 3 is planned: request 0 needs its third block; request 1 goes back while its second token
    # is in flight, which arrives at 200. At 200 step 4 is planned (request 0 decodes its last); request 1
    # needs 2 blocks, 1 is free. At 300 nothing can be planned: request 0 holds its blocks until 400.
    result = run(engine(block_size=2, num_blocks=5, depth=1, prefix_caching=False), FLAT, preempting_pair())
    assert result.jobs[0].token_ps == [100, 200, 300, 400]
    assert result.jobs[1].token_ps == [100, 200, 500]
    assert result.jobs[1].recomputed_tokens == 3


def test_a_request_may_end_in_the_waiting_queue() -> None:
    # As above, but request 1 wants two tokens: the one in flight at 100 is its last. It holds 2 blocks (its
    # last token is in flight, yet it can be the victim), goes back, and ends at 200.
    requests = [
        Request(0, 0, prompt_tokens=3, output_tokens=4),
        Request(1, 0, prompt_tokens=2, output_tokens=2),
    ]
    result = run(engine(block_size=2, num_blocks=5, depth=1), FLAT, requests)
    assert result.jobs[1].token_ps == [100, 200]
    assert result.jobs[1].preemptions == 1
    assert result.jobs[1].recomputed_tokens == 0
    assert result.blocks_free == [4]


def test_prefix_hit_leaves_the_last_token() -> None:
    # Eight equal prompt tokens, blocks of four: at most floor(7 / 4) = 1 block is found, in the same plan
    # already. Step 1: 8 + 4 = 12 tokens: 100 + 120 = 220.
    shared = (("system", 8),)
    requests = [Request(i, 0, prompt_tokens=8, output_tokens=1, segments=shared) for i in range(2)]
    result = run(engine(), AffinePrice(base=100, token=10, context=(0,)), requests)
    assert timeline(result) == [(0, 220)]
    assert result.steps[0][0].chunks == ((8, 0), (4, 4))
    assert [job.hit_tokens for job in result.jobs.values()] == [0, 4]
    # Nine tokens: both full blocks are found.
    requests = [Request(i, 0, 9, 1, segments=(*shared, (i, 1))) for i in range(2)]
    assert [job.hit_tokens for job in run(engine(), FLAT, requests).jobs.values()] == [0, 8]


def test_equal_contents_share_a_block_even_when_it_is_not_found() -> None:
    # Two usable blocks hold two requests with the same eight prompt tokens: the second block is referred to
    # by both, though request 1 computes it again.
    requests = [Request(i, 0, prompt_tokens=8, output_tokens=1, segments=(("system", 8),)) for i in range(2)]
    result = run(engine(num_blocks=3), FLAT, requests)
    assert timeline(result) == [(0, 100)]
    # Without the cache the second one has to wait.
    requests = [Request(i, 0, prompt_tokens=8, output_tokens=1, segments=(("system", 8),)) for i in range(2)]
    result = run(engine(num_blocks=3, prefix_caching=False), FLAT, requests)
    assert timeline(result) == [(0, 100), (100, 100)]


def test_the_next_turn_of_a_session_finds_prompt_and_output() -> None:
    # Turn 1: 5 + 4 tokens, of which 8 have KV: two full blocks, the second filled by decoding. Turn 2
    # repeats them and adds 3: 12 known tokens, floor(11 / 4) = 2 blocks = 8 tokens found.
    first = Request(0, 0, prompt_tokens=5, output_tokens=4, segments=(("session", 5),), continues=True)
    second = Request(1, 1000, prompt_tokens=12, output_tokens=1, segments=(("session", 12),), continues=True)
    result = run(engine(), FLAT, [first, second])
    assert result.jobs[1].hit_tokens == 8
    # An output that is a stream of its own is not the next prompt.
    first = Request(0, 0, prompt_tokens=5, output_tokens=4, segments=(("session", 5),))
    second = Request(1, 1000, prompt_tokens=12, output_tokens=1, segments=(("session", 12),))
    assert run(engine(), FLAT, [first, second]).jobs[1].hit_tokens == 4


def test_eviction_takes_the_tail_first() -> None:
    # Four usable blocks of one token. Request 0 uses 3 (freed from the last to the first, behind the unused
    # one); request 1 pops the unused one and the last of request 0. Request 2 finds the two that are left
    # of its three.
    def request(i: int, prompt: int, key: str) -> Request:
        return Request(i, 1000 * i, prompt_tokens=prompt, output_tokens=1, segments=((key, prompt),))

    requests = [request(0, 3, "a"), request(1, 2, "b"), request(2, 4, "a")]
    result = run(engine(block_size=1, num_blocks=5), FLAT, requests)
    assert result.jobs[2].hit_tokens == 2


def test_idle_engine_wakes_at_the_end_of_the_front_end() -> None:
    # Arrival 20, front end 50 + 3 · 10 = 80: queued at 100. The second arrives at 30 with a shorter prompt;
    # its own 60 would be over at 90, but the front end keeps the order. Depth 1 plans its second step at
    # 100 too.
    requests = [
        Request(0, 20, prompt_tokens=3, output_tokens=1),
        Request(1, 30, prompt_tokens=1, output_tokens=1),
    ]
    for depth in (0, 1):
        result = run(engine(front_end_ps=50, front_end_per_token_ps=10, depth=depth), LINEAR, requests)
        assert [job.queued_ps for job in result.jobs.values()] == [100, 100]
        assert timeline(result) == [(100, 140)]


def test_visible_times_do_not_run_back() -> None:
    # Step 1: two prompts: ends at 100, visible at 100 + 2 · 300 = 700. Step 2: only request 0 decodes: ends
    # at 200, 200 + 300 = 500 is before 700, so its token is visible at 700 as well. Step 3: 300 + 300 = 600
    # → 700.
    requests = [
        Request(0, 0, prompt_tokens=1, output_tokens=3),
        Request(1, 0, prompt_tokens=1, output_tokens=1),
    ]
    result = run(engine(output_ps_per_request=300), FLAT, requests)
    assert result.jobs[0].token_ps == [700, 700, 700]
    assert timeline(result) == [(0, 100), (100, 100), (200, 100)]
    assert result.jobs[0].prefill_done_ps == 100


def test_arrivals_come_before_boundaries() -> None:
    # Request 1 arrives exactly when step 1 ends and joins the step that starts there; 1 ps later it does not.
    for arrival, scheduled in ((100, 100), (101, 200)):
        requests = [Request(0, 0, prompt_tokens=1, output_tokens=5), Request(1, arrival, 1, 1)]
        assert run(engine(), FLAT, requests).jobs[1].scheduled_ps == scheduled


def test_chunks_follow_budget_and_threshold() -> None:
    requests = [
        Request(0, 0, prompt_tokens=10, output_tokens=2),
        Request(1, 0, prompt_tokens=3, output_tokens=1),
    ]
    result = run(engine(max_num_batched_tokens=8), FLAT, requests)
    # 8 of 10; then the 2 that are left and the 3 of request 1; then one decode.
    assert [step.chunks for step in result.steps[0]] == [((8, 0),), ((2, 8), (3, 0)), ()]
    result = run(engine(max_num_batched_tokens=8, long_prefill_token_threshold=6), FLAT, requests)
    assert [step.chunks for step in result.steps[0]] == [((6, 0), (2, 0)), ((4, 6), (1, 2)), ()]
    result = run(engine(max_num_batched_tokens=12, chunked_prefill=False), FLAT, requests)
    assert [step.chunks for step in result.steps[0]] == [((10, 0),), ((3, 0),)]


def test_watermark_holds_back_only_behind_others() -> None:
    # Three usable blocks of four, one kept free behind others: request 1 (1 block) fits beside request 0 (1
    # block), request 2 (1 block) does not, for 1 + 1 > 1.
    requests = [Request(i, 0, prompt_tokens=4, output_tokens=1) for i in range(3)]
    result = run(engine(num_blocks=4, watermark_blocks=1), FLAT, requests)
    assert [job.scheduled_ps for job in result.jobs.values()] == [0, 0, 100]
    result = run(engine(num_blocks=4), FLAT, requests)
    assert [job.scheduled_ps for job in result.jobs.values()] == [0, 0, 0]


def test_full_prompt_gate() -> None:
    # Four usable blocks of four; request 0 takes 2 (8 tokens), request 1 wants 12 tokens = 3 blocks, but
    # only its first 2 tokens in step 1.
    requests = [
        Request(0, 0, prompt_tokens=8, output_tokens=1),
        Request(1, 0, prompt_tokens=12, output_tokens=1),
    ]
    common = {"num_blocks": 5, "max_num_batched_tokens": 10}
    assert run(engine(**common), FLAT, requests).jobs[1].scheduled_ps == 100
    assert run(engine(**common, reserve_full_prompt=False), FLAT, requests).jobs[1].scheduled_ps == 0


def test_too_long_is_rejected() -> None:
    # 12 tokens of KV fit into 3 usable blocks of 4 (the last output token needs none); 13 do not.
    requests = [
        Request(0, 0, prompt_tokens=10, output_tokens=3),
        Request(1, 0, prompt_tokens=10, output_tokens=4),
    ]
    result = run(engine(num_blocks=4), FLAT, requests)
    assert [job.outcome for job in result.jobs.values()] == ["completed", "rejected"]
    result = run(engine(max_model_len=13), FLAT, requests)
    assert [job.outcome for job in result.jobs.values()] == ["completed", "rejected"]


def test_victim_may_be_in_the_step_already() -> None:
    # Four usable blocks of one token. Request 0 (unimportant: prompt 1) runs alone at first; request 1
    # (important: prompt 2) comes at 50. At 100 request 0 decodes with its 2nd block, request 1 takes 2:
    # full. At 200 request 0 is scheduled first and needs a block: the victim is itself, so pass 1 ends, and
    # with nothing in flight the plan is made again: request 1 alone, its third block.
    requests = [
        Request(0, 0, prompt_tokens=1, output_tokens=3, priority=5),
        Request(1, 50, prompt_tokens=2, output_tokens=3, priority=1),
    ]
    result = run(engine(block_size=1, num_blocks=5), FLAT, requests, Priority())
    assert result.jobs[0].token_ps[:2] == [100, 200]
    assert result.jobs[0].preemptions == 1
    assert [step.ids for step in result.steps[0]] == [(0,), (0, 1), (1,), (1,), (0,)]
    # Request 0's block is large enough for its next tokens: it is scheduled, then request 1 needs a block
    # and takes request 0's; the step is request 1 alone.
    requests = [
        Request(0, 0, prompt_tokens=1, output_tokens=4, priority=5),
        Request(1, 50, prompt_tokens=4, output_tokens=3, priority=1),
    ]
    result = run(engine(block_size=4, num_blocks=3), FLAT, requests, Priority())
    assert [step.ids for step in result.steps[0]] == [(0,), (0, 1), (1,), (1,), (0,), (0,)]
    assert result.jobs[0].preemptions == 1
    # Two tokens had been computed before the plan that sent it back; the one which that plan took back does
    # not count.
    assert result.jobs[0].recomputed_tokens == 2


def test_schedulers_order_the_queue() -> None:
    # One seat. Request 0 runs; 1, 2 and 3 wait.
    def requests() -> list[Request]:
        return [
            Request(0, 0, 4, 1),
            Request(1, 1, 9, 1, priority=2, deadline_ps=30),
            Request(2, 2, 7, 1, priority=1, deadline_ps=40),
            Request(3, 3, 8, 1, priority=3, deadline_ps=20),
        ]

    order = {"fcfs": [1, 2, 3], "priority": [2, 1, 3], "sjf": [2, 3, 1], "edf": [3, 1, 2]}
    for name, expected in order.items():
        result = run(engine(max_num_seqs=1), FLAT, requests(), SCHEDULERS[name]())
        assert [step.ids[0] for step in result.steps[0]] == [0, *expected]


def test_routers() -> None:
    # Two replicas with steps of 100. Requests 0 and 1 go to 0 and 1; request 1 ends at 100, and the arrival
    # at 100 comes before that boundary, so least-requests still sees a tie then.
    parts = [(engine(), FLAT, Fcfs()) for _ in range(2)]

    def routed(router: str, arrivals: tuple[int, ...]) -> list[int]:
        outputs = (5, 1, 1)
        requests = [Request(i, at, 2, outputs[i]) for i, at in enumerate(arrivals)]
        return [job.replica for job in Cluster(parts, router).run(requests).jobs.values()]

    assert routed("round-robin", (0, 0, 101)) == [0, 1, 0]
    assert routed("least-requests", (0, 0, 100)) == [0, 1, 0]
    assert routed("least-requests", (0, 0, 101)) == [0, 1, 1]
    # At 150 request 0 has produced one token: 3 against 2 + 0 if request 1 arrived at 150 as well.
    assert routed("least-tokens", (0, 150, 150)) == [0, 1, 1]


def test_reference_price_adds_up() -> None:
    result = run(engine(), AffinePrice(token=3, pair=2, eager=7, communication=2), two_requests())
    assert sum(result.ledger.values()) == sum(duration for _, duration in timeline(result))


# -- what must hold in every run -----------------------------------------------------------------------------


def check_replica(replica: Replica) -> None:
    """Blocks add up, the free queue and the users agree, and nobody has more seats than there are."""
    pool, size = replica.pool, replica.settings.block_size
    used = {block.number: block for job in replica.running for block in job.blocks}
    assert not used.keys() & pool.free.keys()
    assert len(used) + len(pool.free) == replica.settings.num_blocks - 1
    assert len(replica.running) <= replica.settings.max_num_seqs
    for block in pool.free.values():
        assert not block.users
        assert block.content is None or (block.filled and pool.by_content[block.content] is block)
    for job in replica.running:
        assert len(job.blocks) == -(-job.computed // size)
        assert all(job in block.users for block in job.blocks)
    for block in used.values():
        assert all(block in user.blocks for user in block.users)
        if block.filled:
            assert block.content is not None
            assert pool.by_content[block.content] is block
    for job in replica.waiting:
        assert not job.blocks


def check_result(case: Case, result: NaiveResult) -> None:
    ids = [i + turn * len(case.specs) for i, spec in enumerate(case.specs) for turn in range(len(spec.turns) + 1)]
    jobs = result.jobs
    for job in jobs.values():
        assert job.outcome in ("completed", "rejected")
        if job.outcome == "rejected":
            assert job.queued_ps == job.scheduled_ps == job.first_token_ps == -1
            continue
        assert job.produced == job.output
        assert job.request.arrival_ps <= job.queued_ps <= job.scheduled_ps < job.prefill_done_ps
        assert job.prefill_done_ps <= job.first_token_ps <= job.last_token_ps
        assert min(job.gaps(), default=0) >= 0
        # Computed + found = every slot filled, those lost to preemptions counted again. Who ended in the
        # waiting queue has lost all.
        assert job.computed in (0, job.prompt + job.output - 1)
        assert job.scheduled_tokens + job.found_tokens == job.computed + job.lost_tokens
        assert 0 <= job.hit_tokens < job.prompt
    completed = [job for job in jobs.values() if job.outcome == "completed"]
    if len(completed) == len(jobs):
        assert sorted(jobs) == sorted(ids)
    for (settings_, _), steps, free in zip(case.replicas, result.steps, result.blocks_free, strict=True):
        assert free == settings_.num_blocks - 1
        end = visible = 0
        for step in steps:
            assert step.start_ps >= end
            end = step.start_ps + step.duration_ps
            assert step.visible_ps >= max(end, visible)
            visible = step.visible_ps
            assert 0 < step.tokens <= settings_.max_num_batched_tokens
            assert len(set(step.ids)) == len(step.ids) == step.decodes + len(step.chunks) <= settings_.max_num_seqs
    emitted = sum(step.emitted for steps in result.steps for step in steps)
    assert emitted == sum(job.output for job in completed)
    tokens = sum(step.tokens for steps in result.steps for step in steps)
    assert tokens == sum(job.scheduled_tokens for job in completed)
    assert len(result.itl_ps) == sum(job.output - 1 for job in completed)
    assert sum(result.ledger.values()) == sum(step.duration_ps for steps in result.steps for step in steps)


def run_case(case: Case, check: bool = True) -> NaiveResult:
    def check_all(cluster: Cluster, now: int) -> None:
        for replica in cluster.replicas:
            check_replica(replica)

    cluster = Cluster(case.parts(), case.router, case.follow_up())
    return cluster.run(case.requests(), check_all if check else None)


@QUICK
@given(cases())
def test_invariants_of_one_replica(case: Case) -> None:
    check_result(case, run_case(case))


@settings(QUICK, max_examples=50)
@given(cases(replicas=3))
def test_invariants_of_several_replicas(case: Case) -> None:
    check_result(case, run_case(case))


@pytest.mark.parametrize("seed", range(12))
def test_invariants_of_larger_runs(seed: int) -> None:
    case = random_case(seed, replicas=1 + seed % 3)
    check_result(case, run_case(case))


def test_the_scenarios_reach_what_they_are_for() -> None:
    """Preemptions, hits, rejections, sessions and ends in the waiting queue all occur in the seeded scenarios."""
    jobs = [job for seed in range(12) for job in run_case(random_case(seed), check=False).jobs.values()]
    assert sum(job.preemptions for job in jobs) > 50
    assert sum(job.hit_tokens > 0 for job in jobs) > 50
    assert sum(job.recomputed_tokens > 0 for job in jobs) > 20
    assert sum(job.outcome == "rejected" for job in jobs) > 0
    assert sum(job.request.turn > 0 for job in jobs) > 20
    assert max(job.preemptions for job in jobs) >= 3
