"""The waiting queue of a rank, in the order that its scheduler gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Protocol

from servetwin.request import Request


class WaitingQueue(Protocol):
    """Requests that wait for admission; the head blocks all behind it."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Request]: ...

    def head(self) -> Request:
        """The request to be admitted next."""

    def take(self) -> Request:
        """Take the head out."""

    def push(self, request: Request, key: Any) -> None:
        """A new request enters; ``key`` is its place where the order is not that of arrival."""

    def push_preempted(self, request: Request, key: Any) -> None:
        """A preempted request returns."""

    def remove(self, request: Request) -> None:
        """Take out a request anywhere in the queue. A rare path, linear in its length."""


class FcfsQueue:
    """First come, first served; preempted requests return to the front."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._queue)

    def head(self) -> Request:
        """The request to be admitted next."""
        return self._queue[0]

    def take(self) -> Request:
        """Take the head out."""
        return self._queue.popleft()

    def push(self, request: Request, key: Any) -> None:
        """A new request enters at the back."""
        self._queue.append(request)

    def push_preempted(self, request: Request, key: Any) -> None:
        """A preempted request returns to the front."""
        self._queue.appendleft(request)

    def remove(self, request: Request) -> None:
        """Take out a request anywhere in the queue."""
        self._queue.remove(request)


class KeyedQueue:
    """Smallest key first; equal keys in the order in which they entered."""

    __slots__ = ("_entered", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Request]] = []
        self._entered = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        return iter([entry[2] for entry in self._heap])

    def head(self) -> Request:
        """The request to be admitted next."""
        return self._heap[0][2]

    def take(self) -> Request:
        """Take the head out."""
        return heappop(self._heap)[2]

    def push(self, request: Request, key: Any) -> None:
        """A request enters at the place that ``key`` gives it."""
        self._entered += 1
        heappush(self._heap, (key, self._entered, request))

    def push_preempted(self, request: Request, key: Any) -> None:
        """A preempted request enters at its place again."""
        self.push(request, key)

    def remove(self, request: Request) -> None:
        """Take out a request anywhere in the queue."""
        self._heap = sorted(entry for entry in self._heap if entry[2] is not request)
