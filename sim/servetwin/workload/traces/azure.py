"""Azure LLM inference traces (Azure/AzurePublicDataset, CC-BY 4.0), of 2023 and 2024: CSV with a header.

``TIMESTAMP,ContextTokens,GeneratedTokens``; the time is ISO 8601. The files of 2023, against which this was written,
have seven fractional digits and no offset, and lines that end with CR LF. The week of 2024 has the same columns by its
upstream description; its files were not at hand, any ISO 8601 time with or without a UTC offset is read. Other columns,
such as the ``NumImages`` of 2025, are ignored. Prompts share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servetwin.workload.traces.csv_rows import Cells, CsvFormat
from servetwin.workload.traces.format import COUNT_ALLOWED, Row, RowError, as_count
from servetwin.workload.traces.iso_time import IsoClock


class AzureFormat(CsvFormat):
    """Azure LLM inference traces."""

    name = "azure"
    description = "Azure LLM inference trace (CSV: arrival time, prompt tokens, output tokens)"
    columns = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

    def row(self, header: Sequence[str]) -> Callable[[Cells], Row]:
        """The row parser."""
        time_at, prompt_at, output_at = (header.index(column) for column in self.columns)
        clock = IsoClock(self.columns[0])

        # Written out, without the helpers of ``csv_rows``: these are the traces with millions of rows.
        def row(cells: Cells) -> Row:
            prompt, output = as_count(cells[prompt_at]), as_count(cells[output_at])
            time = clock(cells[time_at])
            if prompt is None:
                raise RowError("ContextTokens is no number of tokens", cells[prompt_at], COUNT_ALLOWED)
            if output is None:
                raise RowError("GeneratedTokens is no number of tokens", cells[output_at], COUNT_ALLOWED)
            return Row(time, prompt, output)

        return row
