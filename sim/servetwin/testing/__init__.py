"""What tests of policies need: test doubles, and the contracts of every policy, ours or a user's."""

from __future__ import annotations

from servetwin.testing.controller_contract import SpeculationContract
from servetwin.testing.decider_contract import DisaggregationContract
from servetwin.testing.doubles import FakeDraftView, FakeFleet, FakeSplitView, make_request
from servetwin.testing.policy_contracts import AdmissionContract, RoutingContract, SchedulingContract

__all__ = [
    "AdmissionContract",
    "DisaggregationContract",
    "FakeDraftView",
    "FakeFleet",
    "FakeSplitView",
    "RoutingContract",
    "SchedulingContract",
    "SpeculationContract",
    "make_request",
]
