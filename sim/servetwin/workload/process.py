"""What every arrival process is, and sums of gaps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import accumulate, chain
from typing import ClassVar

import numpy as np

from servetwin.streams import BLOCK
from servetwin.workload.base import Part
from servetwin.workload.draws import Floats, picoseconds


class ArrivalProcess(Part):
    """Base of the arrival processes.

    Attributes:
        pace_field: the field that sets how far apart the open arrivals are.
    """

    pace_field: ClassVar[str] = "rate_per_s"

    @property
    def finite(self) -> bool:
        """Whether the arrivals end by themselves."""
        return False

    @property
    def pace(self) -> tuple[str, object]:
        """``pace_field`` and its value, for messages."""
        value = getattr(self, self.pace_field)
        return self.pace_field, [item.model_dump() for item in value] if isinstance(value, tuple) else value

    @abstractmethod
    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The open arrivals [ps], ascending; those of a closed loop are its clients' first requests."""


def renewals(gaps: Callable[[int], Floats]) -> Iterator[int]:
    """The sums of gaps [s], in whole picoseconds: as integers, so that no precision is lost with time."""

    def blocks() -> Iterator[list[int]]:
        while True:
            yield picoseconds(gaps(BLOCK))

    return accumulate(chain.from_iterable(blocks()))
