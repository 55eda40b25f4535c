"""The controllers of speculation that the oracle tests run under: plain ones, and one that always changes its mind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Fickle:
    """Chooses by all that it has ever seen, so that whatever it should not see, or sees too early, shows.

    Attributes:
        review_steps: see ``DraftController``.
        observes: see ``DraftController``.
        per_request: see ``DraftController``.
        multiplier: of what it has seen.
        predicts: whether it asks for predicted times too.
        seen: all that it has seen, as one number.
        told: every call of ``observe``.
        views: every view that it was asked with.
    """

    review_steps: int = 1
    observes: bool = True
    per_request: bool = False
    multiplier: int = 5
    predicts: bool = False
    seen: int = 1
    told: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    views: list[tuple[int, int, int]] = field(default_factory=list)

    def choose(self, view: Any) -> int:
        self.views.append((view.most, view.requests, view.context))
        self._see(view.requests + 3 * view.context)
        if self.predicts:
            for k in range(view.most + 1):
                self._see(view.step_ps(k))
        return int((self.seen >> 3) % (view.most + 1))

    def observe(self, requests: int, drafted: int, accepted: Sequence[int]) -> None:
        self.told.append((requests, drafted, tuple(accepted)))
        for number in (requests, drafted, len(accepted), *accepted):
            self._see(number)

    def limit(self, history: Sequence[tuple[int, int]]) -> int:
        number = self.multiplier
        for drafted, accepted in history:
            number = number * 31 + 7 * drafted + accepted
        return (number >> 2) % 5

    def _see(self, number: int) -> None:
        self.seen = (self.seen * self.multiplier + number) % 1_000_003


@dataclass
class Never:
    """Drafts nothing."""

    review_steps: int = 0
    observes: bool = False
    per_request: bool = False

    def choose(self, view: Any) -> int:
        return 0

    def observe(self, requests: int, drafted: int, accepted: Sequence[int]) -> None:
        raise AssertionError("not called")

    def limit(self, history: Sequence[tuple[int, int]]) -> int:
        raise AssertionError("not called")


@dataclass
class FewerForMore:
    """Drafts one token fewer the more requests there are; looked at only when their number changes."""

    review_steps: int = 0
    observes: bool = False
    per_request: bool = False

    def choose(self, view: Any) -> int:
        return max(0, view.most - view.requests)

    def observe(self, requests: int, drafted: int, accepted: Sequence[int]) -> None:
        raise AssertionError("not called")

    def limit(self, history: Sequence[tuple[int, int]]) -> int:
        raise AssertionError("not called")
