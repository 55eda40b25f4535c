"""Every request enters."""

from __future__ import annotations

from typing import ClassVar, Literal

from servetwin.cluster.protocols import FleetView
from servetwin.policies.registry import Kind, Policy, PolicyContext, register
from servetwin.request import Request


@register
class Always(Policy):
    """Every request enters, however long the queue.

    Source: vLLM's API server, which has no limit of its own.

    >>> from servetwin.policies.admission import Always
    >>> from servetwin.testing import FakeFleet, make_request
    >>> Always().build(None).admit(make_request(0), FakeFleet([10**6])) is None
    True
    """

    kind: ClassVar[Kind] = "admission"
    policy: Literal["always"] = "always"

    def build(self, context: PolicyContext) -> AlwaysAdmission:
        """An admission for one gateway."""
        return AlwaysAdmission()


class AlwaysAdmission:
    """Says yes."""

    def admit(self, request: Request, fleet: FleetView) -> str | None:
        """None, for every request."""
        return None
