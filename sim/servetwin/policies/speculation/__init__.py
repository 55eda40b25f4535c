"""Speculation policies: how many tokens are drafted per request."""

from __future__ import annotations

from servetwin.policies.speculation.base import BatchController, DraftPolicy
from servetwin.policies.speculation.by_batch_size import ByBatchSize
from servetwin.policies.speculation.disable_by_batch_size import DisableByBatchSize
from servetwin.policies.speculation.disable_when_low import DisableWhenLow
from servetwin.policies.speculation.draft_len_schedule import DraftLenSchedule
from servetwin.policies.speculation.ema_tiers import EmaTiers
from servetwin.policies.speculation.fixed import Fixed
from servetwin.policies.speculation.goodput import Goodput
from servetwin.policies.speculation.per_request import PerRequest

__all__ = [
    "BatchController",
    "ByBatchSize",
    "DisableByBatchSize",
    "DisableWhenLow",
    "DraftLenSchedule",
    "DraftPolicy",
    "EmaTiers",
    "Fixed",
    "Goodput",
    "PerRequest",
]
