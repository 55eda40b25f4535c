"""The schedulers that the oracle tests run under, as plain as they can be."""

from __future__ import annotations

from typing import Any

from servetwin.request import Request


class Fcfs:
    fcfs = True
    reads_cache = False

    def order(self, request: Request, cached_tokens: int) -> Any:
        raise AssertionError("not called")

    def victim(self, request: Request) -> Any:
        return None


class Priority:
    """The smallest priority number first; the largest is preempted first."""

    fcfs = False
    reads_cache = False

    def order(self, request: Request, cached_tokens: int) -> Any:
        return request.priority, request.arrival_ps

    def victim(self, request: Request) -> Any:
        return request.priority, request.arrival_ps


class PriorityTies:
    """Priorities only, so that many keys are equal."""

    fcfs = False
    reads_cache = False

    def order(self, request: Request, cached_tokens: int) -> Any:
        return request.priority

    def victim(self, request: Request) -> Any:
        return request.priority


class ShortestPrompt:
    """The fewest uncached prompt tokens first; the last admitted is preempted."""

    fcfs = False
    reads_cache = True

    def order(self, request: Request, cached_tokens: int) -> Any:
        return request.prompt_tokens - cached_tokens

    def victim(self, request: Request) -> Any:
        return None


class EarliestDeadline:
    """The earliest deadline first; the latest is preempted first."""

    fcfs = False
    reads_cache = False

    def order(self, request: Request, cached_tokens: int) -> Any:
        return request.deadline_ps

    def victim(self, request: Request) -> Any:
        return request.deadline_ps


SCHEDULERS = {
    "fcfs": Fcfs,
    "priority": Priority,
    "priority-ties": PriorityTies,
    "sjf": ShortestPrompt,
    "edf": EarliestDeadline,
}
