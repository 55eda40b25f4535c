"""Times of the calendar: ISO 8601 with up to 12 fractional digits and perhaps a UTC offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from servetwin.units import PS_PER_S
from servetwin.workload.traces.format import RowError

_TIME = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,12}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)

_REMEMBERED = 1024
"""Seconds that are remembered: rows come in order, so that more would only grow with the file."""


class IsoClock:
    """Reads the times of one column; rows of one second share the costly part.

    Args:
        column: what messages call the column.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        self._seconds: dict[tuple[str, str | None], int] = {}

    def __call__(self, text: str) -> int:
        """The time in picoseconds since 1970; without an offset it is taken as UTC.

        Raises:
            RowError: ``text`` is no time.
        """
        match = _TIME.fullmatch(text)
        if match is None:
            raise RowError(f"{self._column} is no time", text, "such as 2023-11-16 18:15:46.6805900")
        second, fraction, offset = match.groups()
        start = self._seconds.get((second, offset))
        if start is None:
            if len(self._seconds) >= _REMEMBERED:
                self._seconds.clear()
            start = self._seconds[second, offset] = self._epoch_ps(second, offset)
        return start + (int(fraction.ljust(12, "0")) if fraction else 0)

    def _epoch_ps(self, second: str, offset: str | None) -> int:
        try:
            moment = datetime.fromisoformat(second + (offset or "Z"))
        except ValueError:
            raise RowError(f"{self._column} is not in the calendar", second, "a date and time that exist") from None
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * PS_PER_S
