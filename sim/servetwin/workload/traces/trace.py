"""A trace that was read, and what an endless cache would find in it."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.workload.traces.chains import distinct_prefixes
from servetwin.workload.traces.spool import Column, Spool
from servetwin.workload.traces.table import Rows


@dataclass(slots=True)
class TraceCounts:
    """What became of the rows of a trace: ``read = requests + skipped + failed + outside``.

    Attributes:
        read: rows read (the header and blank lines are none).
        skipped: bad rows, skipped on request.
        failed: good rows of requests that were never answered.
        outside: good rows outside the window.
        first_skipped: the first bad row and what is wrong with it, for a warning; empty if there was none.
        first_failed: the same of the first row of a request that was never answered.
    """

    read: int = 0
    skipped: int = 0
    failed: int = 0
    outside: int = 0
    first_skipped: str = ""
    first_failed: str = ""

    @property
    def requests(self) -> int:
        """Rows that are replayed."""
        return self.read - self.skipped - self.failed - self.outside

    def remarks(self) -> list[str]:
        """What the user should know about rows that are not replayed, a sentence each."""
        found = []
        if self.skipped:
            found.append(
                f"{self.skipped:,} of {self.read:,} rows of the trace were skipped; the first: {self.first_skipped}"
            )
        if self.failed:
            found.append(
                f"{self.failed:,} of {self.read:,} rows of the trace are left out, "
                f"for their requests failed; the first: {self.first_failed}"
            )
        return found


class Trace(Rows):
    """A trace as it will be replayed: 8 bytes a row for its time, and what ``Rows`` says.

    Args:
        block_tokens: tokens of a block; 0 = the trace knows no blocks.

    Attributes:
        block_tokens: see above.
        times_ps: arrivals [ps] from the start of the replay, ascending.
        counts: what became of the file's rows.
    """

    def __init__(self, block_tokens: int) -> None:
        super().__init__(Spool())
        self.block_tokens = block_tokens
        self.times_ps: Column[int] = Column("q", self.spool)
        self.counts = TraceCounts()


def infinite_hit_rate(trace: Trace) -> float | None:
    """The share of the trace's prompt blocks that a cache without limit would hold when their request comes.

    A block is found if a prompt before it had the same ids from the first block up to this one: chains
    decide, not ids alone. Every chain is new once and found ever after, so that the order does not matter.
    None if the trace has no block ids.
    """
    total = len(trace.block_ids)
    return (total - distinct_prefixes(trace.block_ids, trace.block_ends, Spool(trace.spool))) / total if total else None
