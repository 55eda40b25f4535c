"""Traces of the Splitwise simulator (Mutinifni/splitwise-sim, MIT): CSV with a header.

``request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size``, as its
``generate_trace.py`` writes them (no generated file was at hand): seconds since the start, prompt tokens, output
tokens. A row stands for one request, so that ``batch_size`` must be 1. Prompts share nothing; ids and types are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servetwin.workload.traces.csv_rows import Cells, CsvFormat, time_ps, tokens
from servetwin.workload.traces.format import Row, RowError, as_whole


class SplitwiseFormat(CsvFormat):
    """Traces of the Splitwise simulator."""

    name = "splitwise"
    description = "Trace of the Splitwise simulator (CSV: arrival [s], prompt and output tokens)"
    columns = (
        "request_id", "request_type", "application_id", "arrival_timestamp", "batch_size", "prompt_size", "token_size",
    )  # fmt: skip

    def row(self, header: Sequence[str]) -> Callable[[Cells], Row]:
        """The row parser."""
        arrival, batch, prompt, token = (header.index(column) for column in self.columns[3:])

        def row(cells: Cells) -> Row:
            if as_whole(cells[batch]) != 1:
                raise RowError("batch_size is not 1", cells[batch], "1: a row stands for one request")
            return Row(
                time_ps(cells[arrival], "arrival_timestamp"),
                tokens(cells[prompt], "prompt_size"),
                tokens(cells[token], "token_size"),
            )

        return row
