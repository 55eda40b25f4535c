"""What tests of policies need: test doubles, and the contracts of every policy, ours or a user's."""

from __future__ import annotations

from servetwin.testing.doubles import FakeFleet, make_request
from servetwin.testing.policy_contracts import AdmissionContract, RoutingContract, SchedulingContract

__all__ = ["AdmissionContract", "FakeFleet", "RoutingContract", "SchedulingContract", "make_request"]
