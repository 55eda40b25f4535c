"""Shortest job first."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class ShortestJobFirst(Policy):
    """The request with the fewest uncached prompt tokens is admitted first; equals in order of arrival.

    The job is what is known when a request arrives, its prompt less what the prefix cache holds of it at that moment:
    the length of the output lies in the future. The last admitted is preempted first, as in ``fcfs``. Long prompts may
    starve under load; that is the price of the rule.

    Source: the shortest-prefill-first orders studied for LLM serving, e.g. Fu et al., "Efficient LLM Scheduling by
        Learning to Rank", NeurIPS 2024 (there with predicted outputs), and SGLang's cache-aware schedule policies.

    >>> from servetwin.policies.scheduling import ShortestJobFirst
    >>> from servetwin.request import Request
    >>> scheduler = ShortestJobFirst().build(None)
    >>> scheduler.order(Request(0, 5, 1000, 10), 960)  # 40 tokens remain, arrived at 5 ps
    (40, 5)
    """

    kind: ClassVar[Kind] = "scheduling"
    policy: Literal["sjf"] = "sjf"

    def build(self, context: PolicyContext) -> SjfScheduler:
        """A scheduler for one engine."""
        return SjfScheduler()


class SjfScheduler:
    """Keys ``(uncached prompt tokens, arrival)``."""

    fcfs = False
    reads_cache = True

    def order(self, request: Request, cached_tokens: int) -> Any:
        """``(uncached prompt tokens, arrival [ps])``."""
        return (max(request.prompt_tokens - cached_tokens, 0), request.arrival_ps)

    def victim(self, request: Request) -> Any:
        """None: the last admitted is preempted first."""
        return None
