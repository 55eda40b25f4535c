"""First come, first served."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class FirstComeFirstServed(Policy):
    """Requests are admitted in order of arrival.

    The last admitted is preempted first and returns to the front of the queue.

    Source: the default of vLLM V1 (``--scheduling-policy fcfs``, ``vllm/v1/core/sched/scheduler.py``).

    >>> from servetwin.policies.scheduling import FirstComeFirstServed
    >>> FirstComeFirstServed().name()
    'fcfs'
    """

    kind: ClassVar[Kind] = "scheduling"
    policy: Literal["fcfs"] = "fcfs"

    def build(self, context: PolicyContext) -> FcfsScheduler:
        """A scheduler for one engine."""
        return FcfsScheduler()


class FcfsScheduler:
    """Order of arrival; the queue itself keeps it, so the keys are never asked for."""

    fcfs = True
    reads_cache = False

    def order(self, request: Request, cached_tokens: int) -> Any:
        """The instant of arrival at the engine [ps]."""
        return request.queued_ps

    def victim(self, request: Request) -> Any:
        """None: the last admitted is preempted first."""
        return None
