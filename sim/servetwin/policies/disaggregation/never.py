"""No request is split."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.cluster.protocols import LOCAL, SplitView
from servetwin.policies.disaggregation.base import SplitPolicy
from servetwin.policies.registry import PolicyContext, register
from servetwin.request import Request


@register
class Never(SplitPolicy):
    """Every request is prefilled where it is decoded, so that the prefilling replicas stand idle.

    What a cluster with separate pools does without disaggregation: the baseline of what splitting gains.

    Attributes:
        order: of no concern.

    Source: llm-d's ``nonCachedTokens: 0``, its default.

    >>> from servetwin.policies.disaggregation import Never
    >>> from servetwin.testing import make_request
    >>> Never().build(None).decide(make_request(0), None)
    'local'
    """

    splits: ClassVar[bool] = False
    policy: Literal["never"] = "never"

    def build(self, context: PolicyContext) -> NeverDecider:
        """A decider for one gateway."""
        return NeverDecider()


class NeverDecider:
    """Does not split."""

    def decide(self, request: Request, view: SplitView) -> str:
        """Do not split."""
        return LOCAL
