"""What controllers of speculation have in common: how a scenario checks them, and what most of them leave alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

from servetwin.policies.registry import Kind, Policy

_NO_LIMIT: Final = 1 << 30
"""More drafts [tokens] than anybody makes."""


class DraftPolicy(Policy):
    """A policy of speculation. Numbers of drafts in its fields can be compared with the most that a scenario allows.

    Attributes:
        constant: whether it always chooses the scenario's ``k``: nobody needs to ask it.
        all_or_nothing: whether it chooses ``k`` or 0, so that it may decide about trees, which have one size.

    >>> from servetwin.policies.speculation import ByBatchSize
    >>> policy = ByBatchSize(ranges=[[1, 64, 3], [65, 512, 0]])
    >>> policy.counts()
    {('ranges', 0, 2): 3, ('ranges', 1, 2): 0}
    >>> policy.choices(k=3, requests=48)
    {3}
    """

    kind: ClassVar[Kind] = "speculation"
    constant: ClassVar[bool] = False
    all_or_nothing: ClassVar[bool] = False

    def counts(self) -> Mapping[tuple[str | int, ...], int]:
        """Every number of drafts per request that its fields name [tokens], by the path of the field."""
        return {}

    def choices(self, k: int, requests: int) -> Collection[int]:
        """Every number of drafts that a request may get [tokens], by which a scenario finds policies without effect.

        Args:
            k: the most tokens that may be drafted per request.
            requests: the most requests that a step has.
        """
        return range(k + 1)


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
