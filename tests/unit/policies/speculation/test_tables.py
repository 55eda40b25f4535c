"""Numbers of drafts by batch size, worked by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from servetwin.policies import PolicyContext, parse_policy
from servetwin.policies.speculation import ByBatchSize, DisableByBatchSize, DraftLenSchedule, Fixed
from servetwin.streams import Streams
from servetwin.testing import FakeDraftView

CONTEXT = PolicyContext(Streams(0), replicas=1, seats=8)


def answers(policy: Fixed | ByBatchSize | DraftLenSchedule | DisableByBatchSize, most: int, *sizes: int) -> list[int]:
    controller = policy.build(CONTEXT)
    return [controller.choose(FakeDraftView(most, size)) for size in sizes]


def test_fixed_is_the_most_whatever_the_batch() -> None:
    assert answers(Fixed(), 5, 1, 100, 10_000) == [5, 5, 5]
    assert Fixed().counts() == {}


def test_ranges_as_the_test_of_vllm_has_them() -> None:
    """The cases of ``test_dynamic_sd_uses_batch_size_schedule`` in vLLM's own tests."""
    policy = ByBatchSize(ranges=[[1, 16, 3], [32, 128, 2], [256, 2048, 0]])
    sizes = (1, 16, 17, 31, 32, 128, 129, 255, 256)
    assert answers(policy, 3, *sizes) == [3, 3, 3, 3, 2, 2, 2, 2, 0]


def test_what_steps_of_so_many_requests_can_get() -> None:
    ranges = ByBatchSize(ranges=[[1, 16, 3], [32, 128, 2], [256, 2048, 0]])
    assert [ranges.choices(3, requests) for requests in (31, 32, 255, 256)] == [{3}, {3, 2}, {3, 2}, {3, 2, 0}]
    schedule = DraftLenSchedule(schedule={4: 4, 8: 2})
    assert [schedule.choices(4, requests) for requests in (4, 5, 8, 9)] == [{4}, {4, 2}, {4, 2}, {4, 2, 0}]
    limit = DisableByBatchSize(requests=32)
    assert [limit.choices(5, requests) for requests in (31, 32)] == [{5}, {5, 0}]
    assert DisableByBatchSize(requests=1).choices(5, 9) == {0}


def test_beyond_the_last_range_its_number_goes_on() -> None:
    assert answers(ByBatchSize(ranges=[[1, 4, 3], [5, 8, 1]]), 3, 8, 9, 10_000) == [1, 1, 1]


def test_ranges_ask_for_no_more_than_there_is() -> None:
    assert answers(ByBatchSize(ranges=[[1, 256, 4]]), 3, 1, 256) == [3, 3]


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([[2, 16, 3]], "must begin at batch size 1"),
        ([[1, 16, 3], [16, 32, 2]], r"overlap: \[1, 16, 3\] and \[16, 32, 2\]"),
        ([[1, 16, 3], [64, 128, 1], [17, 63, 2]], r"in order .* \[17, 63, 2\] comes after \[64, 128, 1\]"),
        ([[1, 16, -1]], "0 or more"),
        ([[1, 16, 3], [20, 18, 1]], "ends where it begins or later"),
        ([[0, 16, 3]], "begins at 1 or later"),
        ([[1, 16]], "at least 3 items"),
        ([[1, 16, 3, 4]], "at most 3 items"),
        ([], "at least 1 item"),
        ([[1, 16.5, 3]], "valid integer"),
        ([[1, "16", 3]], "valid integer"),
    ],
)
def test_wrong_ranges_are_told_apart(ranges: object, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ByBatchSize(ranges=ranges)  # type: ignore[arg-type]


def test_a_wrong_range_is_found_at_its_place() -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_policy("speculation", {"policy": "by-batch-size", "ranges": [[1, 16, 3], [20, 18, 1]]})
    assert caught.value.context is not None
    assert [line["loc"] for line in caught.value.context["errors"]] == [("ranges", 1)]


def test_numbers_of_drafts_can_be_compared_with_the_scenario_s() -> None:
    policy = ByBatchSize(ranges=[[1, 16, 3], [17, 64, 5], [65, 128, 1]])
    assert policy.counts() == {("ranges", 0, 2): 3, ("ranges", 1, 2): 5, ("ranges", 2, 2): 1}
    assert DraftLenSchedule(schedule={4: 4, 8: 6}).counts() == {("schedule", 4): 4, ("schedule", 8): 6}


def test_a_schedule_holds_up_to_its_bounds() -> None:
    policy = DraftLenSchedule(schedule={4: 4, 8: 2, 32: 1})
    assert answers(policy, 4, 1, 4, 5, 8, 9, 32, 33, 1000) == [4, 4, 2, 2, 1, 1, 0, 0]
    assert answers(policy, 3, 1, 5) == [3, 2]


def test_a_schedule_needs_no_order_and_takes_keys_of_json() -> None:
    policy = parse_policy("speculation", {"policy": "draft-len-schedule", "schedule": {"32": 1, 4: 4, "8": 2}})
    assert policy == DraftLenSchedule(schedule={4: 4, 8: 2, 32: 1})
    assert answers(policy, 4, 5, 20) == [2, 1]  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", [{}, {0: 4}, {-1: 4}, {4: -1}, {"many": 4}, {4: 1.5}, [[4, 4]], {4.5: 1}])
def test_wrong_schedules_are_refused(schedule: object) -> None:
    with pytest.raises(ValidationError):
        DraftLenSchedule(schedule=schedule)  # type: ignore[arg-type]


def test_speculation_is_off_from_the_limit_on() -> None:
    assert answers(DisableByBatchSize(requests=32), 3, 1, 31, 32, 33) == [3, 3, 0, 0]
