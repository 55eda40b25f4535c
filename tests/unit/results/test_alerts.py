import pytest
from tests.unit.results.building import Run, Step, finish, meta, record, toy_run
from tests.unit.results.test_summary import ended, summary_of

from servetwin.results import Recorder
from servetwin.results.alerts import queue_growth
from servetwin.units import PS_PER_MS, PS_PER_S


def warnings_of(result):
    return " / ".join(result.warnings)


def growth_of(result):
    return queue_growth(result.table, result.hand_overs, result.end_ps)


def test_a_healthy_run_has_nothing_to_say():
    assert toy_run(1200, rate_per_s=6).warnings == []


def test_an_overloaded_run_says_that_the_queue_grew():
    assert "overloaded: the queue grew throughout" in warnings_of(toy_run(800, rate_per_s=60, seats=32))


def test_a_queue_that_fills_and_empties_again_is_no_overload():
    # 40 requests every 10 s, served one after the other within 4 s.
    requests = []
    for burst in range(8):
        for place in range(40):
            start = 10_000 * burst + 100 * place
            requests.append(
                ended(10 * burst + place, 10_000 * burst, start + 100, start + 110, scheduled_ps=start * PS_PER_MS)
            )
    recorder = Recorder(meta())
    for request in requests:
        recorder.finished(request)
    assert growth_of(finish(recorder, 100 * PS_PER_S)) is None


def test_requests_that_never_start_count_as_waiting_to_the_end():
    recorder = Recorder(meta())
    for place in range(100):
        request = ended(place, 100 * place, 0, 0)
        request.scheduled_ps = request.first_token_ps = request.last_token_ps = -1
        request.outcome = "unfinished"
        recorder.finished(request)
    growth = growth_of(finish(recorder, 20 * PS_PER_S))
    assert growth == pytest.approx(93.8, abs=1.0)


def test_requests_that_all_arrive_at_once_have_no_trend():
    recorder = Recorder(meta())
    for place in range(100):
        recorder.finished(ended(place, 0, 1000 * place, 1000 * place, scheduled_ps=1000 * place * PS_PER_MS))
    assert growth_of(finish(recorder, 200 * PS_PER_S)) is None


def test_a_run_that_never_became_steady_is_told():
    short = [ended(place, 10 * place, 10 * place + 10, 10 * place + 500) for place in range(200)]
    assert any("only 75% of the requests" in one for one in summary_of(short)["warnings"])
    longer = [ended(place, 10 * place, 10 * place + 10, 10 * place + 500) for place in range(600)]
    assert not any("building up" in one for one in summary_of(longer)["warnings"])


def test_preemptions_are_told_and_a_nearly_full_cache_too():
    found = summary_of([ended(0, 0, 10, 20, preemptions=2, recomputed_tokens=77)])
    assert any("1 requests were preempted (2 times), 77 tokens" in warning for warning in found["warnings"])
    recorder = Recorder(meta())
    record(recorder, [Run(Step(0, 0, 10, 10, held=425_000))])
    assert "nearly full: up to 99%" in warnings_of(finish(recorder, PS_PER_S))


def test_queueing_that_dominates_ttft_is_told():
    requests = [ended(place, 0, 100, 200, scheduled_ps=60 * PS_PER_MS) for place in range(3)]
    assert any("TTFT is dominated by queueing: 60 of 100 ms" in one for one in summary_of(requests)["warnings"])


@pytest.mark.parametrize(("requests", "told"), [(999, True), (1000, False)])
def test_too_few_requests_for_p99_are_told(requests, told):
    found = summary_of([ended(place, place, place + 10, place + 20) for place in range(requests)])
    assert any("p99 rests on 9 of them" in warning for warning in found["warnings"]) == told


def test_the_run_s_own_warnings_come_first_and_an_interruption_is_told():
    recorder = Recorder(meta())
    recorder.finished(ended(0, 0, 10, 20))
    result = finish(recorder, 3 * PS_PER_S, warnings=["a policy forces single steps"], interrupted=True)
    assert result.warnings[0] == "a policy forces single steps"
    assert result.warnings[1].startswith("interrupted: the results cover the first 3 simulated seconds")
    assert result.summary()["interrupted"] is True
