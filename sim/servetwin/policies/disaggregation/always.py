"""Every request is split."""

from __future__ import annotations

from typing import Literal

from servetwin.cluster.protocols import SPLIT, SplitView
from servetwin.policies.disaggregation.base import SplitPolicy
from servetwin.policies.registry import PolicyContext, register
from servetwin.request import Request


@register
class Always(SplitPolicy):
    """Every request is prefilled on a prefilling replica and decoded on a decoding one.

    Attributes:
        order: ``prefill-first`` chooses the decoding replica when the prefill has ended, or at once where its blocks
            are needed earlier; ``decode-first`` chooses it before the prefilling one.

    Source: what vLLM's example proxies of the NIXL connector do.

    >>> from servetwin.policies.disaggregation import Always
    >>> from servetwin.testing import make_request
    >>> Always().build(None).decide(make_request(0), None)
    'split'
    """

    policy: Literal["always"] = "always"

    def build(self, context: PolicyContext) -> AlwaysDecider:
        """A decider for one gateway."""
        return AlwaysDecider()


class AlwaysDecider:
    """Splits."""

    def decide(self, request: Request, view: SplitView) -> str:
        """Split."""
        return SPLIT
