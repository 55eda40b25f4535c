"""What each link of the network carried, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class LinkUse:
    """One direction of a link.

    Attributes:
        name: its name.
        bytes_per_s: its capacity [B/s].
        times_ps: when the rate over it changed, ascending [ps]; before the first it was 0.
        rates: to what [B/s].
    """

    name: str
    bytes_per_s: int
    times_ps: Sequence[int]
    rates: Sequence[int]
