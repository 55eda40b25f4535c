"""Disaggregation policies: whether a request is prefilled and decoded on different replicas."""

from __future__ import annotations

from servetwin.policies.disaggregation.always import Always
from servetwin.policies.disaggregation.base import SplitPolicy
from servetwin.policies.disaggregation.bounded_length import BoundedLength
from servetwin.policies.disaggregation.length_and_queue import LengthAndQueue
from servetwin.policies.disaggregation.mixed_overflow import MixedOverflow
from servetwin.policies.disaggregation.never import Never
from servetwin.policies.disaggregation.slo import SplitBySlo
from servetwin.policies.disaggregation.uncached_length import UncachedLength

__all__ = [
    "Always",
    "BoundedLength",
    "LengthAndQueue",
    "MixedOverflow",
    "Never",
    "SplitBySlo",
    "SplitPolicy",
    "UncachedLength",
]
