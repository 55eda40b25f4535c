"""What controllers of speculation have in common: how a scenario checks them, and what most of them leave alone.

>>> from servetwin.policies.speculation import ByBatchSize
>>> ByBatchSize(ranges=[[1, 64, 3], [65, 512, 0]]).largest()
3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from servetwin.policies.registry import Kind, Policy

_NO_LIMIT: Final = 1 << 30
"""More drafts [tokens] than anybody makes."""


class DraftPolicy(Policy):
    """A policy of speculation. Numbers of drafts in its fields can be compared with the most that a scenario allows."""

    kind: ClassVar[Kind] = "speculation"

    def counts(self) -> Mapping[tuple[str | int, ...], int]:
        """Every number of drafts per request that its fields name [tokens], by the path of the field."""
        return {}

    def largest(self) -> int:
        """The largest of them [tokens]; 0 where the fields name none."""
        return max(self.counts().values(), default=0)


class BatchController:
    """A controller that looks at nothing but the batch, and treats all requests alike; the base of the others."""

    review_steps = 0
    observes = False
    per_request = False

    def observe(self, requests: int, drafted: int, accepted: Sequence[int]) -> None:
        """Of no concern."""

    def limit(self, history: Sequence[tuple[int, int]]) -> int:
        """No limit of the request's own."""
        return _NO_LIMIT
