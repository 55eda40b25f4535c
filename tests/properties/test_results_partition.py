"""However the steps of a run are cut into segments, every result is the same to the last bit."""

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.results.building import Run, finish, meta, random_request, random_runs, record

from servetwin.request import OUTCOMES
from servetwin.results import Recorder
from servetwin.units import PS_PER_MS, PS_PER_S


def cut(rng, runs):
    """The same steps in randomly cut segments; segments of one step may carry any growth."""
    pieces = []
    for run in runs:
        steps = run.steps()
        at = 0
        while at < len(steps):
            count = rng.choice((1, 1, rng.randrange(1, len(steps) + 1)))
            count = min(count, len(steps) - at)
            growth, compute_growth = run.growth, run.compute_growth
            if count == 1 and rng.random() < 0.5:
                growth, compute_growth = rng.randrange(10**6), 0
            pieces.append(Run(steps[at], count, growth, compute_growth))
            at += count
    return pieces


def result_of(runs, requests, gaps, replicas, flush_every, warmup):
    slo = {"itl_ms": {"p99": 5}, "goodput": {"ttft_ms": 900}}
    recorder = Recorder(meta(replicas, slo=slo, warmup_requests=warmup))
    record(recorder, runs, flush_every)
    for gap in gaps:
        recorder.gap(gap, 3 * gap)
    for request in requests:
        recorder.finished(request)
    return finish(recorder, 1000 * PS_PER_S)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    replicas=st.integers(1, 3),
    number=st.integers(0, 25),
    scale=st.sampled_from((50, PS_PER_MS, 200 * PS_PER_MS)),
    warmup=st.sampled_from((0, 3)),
)
def test_any_partition_gives_the_same_results(tmp_path_factory, seed, replicas, number, scale, warmup):
    rng = random.Random(seed)
    runs = random_runs(rng, replicas, number, scale)
    requests = [random_request(rng, identity, replicas, rng.choice(OUTCOMES)) for identity in range(20)]
    gaps = [rng.randrange(1, 10 * scale) for _ in range(rng.choice((0, 2)))]
    variants = [
        (runs, requests, gaps),
        ([single for run in runs for single in run.singles()], requests[::-1], gaps[::-1]),
        (cut(rng, runs), rng.sample(requests, len(requests)), gaps),
    ]
    folder = tmp_path_factory.mktemp("run")
    seen = []
    for flush_every, (segments, everybody, more) in zip((0, 1, 3), variants, strict=True):
        result = result_of(segments, everybody, more, replicas, flush_every, warmup)
        result.write(folder, figures=False)
        names = ("summary.json", "ledger.json", "requests.parquet", "timeseries.parquet")
        seen.append({name: (folder / name).read_bytes() for name in names})
        json.loads(seen[-1]["summary.json"])
    assert seen[0] == seen[1] == seen[2]
