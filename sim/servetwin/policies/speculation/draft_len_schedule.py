"""The number of drafts by upper bounds of the batch size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from servetwin.engine.protocols import DraftView
from servetwin.policies.registry import PolicyContext, register
from servetwin.policies.speculation.base import BatchController, DraftPolicy


def _with_numbers(schedule: Any) -> Any:
    """Keys as numbers, where JSON or an override has made texts of them; in order."""
    if not isinstance(schedule, Mapping):
        return schedule
    numbers = {int(key) if isinstance(key, str) and key.isdecimal() else key: k for key, k in schedule.items()}
    return dict(sorted(numbers.items())) if all(isinstance(key, int) for key in numbers) else numbers


@register
class DraftLenSchedule(DraftPolicy):
    """Up to each of some batch sizes there is a number of drafts; above the largest, none.

    The batch size is the number of requests in the step, those that prefill included.

    Source: ``draft_len_schedule`` of TensorRT-LLM (PR #10860; ``get_draft_len_for_batch_size`` in
        ``tensorrt_llm/_torch/speculative/utils.py``), which counts active requests.

    Attributes:
        schedule: batch size [requests] → drafts per request [tokens]; ``{4: 4, 8: 2, 32: 1}`` drafts 4 tokens up to 4
            requests, 2 up to 8, 1 up to 32, and none beyond.

    >>> from servetwin.policies.speculation import DraftLenSchedule
    >>> from servetwin.testing import FakeDraftView
    >>> controller = DraftLenSchedule(schedule={4: 4, 8: 2, 32: 1}).build(None)
    >>> [controller.choose(FakeDraftView(most=4, requests=size)) for size in (1, 4, 5, 8, 9, 32, 33)]
    [4, 4, 2, 2, 1, 1, 0]
    """

    policy: Literal["draft-len-schedule"] = "draft-len-schedule"
    schedule: Annotated[
        dict[PositiveInt, NonNegativeInt], Field(min_length=1), BeforeValidator(_with_numbers, dict[int, int])
    ]

    def counts(self) -> Mapping[tuple[str | int, ...], int]:
        """The K of every batch size [tokens]."""
        return {("schedule", size): k for size, k in self.schedule.items()}

    def choices(self, k: int, requests: int) -> set[int]:
        """The K of the bounds that steps can reach, and none beyond the last [tokens]."""
        begins = [1, *(size + 1 for size in self.schedule)]
        return {
            min(most, k) for begin, most in zip(begins, (*self.schedule.values(), 0), strict=True) if begin <= requests
        }

    def build(self, context: PolicyContext) -> BoundsController:
        """A controller for one engine."""
        return BoundsController(self.schedule)


class BoundsController(BatchController):
    """Finds the first bound that the batch does not exceed.

    Args:
        schedule: batch size → drafts, ascending.
    """

    def __init__(self, schedule: Mapping[int, int]) -> None:
        self._bounds = list(schedule)
        # Above the largest bound, speculation is off.
        self._counts = [*schedule.values(), 0]

    def choose(self, view: DraftView) -> int:
        """The K of the smallest bound that is not below the batch size [tokens]; 0 beyond all of them."""
        return min(self._counts[bisect_left(self._bounds, view.requests)], view.most)
