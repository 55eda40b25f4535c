"""Routing policies: which replica gets a request."""

from __future__ import annotations

from servetwin.policies.routing.least_requests import LeastRequests
from servetwin.policies.routing.least_tokens import LeastTokens
from servetwin.policies.routing.power_of_two import PowerOfTwo
from servetwin.policies.routing.random import Random
from servetwin.policies.routing.round_robin import RoundRobin

__all__ = ["LeastRequests", "LeastTokens", "PowerOfTwo", "Random", "RoundRobin"]
