"""What the picture of hand-overs draws, from the rows of ``requests.parquet``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from servetwin.report.data import AnyResult
from servetwin.request import COMPLETED
from servetwin.results import Result
from servetwin.results.exact import Floats
from servetwin.results.hand_over_parts import Stamps, cut, gap_parts, ttft_parts

_MS_PER_S = 1000.0


class HandOverData(NamedTuple):
    """The hand-overs of a run.

    Attributes:
        by_prefill: whether the first token came from the replica that prefilled.
        parts_ms: by name, the parts of the time until the requests decoded, one after the other [ms]: of completed,
            measured requests that were split.
        ttft_ms: their time to first token [ms].
        moved_bytes: of each transfer that arrived, its size [B].
        took_ms, exposed_ms: how long it took, and what of that came after the prefill [ms].
    """

    by_prefill: bool
    parts_ms: Mapping[str, Floats]
    ttft_ms: Floats
    moved_bytes: Floats
    took_ms: Floats
    exposed_ms: Floats


def hands_over(result: AnyResult) -> bool:
    """Whether any request of a run was prefilled and decoded by different replicas."""
    if isinstance(result, Result):
        return len(result.hand_overs) > 0
    return bool(result.summary().get("split_requests"))


def hand_over_data(result: AnyResult) -> HandOverData:
    """The hand-overs of a run in memory, or of one that was read back."""
    summary = result.summary()
    frame = result.requests()
    measured = frame["arrival_s"].rank(method="first") > int(summary["warmup_requests"])
    split = frame["prefill_replica"].notna()
    # Requests of one token never come to the decoding replica, and need not be drawn.
    chosen = frame[split & measured & (frame["outcome"] == COMPLETED) & frame["decode_scheduled_s"].notna()]
    by_prefill = summary["hand_over_gap_ms.mean"] is not None
    arrived = frame[split & frame["transfer_end_s"].notna()]
    cuts = cut(_stamps(arrived))
    exposed, hidden = _MS_PER_S * cuts.transfer, _MS_PER_S * cuts.hidden
    return HandOverData(
        by_prefill,
        _parts(chosen, by_prefill),
        chosen["ttft_ms"].to_numpy(np.float64),
        arrived["transfer_bytes"].to_numpy(np.float64),
        exposed + hidden,
        exposed,
    )


def _parts(frame: Any, by_prefill: bool) -> dict[str, Floats]:
    stamps = _stamps(frame)
    arrival, scheduled, first = (_times(frame, name) for name in ("arrival_s", "scheduled_s", "first_token_s"))
    split = np.ones(len(frame), bool)
    parts = ttft_parts(arrival, scheduled, stamps, first, split, by_prefill)
    if by_prefill:
        # The gap begins with the end of the prefill: its token is on the way meanwhile.
        parts |= gap_parts(stamps)
        del parts["output"]
    return {name: np.maximum(_MS_PER_S * seconds, 0.0) for name, seconds in parts.items()}


def _stamps(frame: Any) -> Stamps:
    names = ("prefill_done", "decode_reserved", "transfer_start", "transfer_end", "prefill_freed", "decode_scheduled")
    return Stamps(*(_times(frame, f"{name}_s") for name in names))


def _times(frame: Any, name: str) -> Floats:
    """A column of times [s], -1 where there is none."""
    times: Floats = frame[name].fillna(-1.0).to_numpy(np.float64)
    return times
