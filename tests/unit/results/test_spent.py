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
        step = Step(
            rng.randrange(replicas), place * 10**12, compute + memory + communication + host, 0, tokens=prefill + 3,
            prefill=prefill, compute=compute, memory=memory, communication=communication,
            recomputed=rng.choice((0, rng.randrange(prefill + 1))),
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
            books["host"] += step.duration - step.compute - step.memory - step.communication
            for bucket, part in (
                ("compute", step.compute), ("hbm", step.memory), ("exposed_communication", step.communication),
            ):  # fmt: skip
                again = part * step.recomputed // step.tokens
                books[bucket] += part - again
                books["recompute"] += again
    assert recorder.spent(replicas) == expected
    assert any(books["recompute"] for books in expected)


def test_a_replica_without_steps_has_spent_nothing():
    assert set(Recorder(meta(2)).spent(2)[1].values()) == {0}
