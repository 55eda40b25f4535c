"""BurstGPT (HPMLL/BurstGPT, CC-BY 4.0): CSV with a header.

``Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type``: seconds since the start, the model that was
asked, prompt and output tokens, their sum, and where the request came from. Later releases add ``Session ID`` and
``Elapsed time``. The full files were not at hand: the columns are those of the upstream README and release notes.

A row with 0 response tokens is a request that failed, with or without request tokens: it is counted and left out. The
model becomes the request's class. Where there are sessions, a numeric ``Session ID`` becomes its session. Prompts share
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servetwin.workload.traces.csv_rows import Cells, CsvFormat, time_ps, tokens
from servetwin.workload.traces.format import MAX_ID, NO_SESSION, FailedRow, Row, RowError

SESSION = "Session ID"

_NONE = ("0", "0.0")


class BurstGptFormat(CsvFormat):
    """BurstGPT."""

    name = "burstgpt"
    description = "BurstGPT (CSV: arrival [s], model, request and response tokens)"
    columns = ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")
    optional = (SESSION,)

    def row(self, header: Sequence[str]) -> Callable[[Cells], Row]:
        """The row parser."""
        time, model, request, response, _, _ = (header.index(column) for column in self.columns)
        session_at = header.index(SESSION) if SESSION in header else -1

        def row(cells: Cells) -> Row:
            at = time_ps(cells[time], "Timestamp")
            failed = cells[response] in _NONE
            # Of a request that failed not even the prompt need have been counted.
            prompt = 0 if failed and cells[request] in _NONE else tokens(cells[request], "Request tokens")
            if failed:
                raise FailedRow("the request failed: it has 0 response tokens", cells[response], "1 or more")
            output = tokens(cells[response], "Response tokens")
            session = _session(cells[session_at]) if session_at >= 0 else NO_SESSION
            return Row(at, prompt, output, class_name=cells[model], session=session)

        return row


def _session(cell: str) -> int:
    """A session's number; an empty cell is a request without one."""
    if not cell:
        return NO_SESSION
    whole = cell.removesuffix(".0")
    if len(whole) > 19 or not (whole.isascii() and whole.isdigit()) or int(whole) > MAX_ID:
        raise RowError(f"{SESSION} is no number", cell, f"a whole number from 0 to {MAX_ID:,}, or nothing")
    return int(whole)
