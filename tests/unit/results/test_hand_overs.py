"""Hand-overs by hand: where time goes, what is moved, what waits, and how the pools do."""

import random

import numpy as np
import pytest
from tests.unit.results.building import (
    Moved,
    Run,
    Step,
    finish,
    meta,
    random_hand_over,
    random_request,
    record,
    split_meta,
    split_run,
)  # fmt: skip
from tests.unit.results.test_summary import ended

from servetwin.errors import InvariantError
from servetwin.request import COMPLETED, FAILED, UNFINISHED, Request
from servetwin.results import HandOverMeta, Recorder, load
from servetwin.results.hand_over_parts import GAP_PARTS, TTFT_PARTS, Stamps, cut
from servetwin.results.hand_over_summary import COUNT_KEYS, GAP_KEYS, TTFT_KEYS
from servetwin.results.percentiles import STATISTICS
from servetwin.results.pools import ADVICE_KEYS, STRANDED_KEYS, advice
from servetwin.units import PS_PER_MS, PS_PER_S


def ms(value):
    """Milliseconds in ps; -1 stays -1."""
    return value if value < 0 else value * PS_PER_MS


def moved(queued=-1, scheduled=-1, reserved=-1, start=-1, end=-1, kept=-1, freed=-1, **more):
    """A hand-over; times in ms."""
    stamps = {"queued": queued, "scheduled": scheduled, "reserved": reserved, "start": start, "end": end,
              "kept": kept, "freed": freed}  # fmt: skip
    return Moved(**{name: ms(time) for name, time in stamps.items()}, **more)


def request(identity=0, arrival=0, scheduled=10, prefilled=50, first=120, last=200, **more):
    """A completed request; times in ms."""
    found = ended(identity, arrival, first, last, **more)
    found.scheduled_ps, found.prefill_done_ps, found.replica = ms(scheduled), ms(prefilled), 1
    return found


def result_of(*cases, first_token="decode", end=1000, **changes):
    recorder = Recorder(split_meta(first_token=first_token, **changes))
    for move, one in cases:
        if move is None:
            recorder.finished(one)
        else:
            move.record(recorder, one)
    return finish(recorder, ms(end))


PULL = moved(queued=60, reserved=70, start=70, end=80, scheduled=90, kept=50, freed=80, moved_bytes=10**8, attempts=1)
STREAM = moved(queued=5, reserved=8, start=20, end=55, scheduled=60, kept=50, freed=55, moved_bytes=10**8, attempts=1)
PUSH = moved(queued=65, reserved=75, start=20, end=82, scheduled=90, kept=50, freed=58, moved_bytes=10**8, attempts=1)
LOST = moved(queued=60, reserved=70, start=70, scheduled=90, kept=50, freed=83, moved_bytes=2 * 10**8, attempts=2)
EXPIRED = moved(queued=60, scheduled=90, kept=50, freed=88)
UNNEEDED = moved(queued=60, scheduled=62, kept=50, freed=62)

PARTS = {  # decode queue, transfer, decode admission [ms], with the prefill done at 50 and the first token at 120
    "pull": (PULL, (20, 10, 40)),
    "stream": (STREAM, (0, 5, 65)),
    # In memory at 58, loaded from 75 on.
    "push": (PUSH, (17, 8 + 7, 38)),
    # Given up when the blocks were freed.
    "lost": (LOST, (20, 13, 37)),
    "expired": (EXPIRED, (40, 0, 30)),
    "unneeded": (UNNEEDED, (12, 0, 58)),
}


@pytest.mark.parametrize("name", PARTS)
def test_the_parts_of_ttft_by_hand(name):
    move, (queue, transfer, admission) = PARTS[name]
    found = result_of((move, request())).summary()
    parts = {part: found[f"ttft_{part}_ms.mean"] for part in TTFT_PARTS}
    assert parts == {
        "queue": 10, "prefill": 40, "decode_queue": queue, "transfer": transfer, "decode_admission": admission,
        "output": 0,
    }  # fmt: skip
    assert sum(parts.values()) == found["ttft_ms.mean"] == 120
    assert found["hand_over_gap_ms.mean"] is None and found["split_requests"] == 1


@pytest.mark.parametrize("name", PARTS)
def test_after_a_first_token_of_the_prefill_comes_a_gap(name):
    """The token is there at 52 ms, 2 ms after the prefill; the decoding replica goes on when it plans a step."""
    move, (queue, transfer, _) = PARTS[name]
    found = result_of((move, request(first=52)), first_token="prefill").summary()
    parts = [found[f"ttft_{part}_ms.p99"] for part in TTFT_PARTS]
    assert parts == [10, 40, 0, 0, 0, 2] and found["ttft_ms.p99"] == 52
    scheduled = move.scheduled / PS_PER_MS
    gap = [found[f"gap_{part}_ms.mean"] for part in GAP_PARTS]
    assert gap == [queue, transfer, scheduled - 50 - queue - transfer]
    assert found["hand_over_gap_ms.mean"] == sum(gap) == scheduled - 50


def test_a_request_of_one_token_never_reaches_the_decoding_replica():
    alone = moved(target=-1, kept=-1)
    found = result_of((alone, request(first=52, last=52, output=1)), first_token="prefill").summary()
    assert found["ttft_output_ms.mean"] == 2 and found["hand_over_gap_ms.mean"] is None
    assert found["split_requests"] == 1 and found["transfers"] == 0 and found["transfer_ms.mean"] is None


def test_requests_that_are_not_split_have_no_part_in_the_decoding_replica():
    """The means are over all requests, so that they add up to the mean TTFT."""
    whole = request(1, scheduled=30, prefilled=70, first=72)
    found = result_of((PULL, request()), (None, whole)).summary()
    assert [found[f"ttft_{part}_ms.mean"] for part in TTFT_PARTS] == [20, 40, 10, 5, 20, 1]
    assert found["ttft_ms.mean"] == 96 and found["transfer_ms.mean"] == 10
    assert (found["split_requests"], found["requests"]) == (1, 2)


def test_warm_up_has_no_parts():
    late = request(1, arrival=20, scheduled=40, prefilled=50, first=150)
    found = result_of((PULL, request()), (PULL, late), warmup_requests=1).summary()
    assert found["ttft_queue_ms.max"] == 20 and found["ttft_decode_admission_ms.max"] == 70


def test_stamps_out_of_order_are_a_bug():
    with pytest.raises(InvariantError, match="request 7: decode_admission takes -5"):
        result_of((PULL, request(7, first=75))).summary()


def test_nothing_split_leaves_everything_null():
    found = finish(Recorder(meta()), PS_PER_S).summary()
    latencies = [f"{key}.{one}" for key in (*TTFT_KEYS, *GAP_KEYS, "transfer_ms") for one in STATISTICS]
    assert found["split_requests"] == 0
    assert {found[key] for key in (*latencies, *COUNT_KEYS, *STRANDED_KEYS, *ADVICE_KEYS)} == {None}
    split = result_of((PULL, request())).summary()
    assert set(split) == set(found)


def test_what_was_moved():
    """100 MB in 10 ms pulled, 5 of 35 ms exposed when streamed, 15 of 38 + 7 ms when pushed; 13 ms in vain."""
    found = result_of(*((move, request(place)) for place, move in enumerate((PULL, STREAM, PUSH)))).summary()
    assert (found["transfers"], found["failed_transfers"], found["lost_hand_overs"]) == (3, 0, 0)
    assert found["transfer_bytes"] == 3 * 10**8
    assert found["transfer_exposed_s"] == pytest.approx(0.030) and found["transfer_hidden_s"] == pytest.approx(0.060)
    assert found["transfer_bytes_per_s"] == pytest.approx(3e8 / 0.09)
    assert found["transfer_alone_bytes_per_s"] == 1e11
    assert found["transfer_ms.mean"] == 30 and found["transfer_ms.max"] == 45
    lost = request(recomputed_tokens=100)
    found = result_of((LOST, lost), (EXPIRED, request(1, recomputed_tokens=100)), (UNNEEDED, request(2))).summary()
    assert (found["transfers"], found["failed_transfers"], found["lost_hand_overs"]) == (2, 2, 2)
    assert found["transfer_exposed_s"] == pytest.approx(0.013) and found["transfer_ms.mean"] is None
    assert any("2 of 3 requests that were handed over had to do without" in one for one in found["warnings"])


def test_transfers_that_fail_their_request_are_lost():
    failed = request(last=-1, first=-1, outcome=FAILED)
    failed.last_token_ps = failed.first_token_ps = -1
    stopped = moved(queued=60, reserved=70, start=70, kept=50, freed=83, attempts=1)
    found = result_of((stopped, failed)).summary()
    assert (found["failed_transfers"], found["lost_hand_overs"], found["failed"]) == (1, 1, 1)
    assert found["ttft_transfer_ms.mean"] is None


def test_what_is_under_way_at_the_end_counts_up_to_there():
    waiting = request(outcome=UNFINISHED)
    waiting.first_token_ps = waiting.last_token_ps = -1
    under_way = moved(queued=60, reserved=70, start=70, kept=50, moved_bytes=5, attempts=2)
    found = result_of((under_way, waiting), end=170).summary()
    assert (found["transfers"], found["failed_transfers"], found["lost_hand_overs"]) == (2, 1, 0)
    assert found["transfer_exposed_s"] == pytest.approx(0.1)
    # 100 tokens kept for 120 ms, and room for them reserved for 100 ms.
    assert found["kv_stranded_prefill_token_s"] == pytest.approx(12)
    assert found["kv_stranded_decode_token_s"] == pytest.approx(10)


def test_stranded_kv_cache():
    """100 prompt tokens kept from 50 to 80 ms; room for the 60 that were lacking from 70 to 80 ms."""
    move = moved(queued=60, reserved=70, start=70, end=80, scheduled=90, kept=50, freed=80, attempts=1, found=40)
    result = result_of((move, request()))
    found = result.summary()
    assert found["kv_stranded_prefill_token_s"] == pytest.approx(3)
    assert found["kv_stranded_decode_token_s"] == pytest.approx(0.6)
    assert found["kv_stranded_prefill"] == found["pools"]["prefill"]["kv_stranded"] == pytest.approx(3 / 430_000)
    assert found["kv_stranded_decode"] == found["pools"]["decode"]["kv_stranded"] == pytest.approx(0.6 / 430_000)
    frame = result.timeseries()
    for replica, tokens in ((0, 3.0), (1, 0.6)):
        mine = frame[frame["replica"] == replica]
        width = mine["end_s"] - mine["start_s"]
        assert (mine["kv_stranded"] * width).sum() == pytest.approx(tokens / 430_000)


def brute(requests, moves, replicas, width, horizon):
    """Request by request and interval by interval, in Python integers."""
    number = -(-horizon // width)
    names = ("running", "waiting", "stranded", "arrivals", "completed")
    sums = [[dict.fromkeys(names, 0) for _ in range(number)] for _ in range(replicas)]

    def add(replica, name, begin, end, tokens=1):
        end = min(end, horizon)
        for place in range(begin // width, number):
            if begin < 0 or place * width >= end:
                return
            sums[replica][place][name] += tokens * max(0, min(end, (place + 1) * width) - max(begin, place * width))

    for one, move in zip(requests, moves, strict=True):
        first = one.replica if move is None else move.source
        sums[first][min(one.arrival_ps // width, number - 1)]["arrivals"] += 1
        if one.outcome == COMPLETED:
            sums[one.replica][min((one.last_token_ps - 1) // width, number - 1)]["completed"] += 1
        add(first, "waiting", one.queued_ps, one.scheduled_ps)
        last = horizon if one.last_token_ps < 0 else one.last_token_ps
        add(first, "running", one.scheduled_ps, last if move is None else one.prefill_done_ps)
        if move is not None:
            add(move.target, "waiting", move.queued, horizon if move.scheduled < 0 else move.scheduled)
            add(move.target, "running", move.scheduled, last)
            add(move.source, "stranded", move.kept, horizon if move.freed < 0 else move.freed, one.prompt_tokens)
            lacking = one.prompt_tokens - move.found
            add(move.target, "stranded", move.reserved, horizon if move.end < 0 else move.end, lacking)
    return sums


@pytest.mark.parametrize("seed", range(6))
def test_every_interval_has_the_requests_of_both_sides(seed):
    rng = random.Random(seed)
    prefills, decodes = rng.choice(((1, 1), (2, 3)))
    by_prefill = rng.random() < 0.5
    replicas = prefills + decodes
    recorder = Recorder(split_meta(prefills, decodes))
    requests = [random_request(rng, identity, replicas) for identity in range(200)]
    moves = []
    for one in requests:
        apart = rng.random() < 0.7
        moves.append(random_hand_over(rng, one, prefills, replicas, by_prefill) if apart else None)
        if apart:
            moves[-1].record(recorder, one)
        else:
            recorder.finished(one)
    series = finish(recorder, 40 * PS_PER_S).series
    expected = brute(requests, moves, replicas, series.width_ps, series.horizon_ps)
    for replica in range(replicas):
        found = series.replica_columns(replica, 1)
        for place, cell in enumerate(expected[replica]):
            length = int(found["end_ps"][place] - found["start_ps"][place])
            for column, name in (("running", "running"), ("waiting", "waiting"), ("kv_stranded", "stranded")):
                assert found[column][place] == pytest.approx(cell[name] / length, rel=1e-13, abs=1e-9), column
            assert found["arrivals"][place] == cell["arrivals"] and found["completed"][place] == cell["completed"]
        assert series.stranded_token_ps(replica) == sum(cell["stranded"] for cell in expected[replica])


def test_a_request_that_failed_waits_no_longer():
    failed = request(outcome=FAILED)
    failed.first_token_ps = failed.last_token_ps = -1
    result = result_of((moved(queued=60, kept=50, freed=300), failed))
    frame = result.timeseries()
    width = (frame["end_s"] - frame["start_s"]) * 1000
    for replica, name, expected in ((0, "waiting", 10), (0, "running", 40), (1, "waiting", 240), (1, "running", 0)):
        mine = frame["replica"] == replica
        assert (frame[name] * width)[mine].sum() == pytest.approx(expected), (replica, name)


def test_pools_by_hand():
    """Prefill is busy for 1 s bound by arithmetic for 0.6 s, decode for 2 s and by HBM for 0.9 s; the run lasts 4 s."""
    recorder = Recorder(split_meta())
    PULL.record(recorder, request())
    recorder.finished(request(1, scheduled=30, prefilled=70, first=72))
    record(recorder, [
        Run(Step(0, 0, PS_PER_S, PS_PER_S, compute=600 * PS_PER_MS, held=43_000)),
        Run(Step(1, 0, PS_PER_S, PS_PER_S, memory=450 * PS_PER_MS), count=2),
    ])  # fmt: skip
    found = finish(recorder, 4 * PS_PER_S).summary()["pools"]
    assert list(found) == ["prefill", "decode"]
    prefill, decode = found["prefill"], found["decode"]
    assert (prefill["role"], prefill["replicas"], prefill["gpus"], prefill["requests"]) == ("prefill", 1, 2, 1)
    assert (decode["role"], decode["requests"], decode["hardware"]) == ("decode", 2, "h100-sxm")
    assert (prefill["busy_replica_s"], prefill["utilisation"]) == (1.0, 0.25)
    assert (decode["busy_replica_s"], decode["utilisation"]) == (2.0, 0.5)
    assert (prefill["compute_bound_share"], prefill["memory_bound_share"]) == (0.6, 0.0)
    assert (decode["compute_bound_share"], decode["memory_bound_share"]) == (0.0, 0.45)
    assert prefill["kv_use_max"] == 0.1 and prefill["kv_use_mean"] == pytest.approx(0.025)


def test_the_pool_of_a_run_with_one_is_the_run():
    recorder = Recorder(meta(2))
    recorder.finished(ended(0, 0, 10, 20))
    record(recorder, [Run(Step(0, 0, PS_PER_S, PS_PER_S, compute=600 * PS_PER_MS, memory=300 * PS_PER_MS), count=3)])
    found = finish(recorder, 4 * PS_PER_S).summary()
    (pool,) = found["pools"].values()
    for key in ("utilisation", "compute_bound_share", "memory_bound_share", "kv_use_mean", "kv_use_max", "gpus"):
        assert pool[key] == found[key], key
    assert (pool["role"], pool["requests"], pool["kv_stranded"]) == ("both", 1, None)


@pytest.mark.parametrize(
    ("replicas", "busy", "advised"),
    [
        ((2, 2), (10, 30), (1 / 3, 1, 3)),
        ((1, 3), (30, 30), (1.0, 2, 2)),
        ((2, 2), (1, 100), (0.01, 1, 3)),
        ((2, 2), (100, 1), (100.0, 3, 1)),
        # 3 : 1 and 2 : 2 are equally good: what is there stays.
        ((2, 2), (30, 15), (2.0, 2, 2)),
        ((2, 2), (0, 15), (None, None, None)),
    ],
)
def test_advice_by_hand(replicas, busy, advised):
    pools = split_meta(*replicas).pools
    seconds = [busy[index >= replicas[0]] / replicas[index >= replicas[0]] for index in range(sum(replicas))]
    found = advice(pools, [round(one * PS_PER_S) for one in seconds])
    assert [found[key] for key in ADVICE_KEYS] == [pytest.approx(one) for one in advised]


def test_advice_counts_gpus():
    """A decoding replica has four GPUs, a prefilling one two, and there are twelve GPUs."""
    run = split_meta(2, 2)
    run.pools[1].gpus_per_replica = 4
    found = advice(run.pools, [20, 20, 5, 5])
    assert (found["advised_prefill_replicas"], found["advised_decode_replicas"]) == (4, 1)
    run.pools.append(meta(4).pools[0])
    run.pools[2].role, run.pools[2].first_replica, run.pools[2].replicas = "decode", 4, 1
    found = advice(run.pools, [20, 20, 5, 5, 10])
    assert found["advised_pd_ratio"] == 2.0 and found["advised_prefill_replicas"] is None


def test_ways_that_take_no_time_have_no_rate():
    run = split_meta()
    run.hand_overs = HandOverMeta("decode", lambda source, target: None)
    recorder = Recorder(run)
    PULL.record(recorder, request())
    found = finish(recorder, PS_PER_S).summary()
    assert found["transfer_alone_bytes_per_s"] is None and found["transfer_bytes_per_s"] == pytest.approx(1e10)


def test_the_ledger_prices_hits_on_the_pool_that_prefills():
    """Half the peak, twice the time."""
    run = split_meta()
    run.pools[1].peak_flops /= 2
    for apart, factor in ((True, 1), (False, 2)):
        recorder = Recorder(run)
        hit = request(hit_tokens=64)
        if apart:
            PULL.record(recorder, hit)
        else:
            recorder.finished(hit)
        found = finish(recorder, PS_PER_S).ledger()
        flops = 16e9 * 64 + 5e5 * 64 * 65 // 2
        assert found["savings"]["prefill_gpu_seconds_avoided"] == pytest.approx(factor * flops / 989e12)
        assert found["kv_transfers"]["bytes"] == (10**8 if apart else 0)
        assert found["kv_transfers"]["exposed_request_s"] == pytest.approx(0.01 if apart else 0)


def test_the_table_has_the_hand_overs_of_the_requests_that_are_asked_for():
    recorder = Recorder(split_meta())
    for identity in (5, 2, 9):
        Moved(moved_bytes=identity).record(recorder, request(identity))
    table = finish(recorder, PS_PER_S).hand_overs
    assert table.ids.tolist() == [2, 5, 9] and table.column("moved_bytes").tolist() == [2, 5, 9]
    block = table.of(np.array([9, 3, 2, 10]))
    assert block.split.tolist() == [True, False, True, False] and block.some and len(block) == 4
    assert block["moved_bytes"].tolist() == [9, -1, 2, -1]
    nothing = table.of(np.array([1, 3]))
    assert not nothing.some and nothing["moved_bytes"].tolist() == [-1, -1]


def test_cuts_never_go_back():
    rng = np.random.default_rng(5)
    stamps = Stamps(*(rng.integers(-3, 9, 4000) for _ in Stamps._fields))
    stamps = stamps._replace(prefill_done=np.maximum(stamps.prefill_done, 0))
    cuts = cut(stamps)
    assert (cuts.pushed >= cuts.prefilled).all() and (cuts.taken >= cuts.pushed).all()
    assert (cuts.there >= cuts.taken).all() and (cuts.hidden >= 0).all()
    assert (cuts.queue + cuts.transfer == cuts.there - cuts.prefilled).all()


def test_the_files_have_the_stamps(tmp_path):
    result = result_of((PULL, request()), (None, request(1)))
    result.write(tmp_path, figures=False)
    first, second = load(tmp_path).requests().to_dict("records")
    assert (first["prefill_replica"], first["replica"], first["transfer_bytes"]) == (0, 1, 10**8)
    for column, time in (("decode_queued", 60), ("decode_reserved", 70), ("transfer_start", 70), ("transfer_end", 80),
                         ("decode_scheduled", 90), ("prefill_freed", 80)):  # fmt: skip
        assert first[f"{column}_s"] == time / 1000
        assert np.isnan(second[f"{column}_s"])
    assert np.isnan(second["prefill_replica"]) and second["transfer_bytes"] == 0
    stored = load(tmp_path)
    assert stored.summary() == result.summary() and stored.timeseries().equals(result.timeseries())


def test_a_queue_that_grows_in_front_of_the_decoding_replica_is_an_overload():
    cases = []
    for place in range(200):
        one = request(place, 10 * place, 10 * place, 10 * place + 5, 60 * place + 100, 60 * place + 200)
        one.queued_ps = one.scheduled_ps
        decoded = 60 * place + 50
        cases.append((moved(queued=10 * place + 6, reserved=decoded, start=decoded, end=decoded, scheduled=decoded,
                            kept=10 * place + 5, freed=decoded, attempts=1), one))  # fmt: skip
    found = result_of(*cases, end=20_000).summary()
    assert any("overloaded" in one for one in found["warnings"])


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (moved(queued=60, reserved=110, start=110, end=112, scheduled=113, kept=50, freed=112, attempts=1),
         "TTFT is dominated by waiting for the decoding replicas: 60 of 115 ms"),
        (moved(queued=50, reserved=50, start=50, end=112, scheduled=113, kept=50, freed=112, attempts=1),
         "TTFT is dominated by waiting for KV cache to be transferred: 62 of 115 ms"),
    ],
)  # fmt: skip
def test_what_dominates_is_said(move, words):
    found = result_of(*((move, request(place, first=115)) for place in range(4))).summary()
    assert any(words in one for one in found["warnings"])


def test_means_add_up_over_many_requests():
    for first_token in ("decode", "prefill"):
        found = split_run(300, first_token).summary()
        assert sum(found[f"{key}.mean"] for key in TTFT_KEYS) == pytest.approx(found["ttft_ms.mean"], rel=1e-12)
        assert (found["hand_over_gap_ms.mean"] is None) == (first_token == "decode")


def test_an_unfinished_prefill_runs_to_the_end():
    waiting = Request(0, 0, 100, 10)
    waiting.replica, waiting.pool, waiting.outcome = 0, 0, UNFINISHED
    waiting.routed_ps = waiting.queued_ps = 0
    waiting.scheduled_ps = ms(10)
    frame = result_of((Moved(target=-1), waiting), end=100).timeseries()
    width = (frame["end_s"] - frame["start_s"]) * 1000
    assert (frame["running"] * width)[frame["replica"] == 0].sum() == pytest.approx(90)
