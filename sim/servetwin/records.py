"""The shape of what a run leaves behind: written by the engine and the gateway, read by the results.

A *segment* is a stretch of equal steps of one replica. Step ``j`` (from 0) of a segment lasts
``first_ps + j * growth_ps``. Its columns:

================ ==================================================================================================
replica          index of the replica
start_ps         when the first step starts [ps]
count            number of steps
first_ps         duration of the first step [ps]
growth_ps        by how much each step is longer than the one before [ps]
gap_ps           time from the last visible token to the visible tokens of the first step [ps]; later gaps of the
                 segment are ``first_ps + j * growth_ps`` for j = 1 … count − 1
weight           inter-token gaps that each step ends (its decoding requests)
tokens           tokens scheduled in each step
prefill_tokens   prompt (or recomputed) tokens among them; a segment with any has count 1
emitted          output tokens that each step yields
decodes          decoding requests in each step
context          KV tokens read in the first step, summed over requests; grows by ``decodes`` a step
attended         token × context pairs attended in the first step; grows by ``decodes`` a step
held             tokens of KV cache in use when the first step starts; grows by ``decodes`` a step
compute_ps       part of ``first_ps`` bound by arithmetic [ps]
memory_ps        part of ``first_ps`` bound by HBM [ps]
communication_ps part of ``first_ps`` that waits for other GPUs [ps]; what is left waits for the CPU
recomputed       prefill tokens that had been computed before a preemption
compute_growth   part of ``growth_ps`` bound by arithmetic [ps]
memory_growth    part of ``growth_ps`` bound by HBM [ps]; by what is left, the wait for the CPU grows or shrinks
draft_ps         part of ``first_ps`` in which tokens are drafted [ps], whatever bounds it; not in the three above. A
                 segment with any has count 1, and so has one with drafted tokens
drafted          drafted tokens that the step verifies
accepted         those of them that stood
================ ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Protocol

from servetwin.request import Request

SEGMENT_COLUMNS = (
    "replica",
    "start_ps",
    "count",
    "first_ps",
    "growth_ps",
    "gap_ps",
    "weight",
    "tokens",
    "prefill_tokens",
    "emitted",
    "decodes",
    "context",
    "attended",
    "held",
    "compute_ps",
    "memory_ps",
    "communication_ps",
    "recomputed",
    "compute_growth",
    "memory_growth",
    "draft_ps",
    "drafted",
    "accepted",
)

_SEGMENT = Struct(f"{len(SEGMENT_COLUMNS)}q")

SEGMENT_BYTES = _SEGMENT.size
"""Bytes of a packed segment."""

pack_segment = _SEGMENT.pack
"""Packs the columns of a segment, in their order: in bytes, numbers need no care until they are read."""

LEDGER_BUCKETS = (
    "compute",
    "hbm",
    "exposed_communication",
    "host",
    "draft",
    "wasted_verify",
    "recompute",
    "transfer_wait",
    "load_wait",
    "bubble",
    "idle",
    "down",
)
"""Where a GPU-second can go; every GPU-second of every replica lands in exactly one."""


class RunLog(Protocol):
    """What the engine and the gateway write to."""

    #: Packed segments (``pack_segment``), one after the other; call ``flush_segments`` when it is longer than
    #: ``segment_limit`` [bytes]. Always the same object.
    segments: bytearray
    segment_limit: int

    #: Whether ``phases`` wants to be called (only when a timeline is drawn).
    wants_phases: bool

    #: Whether ``chunks`` wants to be called (only where GPUs exchange something).
    wants_chunks: bool

    def flush_segments(self) -> None:
        """Move ``segments`` into compact columns and empty it."""

    def gap(self, gap_ps: int, start_ps: int) -> None:
        """One more inter-token gap [ps], of a request that sat out some steps (preempted or starved).

        ``start_ps`` [ps] is when the step began that yields the token after it.
        """

    def phases(self, replica: int, start_ps: int, phases: list[Any]) -> None:
        """The phases (``physics.protocols.Phase``) of the first step of a segment, for the timeline.

        Args:
            replica: index of the replica.
            start_ps: when the segment starts [ps].
            phases: the phases, in order.
        """

    def stage_phases(
        self, replica: int, stage: int, start_ps: int, tokens: int, prefill_tokens: int, decodes: int, context: int,
        phases: list[Any],
    ) -> None:  # fmt: skip
        """The phases of one step on one stage of a pipeline, for the timeline.

        Args:
            replica: index of the replica.
            stage: the stage, from 0.
            start_ps: when the step starts there [ps].
            tokens: tokens of the step.
            prefill_tokens: prompt tokens among them.
            decodes: requests that decode.
            context: KV tokens read.
            phases: the phases, in order.
        """

    def choice(self, replica: int, time_ps: int, drafts: int) -> None:
        """From the step that starts at ``time_ps`` [ps] on, the replica drafts so many tokens per request.

        Args:
            replica: index of the replica.
            time_ps: when that step starts [ps].
            drafts: tokens per request, 0 = none.
        """

    def chunks(self, replica: int, start_ps: int, chunks: Sequence[tuple[int, int]]) -> None:
        """The prefill chunks of the one step of a segment.

        Args:
            replica: index of the replica.
            start_ps: when the segment starts [ps].
            chunks: of each chunk, its tokens and those computed before it.
        """

    def handed_over(
        self, request: int, source: int, target: int, queued_ps: int, scheduled_ps: int, reserved_ps: int,
        start_ps: int, end_ps: int, kept_ps: int, freed_ps: int, moved_bytes: int, attempts: int, found_tokens: int,
    ) -> None:  # fmt: skip
        """What became of the hand-over of a request whose prefill and decode were on different replicas.

        Stamps are -1 where it did not come to that.

        Args:
            request: id of the request.
            source: index of the replica that prefilled it.
            target: index of the replica that decoded it, -1 = none.
            queued_ps: when it reached the waiting queue there [ps].
            scheduled_ps: when its first step there was planned [ps].
            reserved_ps: when it had blocks there [ps].
            start_ps: when the transfer began, its set-up included [ps].
            end_ps: when the KV cache was in those blocks [ps].
            kept_ps: since when the blocks of the ended prefill were kept [ps].
            freed_ps: until when [ps].
            moved_bytes: bytes sent for it, those of failed attempts included [B].
            attempts: transfers that were begun.
            found_tokens: tokens that the decoding replica had itself.
        """

    def spent(self, replicas: int) -> list[dict[str, int]]:
        """By replica, the time of its segments so far in each bucket of the ledger that a step can fill [ps].

        Args:
            replicas: how many replicas there are.
        """

    def finished(self, request: Request) -> None:
        """A request has met its end, whatever its outcome; its stamps are final."""
