"""Azure LLM inference traces (Azure/AzurePublicDataset, CC-BY 4.0), of 2023 and 2024: CSV with a header.

``TIMESTAMP,ContextTokens,GeneratedTokens``; the time is ISO 8601. The files of 2023, against which this was written,
have seven fractional digits and no offset, and lines that end with CR LF. The week of 2024 has the same columns by its
upstream description; its files were not at hand, any ISO 8601 time with or without a UTC offset is read. Other columns,
such as the ``NumImages`` of 2025, are ignored. Prompts share nothing.
"""

from __future__ import annotations

from servetwin.workload.traces.format import COUNT_ALLOWED, Row, RowError, RowParser, as_count
from servetwin.workload.traces.iso_time import IsoClock

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


class AzureFormat:
    """Azure LLM inference traces."""

    name = "azure"
    description = "Azure LLM inference trace (CSV: arrival time, prompt tokens, output tokens)"
    layout = "CSV with the header TIMESTAMP,ContextTokens,GeneratedTokens"
    columns = COLUMNS
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
        width, clock = len(header), IsoClock(COLUMNS[0])

        # Written out, without the helpers of ``csv_rows``: these are the traces with millions of rows.
        def parse(line: str) -> Row:
            cells = line.split(",")
            if len(cells) != width:
                raise RowError(f"the row has {len(cells)} cells", line, f"{width} cells, as in the header")
            time = clock(cells[time_at].strip())
            prompt, output = as_count(cells[prompt_at].strip()), as_count(cells[output_at].strip())
            if prompt is None:
                raise RowError("ContextTokens is no number of tokens", cells[prompt_at], COUNT_ALLOWED)
            if output is None:
                raise RowError("GeneratedTokens is no number of tokens", cells[output_at], COUNT_ALLOWED)
            return Row(time, prompt, output)

        return parse, True
