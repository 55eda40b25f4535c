"""Where the time of steps goes, against sums step by step."""

import random

import pytest
from tests.oracle.plain_log import BUCKETS
from tests.unit.results.building import Run, Step, meta, record

from servetwin.results import Recorder


def busy_runs(rng: random.Random, replicas: int, number: int) -> list[Run]:
    runs = []
    for place in range(number):
        count = rng.choice((1, 1, 7, 200))
        prefill = rng.randrange(1, 9_000) if count == 1 else 0
        compute, memory, communication, host = (rng.randrange(10**11) for _ in range(4))
        growth = rng.randrange(10**8)
        draft = rng.choice((0, rng.randrange(10**10))) if count == 1 else 0
        drafted = rng.choice((0, rng.randrange(500))) if count == 1 else 0
        step = Step(
            rng.randrange(replicas), place * 10**12, compute + memory + communication + host + draft, 0,
            tokens=prefill + drafted + 3, prefill=prefill, compute=compute, memory=memory, communication=communication,
            recomputed=rng.choice((0, rng.randrange(prefill + 1))), draft=draft, drafted=drafted,
            accepted=rng.randrange(drafted + 1),
        )  # fmt: skip
        runs.append(Run(step, count, growth, rng.randrange(growth + 1)))
    return runs


@pytest.mark.parametrize("replicas", [1, 5])
def test_the_buckets_are_those_of_the_steps_one_by_one(replicas):
    runs = busy_runs(random.Random(replicas), replicas, 3_000)
    recorder = Recorder(meta(replicas))
    record(recorder, runs)
    expected = [dict.fromkeys(BUCKETS, 0) for _ in range(replicas)]
    for run in runs:
        for step in run.steps():
            books = expected[step.replica]
            books["host"] += step.duration - step.compute - step.memory - step.communication - step.draft
            books["draft"] += step.draft
            for bucket, part in (
                ("compute", step.compute), ("hbm", step.memory), ("exposed_communication", step.communication),
            ):  # fmt: skip
                again = part * step.recomputed // step.tokens
                rejected = part * (step.drafted - step.accepted) // step.tokens
                books[bucket] += part - again - rejected
                books["recompute"] += again
                books["wasted_verify"] += rejected
    assert recorder.spent(replicas) == expected
    for bucket in BUCKETS:
        assert all(books[bucket] for books in expected), bucket
    for replica, books in enumerate(expected):
        lengths = [step.duration for run in runs for step in run.steps() if step.replica == replica]
        assert sum(books.values()) == sum(lengths)


def test_rejected_drafts_take_their_share_of_the_step_by_hand():
    """2 requests with 3 drafts each, 1 accepted: 8 tokens, of which 5 are wasted. Of 800 + 160 ps that is 500 + 100.

    Drafting takes 40 ps and the CPU 30 ps, which nobody wastes.
    """
    recorder = Recorder(meta())
    step = Step(0, 0, 1030, 1030, 2, 8, 0, 3, 2, compute=160, memory=800, draft=40, drafted=6, accepted=1)
    record(recorder, [Run(step)])
    assert recorder.spent(1) == [
        {
            "compute": 60, "hbm": 300, "exposed_communication": 0, "host": 30, "draft": 40, "wasted_verify": 600,
            "recompute": 0,
        }
    ]  # fmt: skip


def test_a_replica_without_steps_has_spent_nothing():
    assert set(Recorder(meta(2)).spent(2)[1].values()) == {0}
