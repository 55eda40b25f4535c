"""Admission policies: whether a request enters the cluster at all."""

from __future__ import annotations

from servetwin.policies.admission.always import Always
from servetwin.policies.admission.max_queue import MaxQueue
from servetwin.policies.admission.max_requests import MaxRequests
from servetwin.policies.admission.max_tokens import MaxTokens

__all__ = ["Always", "MaxQueue", "MaxRequests", "MaxTokens"]
