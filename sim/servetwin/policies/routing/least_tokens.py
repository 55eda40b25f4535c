"""The replica with the fewest tokens."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.cluster.protocols import TOKENS, FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class LeastTokens(Policy):
    """The replica whose unfinished requests hold the fewest prompt and generated tokens.

    Ties go to the smallest index. Generated tokens count as of the replica's last finished step. Long prompts weigh
    more than short ones, which a count of requests cannot see.

    Source: least-outstanding-tokens as in the token-load scorer of llm-d's endpoint picker, without its ceiling.

    >>> from servetwin.policies.routing import LeastTokens
    >>> from servetwin.testing import FakeFleet, make_request
    >>> LeastTokens().build(None).choose(make_request(0), FakeFleet([1, 5], tokens=[9000, 800]))
    1
    """

    kind: ClassVar[Kind] = "routing"
    policy: Literal["least-tokens"] = "least-tokens"

    def build(self, context: PolicyContext) -> LeastTokensRouter:
        """A router for one gateway."""
        return LeastTokensRouter()


class LeastTokensRouter:
    """Asks the fleet's index."""

    def choose(self, request: Request, fleet: FleetView) -> int:
        """The replica with the fewest tokens of unfinished requests."""
        return fleet.least(TOKENS)

    def on_routed(self, request: Request, replica: int) -> None:
        """Of no concern."""

    def on_finished(self, request: Request, replica: int) -> None:
        """Of no concern."""
