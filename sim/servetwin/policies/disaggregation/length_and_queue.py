"""Long prompts are split while few prefills wait."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt, model_validator

from servetwin.cluster.protocols import LOCAL, SPLIT, SplitView
from servetwin.policies.disaggregation.base import SplitPolicy
from servetwin.policies.registry import PolicyContext, register
from servetwin.request import Request


@register
class LengthAndQueue(SplitPolicy):
    """A request is split if more of its prompt than the limit is not cached where it is decoded, and few prefills wait.

    The decoding replica is chosen first; what it has cached is what the gateway remembers of its own prompts, as for
    ``uncached-length``. Prefills that wait are those beyond one for each prefilling replica.

    ``queue_back`` is ours, not Dynamo's: once the queue was as long as ``queue`` when a request arrived, requests stay
    with the decoding replicas until one arrives that finds it shorter than ``queue_back``. Without it, a queue around
    the limit makes the rule change its mind with every request.

    Source: the disaggregated router of Dynamo 0.2 to 0.5 (``PyDisaggregatedRouter`` in
        ``examples/llm/components/disagg_router.py``: prompt · (1 − hit rate) > ``max_local_prefill_length``, 1000, and
        queue size < ``max_prefill_queue_size``, 2). The router in Rust of that time had the rule on the length only.

    Attributes:
        order: ``decode-first``, for the rule is about the decoding replica.
        tokens: most uncached prompt tokens of a request that is not split [tokens].
        queue: at so many waiting prefills or more, nothing is split [requests].
        queue_back: below so many waiting prefills splitting begins again [requests], less than ``queue``; None = below
            ``queue``.

    >>> from servetwin.policies.disaggregation import LengthAndQueue
    >>> from servetwin.testing import FakeSplitView, make_request
    >>> decider = LengthAndQueue(queue=4, queue_back=2).build(None)
    >>> request = make_request(0, prompt_tokens=1500)
    >>> [decider.decide(request, FakeSplitView(prefill_waiting=waiting)) for waiting in (3, 4, 3, 1, 3)]
    ['split', 'local', 'local', 'split', 'split']
    """

    reads_cache: ClassVar[bool] = True
    policy: Literal["length-and-queue"] = "length-and-queue"
    order: Literal["decode-first"] = "decode-first"
    tokens: NonNegativeInt = 1000
    queue: PositiveInt = 2
    queue_back: PositiveInt | None = None

    @model_validator(mode="after")
    def _sensible(self) -> LengthAndQueue:
        if self.queue_back is not None and self.queue_back >= self.queue:
            raise ValueError(f"queue_back must be less than queue, which is {self.queue}")
        return self

    def build(self, context: PolicyContext) -> LengthAndQueueDecider:
        """A decider for one gateway."""
        return LengthAndQueueDecider(self)


class LengthAndQueueDecider:
    """Compares lengths, and remembers whether the queue has been too long."""

    def __init__(self, policy: LengthAndQueue) -> None:
        self._tokens = policy.tokens
        self._queue = policy.queue
        self._queue_back = policy.queue if policy.queue_back is None else policy.queue_back
        self._open = True

    def decide(self, request: Request, view: SplitView) -> str:
        """Split what is long, unless the queue is; whatever the length, the queue is looked at."""
        self._open = view.prefill_waiting < (self._queue if self._open else self._queue_back)
        if not self._open:
            return LOCAL
        return SPLIT if request.prompt_tokens - view.cached_tokens(request) > self._tokens else LOCAL
