"""What every arrival process is, and sums of gaps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import accumulate, chain

import numpy as np

from servetwin.streams import BLOCK
from servetwin.workload.base import Part
from servetwin.workload.draws import Floats, picoseconds

_PACES = ("rate_per_s", "interval_s", "stages", "ramp_s")


class ArrivalProcess(Part):
    """Base of the arrival processes."""

    @property
    def finite(self) -> bool:
        """Whether the arrivals end by themselves."""
        return False

    @property
    def pace(self) -> tuple[str, object]:
        """The field that sets how far apart the open arrivals are, and its value."""
        for field in _PACES:
            if field in type(self).model_fields:
                value = getattr(self, field)
                return field, [item.model_dump() for item in value] if isinstance(value, tuple) else value
        raise AssertionError("every process has one of these fields, or a pace of its own")

    @abstractmethod
    def times(self, generator: np.random.Generator) -> Iterator[int]:
        """The open arrivals [ps], ascending; those of a closed loop are its clients' first requests."""


def renewals(gaps: Callable[[int], Floats]) -> Iterator[int]:
    """The sums of gaps [s], in whole picoseconds: as integers, so that no precision is lost with time."""

    def blocks() -> Iterator[list[int]]:
        while True:
            yield picoseconds(gaps(BLOCK))

    return accumulate(chain.from_iterable(blocks()))
