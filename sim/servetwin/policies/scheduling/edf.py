"""Earliest deadline first."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request

NEVER_PS = 1 << 200
"""The deadline of a request without one [ps]."""


@register
class EarliestDeadlineFirst(Policy):
    """The request with the nearest deadline is admitted first, the one with the farthest is preempted first.

    A deadline is the arrival plus the TTFT limit of the request's class. Requests without a deadline come after all
    others, in order of arrival.

    Source: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment", JACM 20
        (1973), section 7; for LLM serving e.g. the deadline orders of Llumnix and QLM.

    >>> from servetwin.policies.scheduling import EarliestDeadlineFirst
    >>> from servetwin.request import Request
    >>> scheduler = EarliestDeadlineFirst().build(None)
    >>> tight, loose = Request(0, 9, 10, 10, deadline_ps=20), Request(1, 0, 10, 10, deadline_ps=50)
    >>> scheduler.order(tight, 0) < scheduler.order(loose, 0)
    True
    """

    kind: ClassVar[Kind] = "scheduling"
    policy: Literal["edf"] = "edf"

    def build(self, context: PolicyContext) -> EdfScheduler:
        """A scheduler for one engine."""
        return EdfScheduler()


class EdfScheduler:
    """Keys ``(deadline, arrival)``."""

    fcfs = False
    reads_cache = False

    def order(self, request: Request, cached_tokens: int) -> Any:
        """``(deadline [ps], arrival [ps])``."""
        deadline = request.deadline_ps
        return (deadline if deadline >= 0 else NEVER_PS, request.arrival_ps)

    def victim(self, request: Request) -> Any:
        """``(deadline [ps], arrival [ps])``: the farthest deadline goes first."""
        return self.order(request, 0)
