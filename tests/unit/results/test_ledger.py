import pytest
from tests.unit.results.building import finish, ledger, meta, toy_run
from tests.unit.results.test_summary import ended

from servetwin.errors import InvariantError
from servetwin.records import LEDGER_BUCKETS, SEGMENT_COLUMNS
from servetwin.results import Recorder
from servetwin.results.columns import ColumnStore
from servetwin.results.communication import CommunicationTable
from servetwin.results.ledger import HANDOFF_COSTS, Ledger
from servetwin.results.links import CHUNK_COLUMNS
from servetwin.units import PS_PER_S

ALONE = CommunicationTable((), ColumnStore(SEGMENT_COLUMNS), ColumnStore(CHUNK_COLUMNS), ())
"""GPUs that exchange nothing."""


def two_pools():
    run = meta(2)
    second = meta(3).pools[0]
    second.name, second.first_replica, second.gpus_per_replica = "decode", 2, 4
    run.pools.append(second)
    return run


def test_pools_and_total_add_up_to_every_gpu_second():
    run = two_pools()
    end = 10 * PS_PER_S
    replicas = [ledger(2, end, 4 * PS_PER_S), ledger(2, end), *(ledger(4, end, PS_PER_S) for _ in range(3))]
    nothing = finish(Recorder(meta()), end)
    found = Ledger(run, replicas, end).document(nothing.table, ALONE, nothing.hand_overs)
    assert found["gpus"] == 16 and found["gpu_seconds"] == 160.0
    assert set(found["pools"]) == {"engines", "decode"}
    assert sum(found["total"]["seconds"].values()) == pytest.approx(160.0)
    assert sum(found["total"]["share"].values()) == pytest.approx(1.0)
    assert found["pools"]["engines"]["seconds"]["idle"] == 2 * 6 + 2 * 10
    assert found["pools"]["decode"]["gpu_seconds"] == 120.0
    assert list(found["total"]["seconds"]) == list(LEDGER_BUCKETS)
    assert list(found["handoff_costs"]) == list(HANDOFF_COSTS)


def test_hand_off_costs_are_those_of_the_buckets():
    spent = ledger(2, PS_PER_S)
    spent["idle"] -= 3 * 10**11
    spent["recompute"] += 10**11
    spent["transfer_wait"] += 2 * 10**11
    nothing = finish(Recorder(meta()), PS_PER_S)
    found = Ledger(meta(), [spent], PS_PER_S).document(nothing.table, ALONE, nothing.hand_overs)
    assert found["handoff_costs"]["recompute"] == 0.1 and found["handoff_costs"]["transfer_wait"] == 0.2
    assert found["handoff_costs"]["draft"] == 0.0


@pytest.mark.parametrize("off", [1, -1])
def test_a_picosecond_that_does_not_add_up_is_a_bug(off):
    spent = ledger(2, PS_PER_S, 100)
    spent["idle"] += off
    with pytest.raises(InvariantError, match=f"off by {off}"):
        Ledger(meta(), [spent], PS_PER_S)


def test_unknown_buckets_negative_time_and_missing_replicas_are_bugs():
    good = ledger(2, PS_PER_S)
    with pytest.raises(InvariantError, match="coffee"):
        Ledger(meta(), [good | {"coffee": 0}], PS_PER_S)
    with pytest.raises(InvariantError, match="negative time in bubble"):
        Ledger(meta(), [good | {"bubble": -5, "idle": good["idle"] + 5}], PS_PER_S)
    with pytest.raises(InvariantError, match="1 ledgers for 2 replicas"):
        Ledger(meta(2), [good], PS_PER_S)


def test_ledgers_beyond_64_bits_add_up():
    end = 2**62
    run = meta(8)
    run.pools[0].gpus_per_replica = 8
    total = Ledger(run, [ledger(8, end, end // 3) for _ in range(8)], end).total_ps
    assert sum(total.values()) == 64 * end


def test_savings_are_the_arithmetic_of_the_hits():
    recorder = Recorder(meta())
    recorder.finished(ended(0, 0, 10, 20, hit_tokens=64))
    recorder.finished(ended(1, 0, 10, 20, hit_tokens=16))
    rejected = ended(2, 0, 10, 20)
    rejected.replica = -1
    recorder.finished(rejected)
    found = finish(recorder, PS_PER_S).ledger()["savings"]
    attended = 64 * 65 // 2 + 16 * 17 // 2
    assert found["prefill_tokens_avoided"] == 80
    assert found["prefill_gpu_seconds_avoided"] == pytest.approx((16e9 * 80 + 5e5 * attended) / 989e12)
    assert "lower bound" in found["method"]


def test_the_ledger_of_a_run_is_that_of_its_replicas():
    result = toy_run(60, replicas=2)
    found = result.ledger()
    assert found["gpu_seconds"] == pytest.approx(result.summary()["gpu_seconds"])
    assert found["total"]["seconds"]["compute"] > 0
