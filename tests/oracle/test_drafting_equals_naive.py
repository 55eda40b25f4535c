"""Replicas that draft and the naive engine agree with ``==`` at all three stepping levels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tests.oracle.drafting_cases import DraftingCase, drafting_cases, random_drafting_case
from tests.oracle.drafting_small import SMALL_DRAFTING, drafting
from tests.oracle.small_cases import own
from tests.oracle.test_engine_equals_naive import QUICK, Drive, compare
from tests.reference.naive_drafting import DraftingCluster, DraftingReplica
from tests.reference.naive_engine import NaiveResult

from servetwin.engine.draft_batch import DraftBatch
from servetwin.engine.draft_executor import DraftingExecutor
from servetwin.engine.protocols import EVERY_OPERATION, STEPPING
from servetwin.engine.verify_steps import VerifyMaker


class DraftingDrive(Drive):
    """The real engines, which draft."""

    def __init__(self, case: DraftingCase, stepping: str) -> None:
        self.drafting = case.drafting
        self.controllers: list[Any] = []
        super().__init__(case.case, stepping)

    def engine(self, index: int, engine_settings: Any, price: Any, scheduler: Any, stepping: str) -> Any:
        drafts = self.drafting.drafts()
        self.controllers.append(drafts.controller)
        maker = VerifyMaker(engine_settings, price, drafts.most, drafts.nodes)
        batch = DraftBatch(
            engine_settings.block_size, price.windows, drafts.most, drafts.nodes, drafts.lookahead,
            engine_settings.max_num_batched_tokens, engine_settings.depth, drafts.fates, drafts.controller,
            maker.forecast,
        )  # fmt: skip
        return DraftingExecutor(
            self.env, index, price, engine_settings, scheduler, self.log, self.on_finished, stepping=stepping, gpus=1,
            # Counting again takes longer the longer the requests are.
            strict=stepping == EVERY_OPERATION and engine_settings.max_model_len < 5_000, steps=maker, batch=batch,
        )  # fmt: skip


def compare_drafts(naive: NaiveResult, real: DraftingDrive) -> None:
    """What only replicas that draft have."""
    for index, executor in enumerate(real.executors):
        replica, accounts = naive.replicas[index], executor.accounts
        assert isinstance(replica, DraftingReplica)
        rows = sorted((row for row in real.log.all_rows() if row["replica"] == index), key=lambda row: row["start_ps"])
        assert [(row["drafted"], row["accepted"], row["draft_ps"], row["held"]) for row in rows] == [
            (step.drafted, step.accepted, step.price.draft_ps, step.held) for step in replica.steps
        ]
        assert all(row["count"] == 1 for row in rows)
        assert accounts.drafts == replica.verifying
        assert accounts.drafted == sum(step.drafted for step in replica.steps)
        assert accounts.by_position == replica.by_position
        chosen = list(zip((step.start_ps for step in replica.steps), replica.choices, strict=True))
        assert [one[1:] for one in real.log.choice_list if one[0] == index] == [
            one for place, one in enumerate(chosen) if not place or one[1] != chosen[place - 1][1]
        ]
        controller = real.controllers[index]
        if hasattr(controller, "told"):
            assert controller.told == replica.drafts.controller.told
            assert controller.views == replica.drafts.controller.views
    for request_id, job in naive.jobs.items():
        request = real.requests[request_id]
        assert (request.drafted_tokens, request.accepted_tokens) == (job.drafted_tokens, job.accepted_tokens)


def check(case: DraftingCase) -> NaiveResult:
    drafts = [case.drafting.drafts() for _ in case.case.replicas]
    cluster = DraftingCluster(case.case.parts(), drafts, case.case.router, case.case.follow_up())
    naive = cluster.run(case.case.requests())
    for stepping in STEPPING:
        real = DraftingDrive(case, stepping)
        real.run()
        compare(naive, real)
        compare_drafts(naive, real)
    return naive


@pytest.mark.parametrize("name", SMALL_DRAFTING)
def test_small_cases(name: str) -> None:
    check(SMALL_DRAFTING[name])


@QUICK
@given(drafting_cases())
def test_one_replica(case: DraftingCase) -> None:
    check(case)


@settings(QUICK, max_examples=60)
@given(drafting_cases(replicas=3))
def test_several_replicas(case: DraftingCase) -> None:
    check(case)


@pytest.mark.parametrize("seed", range(80))
def test_storms(seed: int) -> None:
    """Tiny pools, many requests at once: evictions and preemptions all the time."""
    check(random_drafting_case(seed, requests=20 + seed % 40, tight=True))


@pytest.mark.parametrize("seed", range(30))
def test_larger_runs(seed: int) -> None:
    check(random_drafting_case(1000 + seed, 1 + seed % 3))


@pytest.mark.parametrize("stepping", STEPPING)
def test_attended_pairs_by_hand(stepping: str) -> None:
    """Four tokens behind 10 attend 11 + 12 + 13 + 14 pairs, a prompt of 20 tokens 1 + … + 20."""
    real = DraftingDrive(drafting(own(0, 10, 30), own(250, 20, 1), accepts=0.0, num_blocks=40), stepping)
    real.run()
    prompt, alone, both, after = real.log.all_rows()[:4]
    assert (prompt["attended"], prompt["context"]) == (55, 10)
    assert (both["prefill_tokens"], both["drafted"], both["context"]) == (20, 3, 12 + 3 + 20)
    assert alone["attended"] == 11 + 12 + 13 + 14
    assert both["attended"] == 12 + 13 + 14 + 15 + 210
    assert after["attended"] == 13 + 14 + 15 + 16
