"""Scheduling policies: the order of an engine's waiting queue, and who is preempted."""

from __future__ import annotations

from servetwin.policies.scheduling.edf import EarliestDeadlineFirst
from servetwin.policies.scheduling.fcfs import FirstComeFirstServed
from servetwin.policies.scheduling.priority import Priority
from servetwin.policies.scheduling.sjf import ShortestJobFirst

__all__ = ["EarliestDeadlineFirst", "FirstComeFirstServed", "Priority", "ShortestJobFirst"]
