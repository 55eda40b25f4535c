"""A limit on the tokens in flight."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import PositiveInt

from servetwin.cluster.protocols import TOKENS, FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class MaxTokens(Policy):
    """A request is rejected when its prompt would take the tokens in flight beyond the limit.

    Tokens in flight are the prompt and generated tokens of the requests that were routed and have not
    finished, as of each replica's last finished step. A request that finds the cluster empty always enters.

    Source: the token-based saturation limit of llm-d's endpoint picker (there 1,000,000 tokens in flight).

    Attributes:
        tokens: most tokens in flight in the whole cluster [tokens].

    >>> from servetwin.policies.admission import MaxTokens
    >>> from servetwin.testing import FakeFleet, make_request
    >>> admission = MaxTokens(tokens=1000).build(None)
    >>> admission.admit(make_request(0, prompt_tokens=100), FakeFleet([1, 1], tokens=[500, 400])) is None
    True
    >>> admission.admit(make_request(0, prompt_tokens=101), FakeFleet([1, 1], tokens=[500, 400]))
    'max-tokens: 1000 tokens in flight'
    """

    kind: ClassVar[Kind] = "admission"
    policy: Literal["max-tokens"] = "max-tokens"
    tokens: PositiveInt

    def build(self, context: PolicyContext) -> MaxTokensAdmission:
        """An admission for one gateway."""
        return MaxTokensAdmission(self.tokens)


class MaxTokensAdmission:
    """Adds up the tokens in flight."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reason = f"max-tokens: {limit} tokens in flight"

    def admit(self, request: Request, fleet: FleetView) -> str | None:
        """The reason, when the prompt does not fit below the limit."""
        in_flight = sum(fleet.value(replica, TOKENS) for replica in fleet.all())
        return None if in_flight == 0 or in_flight + request.prompt_tokens <= self._limit else self._reason
