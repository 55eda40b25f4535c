"""The number of drafts from a table of batch sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from servetwin.engine.protocols import DraftView
from servetwin.policies.registry import PolicyContext, register
from servetwin.policies.speculation.base import BatchController, DraftPolicy


def _checked(entry: list[int]) -> list[int]:
    low, high, k = entry
    if low < 1 or high < low:
        raise ValueError("a range of batch sizes begins at 1 or later, and ends where it begins or later")
    if k < 0:
        raise ValueError("the number of drafts of a range is 0 or more")
    return entry


def _in_order(ranges: list[list[int]]) -> list[list[int]]:
    if ranges[0][0] != 1:
        raise ValueError(f"the first range must begin at batch size 1, so that every batch has its K: {ranges[0]}")
    for before, after in pairwise(ranges):
        if after[0] < before[0]:
            raise ValueError(f"the ranges must be in order of their batch sizes: {after} comes after {before}")
        if after[0] <= before[1]:
            raise ValueError(f"two ranges overlap: {before} and {after}")
    return ranges


Range = Annotated[list[int], Field(min_length=3, max_length=3), AfterValidator(_checked)]
"""``[low, high, K]``, batch sizes [requests], both included, and drafts per request [tokens]."""


@register
class ByBatchSize(DraftPolicy):
    """Each range of batch sizes has its number of drafts.

    The batch size is the number of requests in the step, those that prefill included. Batch sizes between two ranges
    have the K of the range before, those beyond the last range the K of the last one; the first range begins at 1.

    Source: ``num_speculative_tokens_per_batch_size`` of vLLM (PR #32374; ``vllm/v1/spec_decode/dynamic/utils.py`` and
        its use in ``vllm/v1/core/sched/scheduler.py``). There, a K above ``num_speculative_tokens`` is cut to it and
        ranges are sorted; here, both are refused as mistakes.

    Attributes:
        ranges: list of ``[low, high, K]``: from ``low`` to ``high`` requests, both included, K drafts per request
            [tokens]; in order, without overlap.

    >>> from servetwin.policies.speculation import ByBatchSize
    >>> from servetwin.testing import FakeDraftView
    >>> controller = ByBatchSize(ranges=[[1, 16, 3], [32, 128, 2], [256, 512, 0]]).build(None)
    >>> [controller.choose(FakeDraftView(most=3, requests=size)) for size in (1, 16, 20, 32, 200, 256, 9999)]
    [3, 3, 3, 2, 2, 0, 0]
    """

    policy: Literal["by-batch-size"] = "by-batch-size"
    ranges: Annotated[list[Range], Field(min_length=1), AfterValidator(_in_order)]

    def counts(self) -> Mapping[tuple[str | int, ...], int]:
        """The K of every range [tokens]."""
        return {("ranges", place, 2): entry[2] for place, entry in enumerate(self.ranges)}

    def choices(self, k: int, requests: int) -> set[int]:
        """The K of the ranges that steps can reach [tokens]."""
        return {min(most, k) for low, _, most in self.ranges if low <= requests}

    def build(self, context: PolicyContext) -> TableController:
        """A controller for one engine."""
        return TableController([low for low, _, _ in self.ranges], [k for _, _, k in self.ranges])


class TableController(BatchController):
    """Looks the batch size up.

    Args:
        begins: from which batch sizes on [requests], ascending, the first is 1.
        counts: the drafts from there on [tokens].
    """

    def __init__(self, begins: list[int], counts: list[int]) -> None:
        self._begins = begins
        self._counts = counts

    def choose(self, view: DraftView) -> int:
        """The K of the last range that has begun [tokens]."""
        place = max(bisect_right(self._begins, view.requests) - 1, 0)
        return min(self._counts[place], view.most)
