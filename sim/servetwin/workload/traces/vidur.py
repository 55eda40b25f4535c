"""Vidur's processed traces (microsoft/vidur, ``data/processed_traces``, MIT): CSV with a header.

``arrived_at,num_prefill_tokens,num_decode_tokens``: seconds since the start, prompt tokens, output tokens. Written
against the columns and the last rows of ``splitwise_conv.csv``; other files of that folder lack ``arrived_at`` and are
no traces, but lists of lengths. Prompts share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servetwin.workload.traces.csv_rows import Cells, CsvFormat, time_ps, tokens
from servetwin.workload.traces.format import Row


class VidurFormat(CsvFormat):
    """Vidur's processed traces."""

    name = "vidur"
    description = "Vidur trace (CSV: arrival [s], prefill tokens, decode tokens)"
    columns = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")

    def row(self, header: Sequence[str]) -> Callable[[Cells], Row]:
        """The row parser."""
        arrived, prefill, decode = (header.index(column) for column in self.columns)
        return lambda cells: Row(
            time_ps(cells[arrived], "arrived_at"),
            tokens(cells[prefill], "num_prefill_tokens"),
            tokens(cells[decode], "num_decode_tokens"),
        )
