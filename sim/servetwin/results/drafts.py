"""What became of the drafts of a run: counts under the names of vLLM, checked against the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

from servetwin.errors import InvariantError
from servetwin.results.columns import ColumnStore
from servetwin.results.exact import ExactBins

KEYS = (
    "spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens",
    "spec_decode_num_rejected_tokens", "spec_decode_num_bonus_tokens", "mean_acceptance_length",
    "draft_acceptance_rate", "acceptance_rate_per_position",
)  # fmt: skip
"""Keys of the summary. The counters are named as in vLLM (``vllm/v1/spec_decode/metrics.py``), without its prefix
``vllm:``, and so are the three ratios, which it logs; rejected and bonus tokens follow from these."""


@dataclass(frozen=True, slots=True)
class DraftUse:
    """What became of the drafts of one replica, of the steps that have ended.

    A draft is all that was drafted for one request in one step, one token or more, and verified in the next.

    Attributes:
        drafts: drafts that were verified.
        drafted: tokens in them [tokens]; those of a tree all count.
        accepted_by_position: by position in the draft, in how many drafts the token there stood.
    """

    drafts: int
    drafted: int
    accepted_by_position: tuple[int, ...]

    @property
    def accepted(self) -> int:
        """Those of the tokens that stood [tokens]."""
        return sum(self.accepted_by_position)


class DraftTable:
    """The drafts of a run.

    Args:
        uses: by replica; None for a replica without speculation; empty where none has it.
        segments: the steps (``servetwin.records.SEGMENT_COLUMNS``).
        replicas: how many replicas there are.

    Raises:
        InvariantError: if the counts contradict each other, or the steps.
    """

    def __init__(self, uses: Sequence[DraftUse | None], segments: ColumnStore, replicas: int) -> None:
        uses = uses or [None] * replicas
        if len(uses) != replicas:
            raise InvariantError(f"{len(uses)} counts of drafts for {replicas} replicas")
        drafted, accepted = ExactBins(replicas), ExactBins(replicas)
        for chunk in segments:
            drafted.add(chunk["replica"], chunk["drafted"] * chunk["count"])
            accepted.add(chunk["replica"], chunk["accepted"] * chunk["count"])
        for index, (use, *found) in enumerate(zip(uses, drafted.integers(), accepted.integers(), strict=True)):
            _check(index, use, *found)
        self._uses = [use for use in uses if use is not None]

    @property
    def any(self) -> bool:
        """Whether any replica has speculation."""
        return bool(self._uses)

    def summary(self) -> dict[str, Any]:
        """The counts and ratios of ``KEYS``, of all replicas; None without speculation, ratios also without drafts."""
        if not self._uses:
            return dict.fromkeys(KEYS)
        drafts, drafted, accepted = (
            sum(getattr(use, name) for use in self._uses) for name in ("drafts", "drafted", "accepted")
        )
        by_position = [sum(stood) for stood in zip_longest(*(u.accepted_by_position for u in self._uses), fillvalue=0)]
        counts = (drafts, drafted, accepted, drafted - accepted, drafts)
        ratios: tuple[Any, ...] = (None, None, None)
        if drafts:
            ratios = (1 + accepted / drafts, accepted / drafted, [stood / drafts for stood in by_position])
        return dict(zip(KEYS, (*counts, *ratios), strict=True))


def _check(index: int, use: DraftUse | None, drafted: int, accepted: int) -> None:
    if use is None:
        if drafted or accepted:
            raise InvariantError(f"replica {index}: {drafted} drafted tokens in its steps, but it is said to have none")
        return
    if (use.drafted, use.accepted) != (drafted, accepted):
        raise InvariantError(
            f"replica {index}: {use.drafted} drafted and {use.accepted} accepted tokens by its own count, "
            f"{drafted} and {accepted} in its steps"
        )
    stood = use.accepted_by_position
    if not 0 <= use.drafts <= drafted or (drafted and not use.drafts):
        raise InvariantError(f"replica {index}: {drafted} tokens in {use.drafts} drafts")
    # A token stands only where all before it do.
    if any(later > earlier for earlier, later in pairwise((use.drafts, *stood))):
        raise InvariantError(f"replica {index}: {stood} accepted by position, of {use.drafts} drafts")
