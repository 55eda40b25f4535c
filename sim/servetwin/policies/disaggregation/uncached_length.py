"""Long prompts are split, without what is cached of them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import NonNegativeInt

from servetwin.cluster.protocols import LOCAL, SPLIT, SplitView
from servetwin.policies.disaggregation.base import SplitPolicy
from servetwin.policies.registry import PolicyContext, register
from servetwin.request import Request


@register
class UncachedLength(SplitPolicy):
    """A request is split if as many tokens of its prompt as the limit, or more, are not cached where it is decoded.

    The decoding replica is chosen first. What it has cached is not read there: the gateway remembers what it has sent
    to each replica (blocks of 64 tokens, at most 31,250 of them, the longest unused ones forgotten first), so it knows
    neither what was evicted nor what was generated. Nothing is cached on replicas without a prefix cache.

    Source: the decider of llm-d's router for prefill and decode (``prefix-based-pd-decider``, field
        ``nonCachedTokens``), with the approximate prefix cache of its endpoint picker. Its samples have 16 and 512.

    Attributes:
        order: ``decode-first``, for the rule is about the decoding replica.
        tokens: fewest uncached prompt tokens of a request that is split [tokens]; 0 splits none, as there.

    >>> from servetwin.policies.disaggregation import UncachedLength
    >>> from servetwin.testing import FakeSplitView, make_request
    >>> decider = UncachedLength(tokens=512).build(None)
    >>> decider.decide(make_request(0, prompt_tokens=1000), FakeSplitView(cached_tokens=448))
    'split'
    >>> decider.decide(make_request(1, prompt_tokens=1000), FakeSplitView(cached_tokens=512))
    'local'
    """

    reads_cache: ClassVar[bool] = True
    policy: Literal["uncached-length"] = "uncached-length"
    order: Literal["decode-first"] = "decode-first"
    tokens: NonNegativeInt

    def build(self, context: PolicyContext) -> UncachedLengthDecider:
        """A decider for one gateway."""
        return UncachedLengthDecider(self.tokens)

    def idle_field(self) -> tuple[str, str] | None:
        """``tokens``, where it is 0."""
        return None if self.tokens else ("tokens", "with 0 no request is split, which is what policy: never says")


class UncachedLengthDecider:
    """Compares what would have to be prefilled with the limit."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    def decide(self, request: Request, view: SplitView) -> str:
        """Split what is long enough without its cached part."""
        if not self._tokens:
            return LOCAL
        return SPLIT if request.prompt_tokens - view.cached_tokens(request) >= self._tokens else LOCAL
