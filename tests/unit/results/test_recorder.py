import random

import pytest
from tests.unit.results.building import finish, meta, random_request, random_runs, record

from servetwin.errors import InvariantError
from servetwin.records import SEGMENT_COLUMNS, pack_segment
from servetwin.request import COMPLETED, OUTCOMES, REJECTED, Request
from servetwin.results import Recorder
from servetwin.results.requests import STAMPS
from servetwin.units import PS_PER_S

PLAIN = ("arrival_ps", *STAMPS, "prompt_tokens", "output_tokens", "hit_tokens", "predicted_hit_tokens",
         "recomputed_tokens", "preemptions", "drafted_tokens", "accepted_tokens", "session_id", "replica")  # fmt: skip


def test_requests_come_back_as_recorded_in_order_of_ids():
    rng = random.Random(3)
    requests = [random_request(rng, identity, 2, rng.choice(OUTCOMES)) for identity in range(9000)]
    recorder = Recorder(meta(2))
    shuffled = requests[:]
    rng.shuffle(shuffled)
    for request in shuffled:
        recorder.finished(request)
    table = finish(recorder, 100 * PS_PER_S).table
    assert table.column("id").tolist() == list(range(9000))
    for name in PLAIN:
        assert table.column(name).tolist() == [getattr(request, name) for request in requests], name
    for part, name in enumerate(("class_name", "outcome", "reason")):
        names = table.names(part)
        assert [names[code] for code in table.column("label").tolist()] == [getattr(one, name) for one in requests]
    read = [value for block in table.blocks(777) for value in block["first_token_ps"].tolist()]
    assert read == [request.first_token_ps for request in requests]


def test_a_stamp_at_the_arrival_is_not_taken_for_missing():
    recorder = Recorder(meta())
    request = Request(0, 5 * PS_PER_S, 10, 1)
    request.routed_ps, request.replica = request.arrival_ps, 0
    recorder.finished(request)
    table = finish(recorder, 10 * PS_PER_S).table
    assert table.column("routed_ps").tolist() == [5 * PS_PER_S]
    assert table.column("queued_ps").tolist() == [-1]


def test_segments_come_back_as_recorded():
    recorder = Recorder(meta(3))
    runs = random_runs(random.Random(5), 3, 9000)
    record(recorder, runs)
    recorder.flush_segments()
    assert not recorder.segments
    recorder.flush_segments()
    store = recorder._segment_store
    assert store.rows == 9000
    expected = {"replica": "replica", "start_ps": "start", "gap_ps": "gap", "attended": "attended", "held": "held"}
    for column, attribute in expected.items():
        assert store.column(column).tolist() == [getattr(run.step, attribute) for run in runs]
    assert store.column("count").tolist() == [run.count for run in runs]
    assert store.names == SEGMENT_COLUMNS


def test_reasons_are_counted_most_frequent_first():
    recorder = Recorder(meta())
    for identity in range(7):
        request = Request(identity, identity, 10, 10, class_name="ab"[identity % 2])
        request.outcome, request.reason = REJECTED, "too long" if identity < 2 else "queue full"
        recorder.finished(request)
    table = finish(recorder, PS_PER_S).table
    assert table.reasons(REJECTED) == {"queue full": 5, "too long": 2}
    assert table.reasons(COMPLETED) == {}


def test_what_is_kept_per_request_is_small():
    """At most 350 bytes a request at 3.5 segments a request, with realistic columns."""
    rng = random.Random(0)
    recorder = Recorder(meta())
    requests, segments, now = 20_000, 70_000, 0
    for number in range(segments):
        decodes, count = rng.randrange(8, 25), rng.randrange(1, 8)
        context = decodes * 600 + rng.randrange(5000)
        duration = 7_000_000_000 + decodes * 20_000_000 + context * 49_000
        recorder.segments += pack_segment(
            0, now, count, duration, 49_000 * decodes, duration + rng.randrange(10**6), decodes,
            decodes + 500 * (number % 3 == 0), 500 * (number % 3 == 0), decodes, decodes, context, context * 3,
            context, duration // 9, duration // 2, 0, 0, rng.randrange(1000),
            49_000 * decodes, 0, 0, 0,
        )  # fmt: skip
        if len(recorder.segments) > recorder.segment_limit:
            recorder.flush_segments()
        now += count * duration + 49_000 * decodes * count * (count - 1) // 2
    for identity in range(requests):
        request = random_request(rng, identity, 1)
        request.arrival_ps += identity * PS_PER_S // 8
        for name in STAMPS:
            setattr(request, name, getattr(request, name) + identity * PS_PER_S // 8)
        recorder.finished(request)
    finish(recorder, now + 10**6 * PS_PER_S)
    assert recorder.nbytes / requests < 350


def test_steps_counted_otherwise_are_refused():
    recorder = Recorder(meta())
    record(recorder, random_runs(random.Random(1), 1, 10))
    end = 10**6 * PS_PER_S
    steps = finish(recorder, end).segments.totals.steps
    finish(recorder, end, steps=steps)
    with pytest.raises(InvariantError, match="steps"):
        finish(recorder, end, steps=steps + 1)


def test_phases_are_kept_only_when_wanted():
    assert not Recorder(meta()).wants_phases
    recorder = Recorder(meta(), timeline=True)
    assert recorder.wants_phases
    recorder.phases(0, 17, ["phase"])
    assert list(finish(recorder, PS_PER_S).phases) == [(0, 17, ["phase"])]
