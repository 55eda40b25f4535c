import json
import random
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import pytest
from tests.unit.results.building import (
    LINK_BYTES_PER_TOKEN,
    Run,
    Step,
    drafting_run,
    finish,
    linked_run,
    meta,
    random_request,
    random_runs,
    record,
    split_run,
    toy_run,
)

from servetwin.physics.protocols import Phase
from servetwin.request import OUTCOMES
from servetwin.results import Recorder
from servetwin.units import PS_PER_S

MICROSECOND = 10**6


def trace(result, folder):
    """The file, with times as exact picoseconds."""
    (path,) = result.write(folder, figures=False, timeline=True)[-1:]
    assert path.name == "trace.json"
    document = json.loads(path.read_text(), parse_float=Decimal, parse_constant=pytest.fail)
    for event in document["traceEvents"]:
        for key in ("ts", "dur"):
            if key in event:
                assert isinstance(event[key], Decimal)
                event[key] = int(event[key] * MICROSECOND)
    return document


def check_format(document):
    """The rules of the Trace Event Format that viewers rely on."""
    assert document["displayTimeUnit"] == "ms" and isinstance(document["traceEvents"], list)
    open_spans, named = {}, set()
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str) and event["name"]
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        kind = event["ph"]
        assert kind in ("M", "X", "b", "e", "C")
        if kind == "M":
            assert event["name"] in ("process_name", "process_sort_index", "thread_name")
            named.add(event["pid"])
            continue
        assert event["pid"] in named, "a process must be named before it is used"
        categories = ("step", "phase", "request", "decode", "transfer", "link")
        assert event["ts"] >= 0 and event["cat"] in categories
        if kind == "C":
            assert all(isinstance(value, Decimal) and value >= 0 for value in event["args"].values())
            continue
        if kind == "X":
            assert event["dur"] > 0
            continue
        stack = open_spans.setdefault((event["cat"], event["id"]), [])
        if kind == "b":
            assert not stack or event["ts"] >= stack[-1][1]
            stack.append((event["name"], event["ts"]))
        else:
            name, begin = stack.pop()
            assert name == event["name"] and event["ts"] >= begin
    assert not any(open_spans.values()), "every span that begins must end"


def of(document, category):
    return [event for event in document["traceEvents"] if event.get("cat") == category]


def check_nesting(document):
    """Per replica: steps one after the other, phases one after the other inside their step."""
    for process in {event["pid"] for event in of(document, "step")}:
        steps = sorted((one for one in of(document, "step") if one["pid"] == process), key=lambda one: one["ts"])
        for earlier, later in pairwise(steps):
            assert earlier["ts"] + earlier["dur"] <= later["ts"]
        phases = sorted((one for one in of(document, "phase") if one["pid"] == process), key=lambda one: one["ts"])
        at = 0
        for step in steps:
            end, now = step["ts"] + step["dur"], step["ts"]
            while at < len(phases) and phases[at]["ts"] < end:
                assert phases[at]["ts"] == now, "phases leave no gap"
                now += phases[at]["dur"]
                at += 1
            assert now == end, "the phases of a step add up to it"
        assert at == len(phases)


def test_a_run_s_trace_is_well_formed_and_complete(tmp_path):
    result = toy_run(60, replicas=2, timeline=True)
    document = trace(result, tmp_path)
    check_format(document)
    check_nesting(document)
    assert len(of(document, "step")) == result.summary()["steps"]
    begun = Counter(one["name"] for one in of(document, "request") if one["ph"] == "b")
    assert begun == {"request": 60, "queue": 60, "prefill": 60, "decode": 60}
    assert document["otherData"]["name"] == "toy" and document["otherData"]["engine"] == "vllm"
    busy = sum(one["dur"] for one in of(document, "step"))
    assert busy == sum(result.segments.totals.busy_ps)
    assert sum(one["args"]["tokens"] for one in of(document, "step")) == result.segments.totals.tokens


@pytest.mark.parametrize("first_token", ["decode", "prefill"])
def test_a_split_request_is_on_both_replicas_and_its_transfer_in_between(tmp_path, first_token):
    result = split_run(200, first_token, timeline=True)
    document = trace(result, tmp_path)
    check_format(document)
    names = {one["pid"]: one["args"]["name"] for one in document["traceEvents"] if one["name"] == "process_name"}
    assert names[6] == "KV transfers"
    moves = result.hand_overs.of(result.table.column("id"))
    columns = ("source", "target", "queued_ps", "scheduled_ps", "start_ps", "end_ps", "reserved_ps")
    rows = zip(*(moves[name].tolist() for name in columns), strict=True)
    outcomes = result.requests()["outcome"]
    whole = 0
    for identity, (source, target, queued, scheduled, start, end, reserved) in enumerate(rows):
        spans = {
            (one["cat"], one["name"], one["ph"]): (one["ts"], names[one["pid"]])
            for category in ("request", "decode", "transfer")
            for one in of(document, category)
            if one["id"] == identity
        }
        if source < 0:
            assert not {key for key in spans if key[0] != "request"}
            continue
        if outcomes[identity] == "completed":
            whole += 1
            at = f"replica {source} (prefill)", f"replica {target} (decode)"
            prefilled = int(result.table.column("prefill_done_ps")[identity])
            assert spans["request", "request", "e"] == (prefilled, at[0])
            assert spans["request", "prefill", "e"] == (prefilled, at[0])
            assert spans["decode", "queue", "b"] == (queued, at[1])
            assert spans["decode", "decode", "b"] == (scheduled, at[1])
            assert spans["decode", "decode", "e"] == (int(result.table.column("last_token_ps")[identity]), at[1])
            if start < reserved:
                name = f"replica {source} → memory of replica {target}"
                assert spans["transfer", f"memory → replica {target}", "b"][0] == reserved
                assert spans["transfer", f"memory → replica {target}", "e"][0] == end
            else:
                name = f"replica {source} → replica {target}"
                assert spans["transfer", name, "e"] == (end, "KV transfers")
            assert spans["transfer", name, "b"] == (start, "KV transfers")
    assert whole > 100


def test_spans_of_a_request_are_its_stamps(tmp_path):
    result = toy_run(20, timeline=True)
    document = trace(result, tmp_path)
    for row, identity in enumerate(result.table.column("id").tolist()):
        mine = [one for one in of(document, "request") if one["id"] == identity]
        spans = {(one["name"], one["ph"]): one["ts"] for one in mine}
        arrival, scheduled, first, last = (
            int(result.table.column(f"{name}_ps")[row])
            for name in ("arrival", "scheduled", "first_token", "last_token")
        )
        assert spans == {
            ("request", "b"): arrival, ("queue", "b"): arrival, ("queue", "e"): scheduled, ("prefill", "b"): scheduled,
            ("prefill", "e"): first, ("decode", "b"): first, ("decode", "e"): last, ("request", "e"): last,
        }  # fmt: skip


def test_any_outcome_any_class_name_any_steps(tmp_path):
    rng = random.Random(3)
    recorder = Recorder(meta(3), timeline=True)
    record(recorder, random_runs(rng, 3, 30))
    for identity in range(200):
        request = random_request(rng, identity, 3, OUTCOMES[identity % 5])
        request.class_name = 'the "quoted" \\ ünïcode\n'
        recorder.finished(request)
    result = finish(recorder, 10**3 * PS_PER_S)
    document = trace(result, tmp_path)
    check_format(document)
    requests = [one for one in of(document, "request") if one["name"] == "request" and one["ph"] == "b"]
    assert Counter(one["args"]["outcome"] for one in requests) == dict.fromkeys(OUTCOMES, 40)
    assert {one["args"]["class"] for one in requests} == {'the "quoted" \\ ünïcode\n'}
    assert all(one["pid"] == 0 for one in requests if one["args"]["outcome"] == "rejected")
    assert len(of(document, "step")) == result.summary()["steps"]
    assert of(document, "phase") == []


def test_what_a_step_grows_by_goes_to_the_phase_that_bounds_it(tmp_path):
    recorder = Recorder(meta(), timeline=True)
    record(recorder, [Run(Step(0, 5, 100, 0), count=3, growth=10, compute_growth=4)])
    phases = [Phase("host", "host", 1, 20), Phase("attention", "hbm", 2, 30), Phase("mlp", "sm", 2, 50)]
    recorder.phases(0, 5, phases)
    document = trace(finish(recorder, PS_PER_S), tmp_path)
    check_format(document)
    check_nesting(document)
    lengths = [one["dur"] for one in of(document, "phase")]
    assert lengths == [20, 30, 50, 20, 36, 54, 20, 42, 58]
    assert [one["args"]["pieces"] for one in of(document, "phase")][:3] == [1, 2, 2]
    assert [one["ts"] for one in of(document, "step")] == [5, 105, 215]


def test_every_picosecond_survives(tmp_path):
    recorder = Recorder(meta(), timeline=True)
    start = 10**6 * PS_PER_S + 1
    record(recorder, [Run(Step(0, start, 7, 0))])
    document = trace(finish(recorder, 2 * 10**6 * PS_PER_S), tmp_path)
    (step,) = of(document, "step")
    assert (step["ts"], step["dur"]) == (start, 7)


def test_the_busiest_links_are_counters(tmp_path):
    document = trace(linked_run(timeline=True), tmp_path)
    check_format(document)
    names = [one["args"]["name"] for one in document["traceEvents"] if one["name"] == "process_name"]
    assert names[-1] == "network"
    counters = of(document, "link")
    assert {one["pid"] for one in counters} == {len(names) - 1}
    assert {one["name"] for one in counters} == {"node0/gpu0/link-out", "node0/gpu0/nic-out"}
    nic = [one for one in counters if one["name"].endswith("nic-out")]
    # Ten GB/s of a hundred from 2 s to 3 s, and no collective.
    assert [(one["ts"], one["args"]["transfers"]) for one in nic] == [
        (2 * PS_PER_S, 10), (3 * PS_PER_S, 0), (nic[-1]["ts"], 0),
    ]  # fmt: skip
    port = [one for one in counters if one["name"].endswith("link-out")]
    assert all(earlier["ts"] < later["ts"] for earlier, later in pairwise(port))
    assert max(one["args"]["collectives"] for one in port) > 0
    sent = sum(
        one["args"]["collectives"] / 100 * 10**9 * (later["ts"] - one["ts"]) / PS_PER_S
        for one, later in pairwise(port)
    )  # fmt: skip
    assert float(sent) == pytest.approx(LINK_BYTES_PER_TOKEN * toy_run(60).segments.totals.tokens, rel=1e-9)


def test_drafts_and_verification_are_phases_of_their_steps(tmp_path):
    """In order, as long as they took; a step says what it verified, a request what became of its drafts."""
    document = trace(drafting_run(timeline=True), tmp_path)
    check_format(document)
    check_nesting(document)
    first, middle, last = (of(document, "step")[place] for place in (0, 100, 199))
    assert (first["args"]["drafted"], first["args"]["accepted"]) == (12, 10)
    assert (middle["args"]["drafted"], middle["args"]["accepted"]) == (4, 2)
    assert "drafted" not in last["args"]
    assert (middle["name"], last["name"]) == ("verify", "decode")
    phases = {
        step["ts"]: [one for one in of(document, "phase") if step["ts"] <= one["ts"] < step["ts"] + step["dur"]]
        for step in (first, middle, last)
    }
    kinds = [[phase["name"] for phase in mine] for mine in phases.values()]
    assert kinds == [["draft", "host", "verify"], ["draft", "host", "verify"], ["host", "layers"]]
    assert [mine[0]["args"]["pieces"] for mine in phases.values()] == [3, 1, 1]
    assert phases[first["ts"]][0]["dur"] == PS_PER_S // 1000
    begins = [event for event in of(document, "request") if event["name"] == "request" and event["ph"] == "b"]
    assert all(event["args"]["drafted_tokens"] == 268 for event in begins)
    assert all(event["args"]["accepted_tokens"] == 201 for event in begins)
