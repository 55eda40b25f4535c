"""Prompts that are short once their cached part is gone stay together."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from servetwin.cluster.protocols import LOCAL, SPLIT, SplitView
from servetwin.policies.disaggregation.base import SplitPolicy
from servetwin.policies.registry import PolicyContext, register
from servetwin.request import Request


@register
class BoundedLength(SplitPolicy):
    """A request is split unless what is not cached of its prompt is short, and a small enough part of it.

    It stays where it is decoded if fewer tokens than ``tokens`` are not cached there, and these are less than ``share``
    of the prompt: a short prompt of which nothing is cached is split. The decoding replica is chosen first; what it has
    cached is what the gateway remembers of its own prompts, as for ``uncached-length``.

    Source: conditional disaggregation of Dynamo 1.x, policy ``isl_bounding`` (``conditional_bypass.rs``), its default.
        Its other policies, which look at the load of the prefilling workers, are not modelled, nor is its guard against
        full decoding workers, which is off by default.

    Attributes:
        order: ``decode-first``, for the rule is about the decoding replica.
        tokens: from so many uncached prompt tokens on a request is split [tokens].
        share: from this share of uncached prompt tokens on it is split (0–1).

    >>> from servetwin.policies.disaggregation import BoundedLength
    >>> from servetwin.testing import FakeSplitView, make_request
    >>> decider = BoundedLength().build(None)
    >>> request = make_request(0, prompt_tokens=1000)
    >>> [decider.decide(request, FakeSplitView(cached_tokens=cached)) for cached in (0, 256, 320)]
    ['split', 'split', 'local']
    """

    reads_cache: ClassVar[bool] = True
    policy: Literal["bounded-length"] = "bounded-length"
    order: Literal["decode-first"] = "decode-first"
    tokens: PositiveInt = 2048
    share: Annotated[float, Field(gt=0, le=1, strict=False)] = 0.7

    def build(self, context: PolicyContext) -> BoundedLengthDecider:
        """A decider for one gateway."""
        return BoundedLengthDecider(self.tokens, self.share)


class BoundedLengthDecider:
    """Compares what would have to be prefilled with both limits."""

    def __init__(self, tokens: int, share: float) -> None:
        self._tokens = tokens
        self._share = share

    def decide(self, request: Request, view: SplitView) -> str:
        """Keep together what has little left to be prefilled."""
        prompt = request.prompt_tokens
        uncached = prompt - view.cached_tokens(request)
        return LOCAL if uncached < self._tokens and uncached / prompt < self._share else SPLIT
