"""A run log that keeps everything, and takes segments apart into steps and gaps again."""

from __future__ import annotations

from collections.abc import Sequence
from struct import iter_unpack
from typing import Any, NamedTuple

from servetwin.records import SEGMENT_BYTES, SEGMENT_COLUMNS
from servetwin.request import Request

#: Buckets of the ledger that a step can fill.
BUCKETS = ("compute", "hbm", "exposed_communication", "host", "draft", "wasted_verify", "recompute")

#: What two engines must agree on about a request.
STAMPS = (
    "replica",
    "queued_ps",
    "scheduled_ps",
    "prefill_done_ps",
    "first_token_ps",
    "last_token_ps",
    "hit_tokens",
    "recomputed_tokens",
    "preemptions",
    "outcome",
)


class LoggedStep(NamedTuple):
    """One step, as a segment tells it."""

    start_ps: int
    duration_ps: int
    tokens: int
    prefill_tokens: int
    emitted: int
    decodes: int
    decode_context: int
    compute_ps: int
    memory_ps: int


class PlainLog:
    """``RunLog`` for tests. A small limit makes the engine flush often."""

    def __init__(self, segment_limit: int = 5 * SEGMENT_BYTES, wants_phases: bool = False) -> None:
        self.segments = bytearray()
        self.segment_limit = segment_limit
        self.wants_phases = wants_phases
        self.wants_chunks = True
        self.rows: list[dict[str, int]] = []
        self.gaps: list[int] = []
        self.ended: list[Request] = []
        self.phase_lists: list[tuple[int, int, list[Any]]] = []
        self.chunk_lists: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []
        self.stage_lists: list[tuple[int, int, int, tuple[Any, ...]]] = []
        self.choice_list: list[tuple[int, int, int]] = []

    def chunks(self, replica: int, start_ps: int, chunks: Sequence[tuple[int, int]]) -> None:
        self.chunk_lists.append((replica, start_ps, tuple(chunks)))

    def flush_segments(self) -> None:
        for row in iter_unpack(f"{len(SEGMENT_COLUMNS)}q", self.segments):
            self.rows.append(dict(zip(SEGMENT_COLUMNS, row, strict=True)))
        self.segments.clear()

    def gap(self, gap_ps: int, start_ps: int) -> None:
        self.gaps.append(gap_ps)

    def phases(self, replica: int, start_ps: int, phases: list[Any]) -> None:
        self.phase_lists.append((replica, start_ps, phases))

    def stage_phases(self, replica: int, stage: int, start_ps: int, *rest: Any) -> None:
        self.stage_lists.append((replica, stage, start_ps, rest))

    def choice(self, replica: int, time_ps: int, drafts: int) -> None:
        self.choice_list.append((replica, time_ps, drafts))

    def spent(self, replicas: int) -> list[dict[str, int]]:
        """Bucket by bucket and step by step, what ``servetwin.results.spent`` sums up."""
        found = [dict.fromkeys(BUCKETS, 0) for _ in range(replicas)]
        for row in self.all_rows():
            books = found[row["replica"]]
            for j in range(row["count"]):
                parts = {
                    "compute": row["compute_ps"] + j * row["compute_growth"],
                    "hbm": row["memory_ps"] + j * row["memory_growth"],
                    "exposed_communication": row["communication_ps"],
                }
                books["host"] += row["first_ps"] + j * row["growth_ps"] - sum(parts.values()) - row["draft_ps"]
                books["draft"] += row["draft_ps"]
                for bucket, time in parts.items():
                    again = time * row["recomputed"] // row["tokens"]
                    rejected = time * (row["drafted"] - row["accepted"]) // row["tokens"]
                    books[bucket] += time - again - rejected
                    books["recompute"] += again
                    books["wasted_verify"] += rejected
        return found

    def finished(self, request: Request) -> None:
        self.ended.append(request)

    def all_rows(self) -> list[dict[str, int]]:
        self.flush_segments()
        return self.rows

    def itl_ps(self) -> list[int]:
        """Every inter-token gap [ps], sorted."""
        gaps = list(self.gaps)
        for row in self.all_rows():
            for j in range(row["count"]):
                gap = row["gap_ps"] if j == 0 else row["first_ps"] + j * row["growth_ps"]
                gaps += [gap] * row["weight"]
        return sorted(gaps)

    def steps(self, replica: int) -> list[LoggedStep]:
        """The steps of a replica, in order."""
        steps = []
        for row in self.all_rows():
            if row["replica"] != replica:
                continue
            assert row["count"] == 1 or row["prefill_tokens"] == 0
            start = row["start_ps"]
            for j in range(row["count"]):
                duration = row["first_ps"] + j * row["growth_ps"]
                context = -1 if row["prefill_tokens"] else row["context"] + j * row["decodes"]
                steps.append(
                    LoggedStep(
                        start_ps=start,
                        duration_ps=duration,
                        tokens=row["tokens"],
                        prefill_tokens=row["prefill_tokens"],
                        emitted=row["emitted"],
                        decodes=row["decodes"],
                        decode_context=context,
                        compute_ps=row["compute_ps"] + j * row["compute_growth"],
                        memory_ps=row["memory_ps"] + j * row["memory_growth"],
                    )
                )
                start += duration
        return sorted(steps)
