"""What a comparison says in plain words."""

from __future__ import annotations

from math import inf

from servetwin.records import LEDGER_BUCKETS
from servetwin.studies.compare.contrasts import Account
from servetwin.studies.compare.sentences import sentence
from servetwin.studies.statistics import Interval


def account(
    ttft: Interval | None = None,
    tpot: Interval | None = None,
    gpu: Interval | None = None,
    gpus: float = 0,
    **ledger: float,
) -> Account:
    intervals = {"ttft_ms.mean": ttft, "tpot_ms.mean": tpot, "gpu_seconds_in_use": gpu}
    return Account(
        metrics={"gpus": gpus},
        ledger={bucket: ledger.get(bucket, 0.0) for bucket in LEDGER_BUCKETS},
        intervals={key: interval for key, interval in intervals.items() if interval is not None},
    )


def test_a_saving_that_costs_nothing() -> None:
    found = sentence("caching", account(Interval(-41, -44, -38), compute=-12.3, idle=10), 152)
    assert found == (
        "caching saves 12.30 GPU-s (−8.1 %) and lowers mean TTFT by 41 ms (95 % CI 38…44); "
        "handing work on costs nothing measurable."
    )


def test_costs_are_taken_off_what_is_saved() -> None:
    found = sentence("drafts", account(Interval(3, 2, 4), Interval(-5, -6, -4), hbm=-10, draft=2, bubble=1), 100)
    assert found == (
        "drafts saves 7 GPU-s (−7.0 %), raises mean TTFT by 3 ms (95 % CI 2…4) and lowers mean TPOT by 5 ms "
        "(95 % CI 4…6); handing work on costs 2 GPU-s of draft and 1 GPU-s of bubble, included in that."
    )


def test_what_is_verified_in_vain_has_its_name() -> None:
    found = sentence("drafts", account(hbm=-10, draft=2, wasted_verify=3), 100)
    assert found == (
        "drafts saves 5 GPU-s (−5.0 %); handing work on costs 2 GPU-s of draft and 3 GPU-s of wasted verification, "
        "included in that."
    )


def test_costs_that_went_down_are_told_too() -> None:
    """A pipeline that gives way to tensor ranks: more exchange, no bubble."""
    found = sentence("tp16", account(hbm=5, exposed_communication=20, bubble=-30), 100)
    assert found == (
        "tp16 saves 5 GPU-s (−5.0 %); handing work on costs 20 GPU-s of exposed communication and 30 GPU-s less of "
        "bubble, included in that."
    )
    assert "costs 30 GPU-s less of bubble, included" in sentence("it", account(bubble=-30), 100)


def test_what_takes_more() -> None:
    found = sentence("it", account(Interval(-1, -inf, inf), gpu=Interval(5, 4, 6), hbm=5), 100)
    assert found == (
        "it takes 5 GPU-s more (+5.0 %, 95 % CI 4…6 GPU-s) and lowers mean TTFT by 1 ms; "
        "handing work on costs nothing measurable."
    )


def test_more_gpus_are_no_free_lunch() -> None:
    """GPU-seconds in use leave out that GPUs are paid while they wait."""
    found = sentence("it", account(gpus=2, hbm=-5), 100)
    assert found == "it has 2 GPUs more and saves 5 GPU-s (−5.0 %); handing work on costs nothing measurable."
    assert "has 1 GPU fewer" in sentence("it", account(gpus=-1), 100)


def test_what_may_be_chance() -> None:
    found = sentence("it", account(Interval(-1, -3, 1), gpu=Interval(5, -4, 14), hbm=5), 100)
    assert found == (
        "it changes the GPU-seconds in use by no more than chance (95 % CI −4…14 GPU-s) and leaves mean TTFT "
        "(95 % CI −3…1 ms) where it was; handing work on costs nothing measurable."
    )


def test_nothing_at_all() -> None:
    still = Interval(0, 0, 0)
    assert sentence("it", account(still, still), 100) == (
        "it leaves the GPU-seconds in use as they are and leaves mean TTFT and mean TPOT where they were; "
        "handing work on costs nothing measurable."
    )
