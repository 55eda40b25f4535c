"""By the priority of the request's class."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class Priority(Policy):
    """The request with the smallest ``(priority, arrival)`` is admitted first, the largest is preempted first.

    A lower number is more urgent. A waiting request never preempts a running one to get in: it only overtakes others
    that wait. The priority comes from the class of the request in the workload.

    Source: vLLM V1 (``--scheduling-policy priority``, ``vllm/v1/core/sched/request_queue.py`` and
        ``scheduler.py``).

    >>> from servetwin.policies.scheduling import Priority
    >>> from servetwin.request import Request
    >>> scheduler = Priority().build(None)
    >>> urgent, patient = Request(0, 9, 10, 10, priority=0), Request(1, 5, 10, 10, priority=2)
    >>> scheduler.order(urgent, 0) < scheduler.order(patient, 0)
    True
    """

    kind: ClassVar[Kind] = "scheduling"
    policy: Literal["priority"] = "priority"

    def build(self, context: PolicyContext) -> PriorityScheduler:
        """A scheduler for one engine."""
        return PriorityScheduler()


class PriorityScheduler:
    """Keys ``(priority, arrival)``."""

    fcfs = False
    reads_cache = False

    def order(self, request: Request, cached_tokens: int) -> Any:
        """``(priority, arrival [ps])``."""
        return (request.priority, request.arrival_ps)

    def victim(self, request: Request) -> Any:
        """``(priority, arrival [ps])``: the least urgent goes first, among equals the youngest."""
        return (request.priority, request.arrival_ps)
