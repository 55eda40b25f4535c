"""The waiting queue in both orders."""

from __future__ import annotations

import random

import pytest

from servetwin.engine.waiting import FcfsQueue, KeyedQueue, WaitingQueue
from servetwin.request import Request


def request(number: int) -> Request:
    return Request(number, 0, 10, 10)


def order(queue: WaitingQueue) -> list[int]:
    """The ids in the order in which they leave; each is the head before it is taken."""
    ids = []
    while len(queue):
        head = queue.head()
        assert queue.take() is head
        ids.append(head.id)
    return ids


def test_first_come_first_served() -> None:
    queue = FcfsQueue()
    for number in range(4):
        queue.push(request(number), None)
    assert [each.id for each in queue] == [0, 1, 2, 3]
    assert order(queue) == [0, 1, 2, 3]
    assert not queue


def test_preempted_requests_return_to_the_front() -> None:
    """The last preempted first: they were admitted in the other order."""
    queue = FcfsQueue()
    for number in (5, 6):
        queue.push(request(number), None)
    for number in (4, 3):
        queue.push_preempted(request(number), None)
    assert order(queue) == [3, 4, 5, 6]


def test_smallest_key_first_and_equal_keys_by_entry() -> None:
    queue = KeyedQueue()
    for number, key in enumerate([2, 1, 2, 0, 1]):
        queue.push(request(number), key)
    assert len(queue) == 5
    assert {each.id for each in queue} == {0, 1, 2, 3, 4}
    assert order(queue) == [3, 1, 4, 0, 2]


def test_preempted_requests_return_by_their_key() -> None:
    """Behind those of the same key that have been waiting."""
    queue = KeyedQueue()
    queue.push(request(0), (1, 5))
    queue.push_preempted(request(1), (1, 5))
    queue.push_preempted(request(2), (0, 9))
    assert order(queue) == [2, 0, 1]


@pytest.mark.parametrize("make", [FcfsQueue, KeyedQueue])
@pytest.mark.parametrize("gone", [0, 2, 4])
def test_remove_leaves_the_order(make: type[FcfsQueue] | type[KeyedQueue], gone: int) -> None:
    queue: WaitingQueue = make()
    requests = [request(number) for number in range(5)]
    for each in requests:
        queue.push(each, each.id % 3)
    expected = [number for number in ([0, 1, 2, 3, 4] if make is FcfsQueue else [0, 3, 1, 4, 2]) if number != gone]
    queue.remove(requests[gone])
    assert len(queue) == 4
    assert order(queue) == expected


@pytest.mark.parametrize("seed", range(20))
def test_a_queue_after_remove_still_sorts(seed: int) -> None:
    rng = random.Random(seed)
    queue = KeyedQueue()
    requests = [request(number) for number in range(30)]
    keys = {each.id: rng.randrange(100) for each in requests}
    for each in requests:
        queue.push(each, keys[each.id])
    for each in rng.sample(requests, 10):
        queue.remove(each)
        del keys[each.id]
    assert order(queue) == sorted(keys, key=lambda number: (keys[number], number))
