"""Azure LLM inference traces (AzurePublicDataset; written against the two files of 2023): CSV with a header.

``TIMESTAMP,ContextTokens,GeneratedTokens``; the time is ISO 8601 with up to 12 fractional digits (the 2023 files have
seven) and perhaps a UTC offset; lines end with CR LF or LF. Other columns are ignored. Prompts share nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from servetwin.units import PS_PER_S
from servetwin.workload.traces.format import COUNT_ALLOWED, Row, RowError, RowParser, as_count

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

_TIME = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,12}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


class AzureFormat:
    """Azure LLM inference traces."""

    name = "azure"
    description = "Azure LLM inference trace (CSV: arrival time, prompt tokens, output tokens)"
    layout = "CSV with the header TIMESTAMP,ContextTokens,GeneratedTokens"
    block_tokens = 0

    def recognises(self, line: str) -> bool:
        """Whether the line is a header with the three columns."""
        return set(COLUMNS) <= {cell.strip() for cell in line.split(",")}

    def parser(self, line: str) -> tuple[RowParser, bool]:
        """The row parser for this header; the first line is no row."""
        header = [cell.strip() for cell in line.split(",")]
        if not self.recognises(line):
            raise RowError("the first line is not the header of an Azure trace", line, ",".join(COLUMNS))
        time_at, prompt_at, output_at = (header.index(name) for name in COLUMNS)
        width = len(header)
        seconds: dict[tuple[str, str | None], int] = {}  # rows of one second share the costly part of the time

        def parse(line: str) -> Row:
            cells = line.split(",")
            if len(cells) != width:
                raise RowError(f"the row has {len(cells)} cells", line, f"{width} cells, as in the header")
            match = _TIME.fullmatch(cells[time_at].strip())
            if match is None:
                raise RowError("TIMESTAMP is no time", cells[time_at], "such as 2023-11-16 18:15:46.6805900")
            second, fraction, offset = match.groups()
            start = seconds.get((second, offset))
            if start is None:
                start = seconds[second, offset] = _epoch_ps(second, offset)
            prompt, output = as_count(cells[prompt_at].strip()), as_count(cells[output_at].strip())
            if prompt is None:
                raise RowError("ContextTokens is no number of tokens", cells[prompt_at], COUNT_ALLOWED)
            if output is None:
                raise RowError("GeneratedTokens is no number of tokens", cells[output_at], COUNT_ALLOWED)
            return Row(start + (int(fraction.ljust(12, "0")) if fraction else 0), prompt, output)

        return parse, True


def _epoch_ps(second: str, offset: str | None) -> int:
    """A time without its fraction, in picoseconds since 1970; without an offset it is taken as UTC."""
    try:
        moment = datetime.fromisoformat(second + (offset or "Z"))
    except ValueError:
        raise RowError("TIMESTAMP is not in the calendar", second, "a date and time that exist") from None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * PS_PER_S
