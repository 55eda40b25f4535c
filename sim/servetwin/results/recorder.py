"""Keeps what the engine and the gateway write: flat lists while they are short, then compact columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import pack_into
from typing import Any, Final

import numpy as np

from servetwin.records import SEGMENT_BYTES, SEGMENT_COLUMNS
from servetwin.request import Request
from servetwin.results.choices import CHOICE_COLUMNS, Choices
from servetwin.results.columns import ColumnStore
from servetwin.results.communication import CommunicationTable, CommunicationUse
from servetwin.results.drafts import DraftTable, DraftUse
from servetwin.results.exact import Ints
from servetwin.results.exchanged import CollectiveUse
from servetwin.results.hand_overs import HAND_OVER_COLUMNS, HandOverTable
from servetwin.results.links import CHUNK_COLUMNS, LinkTable, LinkUse
from servetwin.results.meta import RunMeta
from servetwin.results.requests import REQUEST_FIELDS, STAMPS, Label, RequestTable
from servetwin.results.result import Result
from servetwin.results.segments import RunSegments
from servetwin.results.spent import spent

#: Rows kept as Python integers before they become an array. Few, so that these integers stay in the processor's
#: cache: with 4,096 rows every access of the whole simulation is slower.
_ROWS_PER_FLUSH: Final = 256
_REQUEST_LIMIT: Final = _ROWS_PER_FLUSH * len(REQUEST_FIELDS)
_ARRIVAL: Final = REQUEST_FIELDS.index("arrival_ps")
_STAMPS: Final = [REQUEST_FIELDS.index(name) for name in STAMPS]

PhaseRecord = tuple[int, int, list[Any]]
"""``(replica, start_ps, phases)`` of a segment's first step."""

StageRecord = tuple[int, int, int, int, int, int, int, list[Any]]
"""``(replica, stage, start_ps, tokens, prefill_tokens, decodes, context, phases)`` of a step on a stage."""


class Recorder:
    """The run log (``servetwin.records.RunLog``) of one run, and the maker of its ``Result``.

    Args:
        meta: what the results say about the run beside its columns.
        timeline: whether the phases of the steps are kept, for the timeline.
        chunks: whether the prefill chunks of the steps are kept, for what GPUs exchange.
    """

    def __init__(self, meta: RunMeta, *, timeline: bool = False, chunks: bool = False) -> None:
        self.meta = meta
        self.segments = bytearray()
        self.segment_limit = _ROWS_PER_FLUSH * SEGMENT_BYTES
        self.wants_phases = timeline
        self.wants_chunks = chunks
        self._segment_store = ColumnStore(SEGMENT_COLUMNS)
        self._request_store = ColumnStore(REQUEST_FIELDS)
        self._requests: list[int] = []
        self._labels: dict[Label, int] = {}
        self._gap_store = ColumnStore(("gap_ps", "start_ps"))
        self._gaps: list[int] = []
        self._chunk_store = ColumnStore(CHUNK_COLUMNS)
        self._chunks: list[int] = []
        self._choice_store = ColumnStore(CHOICE_COLUMNS)
        self._choices: list[int] = []
        self._hand_over_store = ColumnStore(HAND_OVER_COLUMNS)
        self._hand_overs: list[int] = []
        self._phases: list[PhaseRecord] = []
        self._stage_phases: list[StageRecord] = []

    def flush_segments(self) -> None:
        """Move ``segments`` into compact columns and empty it."""
        rows = np.frombuffer(bytes(self.segments), np.int64)
        self._segment_store.append(rows.reshape(-1, len(SEGMENT_COLUMNS)))
        self.segments.clear()

    def gap(self, gap_ps: int, start_ps: int) -> None:
        """One more inter-token gap [ps], of a request that sat out some steps; its last step began at ``start_ps``."""
        self._gaps += (gap_ps, start_ps)
        if len(self._gaps) >= 2 * _ROWS_PER_FLUSH:
            self._flush_gaps()

    def phases(self, replica: int, start_ps: int, phases: list[Any]) -> None:
        """The phases of the first step of the segment that starts at ``start_ps`` [ps] on ``replica``."""
        self._phases.append((replica, start_ps, phases))

    def stage_phases(
        self, replica: int, stage: int, start_ps: int, tokens: int, prefill_tokens: int, decodes: int, context: int,
        phases: list[Any],
    ) -> None:  # fmt: skip
        """The phases of one step on one stage of a pipeline; see ``records.RunLog``."""
        self._stage_phases.append((replica, stage, start_ps, tokens, prefill_tokens, decodes, context, phases))

    def chunks(self, replica: int, start_ps: int, chunks: Sequence[tuple[int, int]]) -> None:
        """The prefill chunks ``(tokens, context)`` of the step that starts at ``start_ps`` [ps] on ``replica``."""
        rows = self._chunks
        for tokens, _ in chunks:
            rows += (replica, start_ps, tokens)
        if len(rows) >= _ROWS_PER_FLUSH * len(CHUNK_COLUMNS):
            self._flush_chunks()

    def choice(self, replica: int, time_ps: int, drafts: int) -> None:
        """From ``time_ps`` [ps] on the replica drafts so many tokens per request."""
        self._choices += (replica, time_ps, drafts)
        if len(self._choices) >= _ROWS_PER_FLUSH * len(CHOICE_COLUMNS):
            self._flush_choices()

    def handed_over(
        self, request: int, source: int, target: int, queued_ps: int, scheduled_ps: int, reserved_ps: int,
        start_ps: int, end_ps: int, kept_ps: int, freed_ps: int, moved_bytes: int, attempts: int, found_tokens: int,
    ) -> None:  # fmt: skip
        """What became of the hand-over of a request; see ``records.RunLog``."""
        self._hand_overs += (
            request, source, target, queued_ps, scheduled_ps, reserved_ps, start_ps, end_ps, kept_ps, freed_ps,
            moved_bytes, attempts, found_tokens,
        )  # fmt: skip
        if len(self._hand_overs) >= _ROWS_PER_FLUSH * len(HAND_OVER_COLUMNS):
            self._flush_hand_overs()

    def spent(self, replicas: int) -> list[dict[str, int]]:
        """By replica, the time of its segments so far in each bucket of the ledger that a step can fill [ps].

        Args:
            replicas: how many replicas there are.
        """
        self.flush_segments()
        return spent(self._segment_store, replicas)

    def finished(self, request: Request) -> None:
        """A request has met its end; its stamps are final."""
        # In the order of ``REQUEST_FIELDS``, read one by one into one tuple: with the flush, a microsecond a request.
        label = (request.class_name, request.outcome, request.reason)
        code = self._labels.get(label)
        if code is None:
            code = self._labels[label] = len(self._labels)
        rows = self._requests
        rows += (
            request.id,
            request.arrival_ps,
            request.routed_ps,
            request.queued_ps,
            request.scheduled_ps,
            request.prefill_done_ps,
            request.first_token_ps,
            request.last_token_ps,
            request.prompt_tokens,
            request.output_tokens,
            request.hit_tokens,
            request.predicted_hit_tokens,
            request.recomputed_tokens,
            request.preemptions,
            request.drafted_tokens,
            request.accepted_tokens,
            request.session_id,
            request.replica,
            code,
        )
        if len(rows) >= _REQUEST_LIMIT:
            self._flush_requests()

    def result(
        self,
        *,
        end_ps: int,
        ledgers: Sequence[Mapping[str, int]],
        events: int,
        steps: int | None = None,
        warnings: Sequence[str] = (),
        interrupted: bool = False,
        links: Sequence[LinkUse] | None = None,
        collectives: Callable[[], Sequence[CollectiveUse]] = tuple,
        communication: Callable[[], Sequence[CommunicationUse]] = tuple,
        stages_busy: Sequence[Sequence[int]] = (),
        drafts: Sequence[DraftUse | None] = (),
    ) -> Result:
        """What the run came to. The recorder may go on recording afterwards.

        Args:
            end_ps: when the run ended [ps].
            ledgers: per replica, where its GPU time went: bucket → [GPU·ps].
            events: events that SimPy popped.
            steps: engine steps by the engine's own count, to be compared with the segments'.
            warnings: what the run itself has to say, in sentences.
            interrupted: whether the user stopped the run.
            links: what the links of the network carried of transfers, where there is one.
            collectives: asks what the collectives of each replica send over them.
            communication: asks what the exchanges of each replica take.
            stages_busy: per replica and stage of its pipeline, GPU time that went to steps [GPU·ps].
            drafts: per replica, what became of its drafts, None where it has no speculation; none at all where no
                replica has.
        """
        self.flush_segments()
        self._flush_choices()
        self._flush_requests()
        self._flush_gaps()
        self._flush_chunks()
        self._flush_hand_overs()
        segments = RunSegments(self._segment_store, self._gap_store, self.meta.stages_of())
        table = None
        if links is not None:
            horizon_ps = max(end_ps, segments.totals.end_ps, 1)
            table = LinkTable(
                links, collectives, self._segment_store, self._chunk_store, self._choice_store, horizon_ps
            )
        return Result(
            meta=self.meta,
            requests=RequestTable(self._request_store, list(self._labels)),
            segments=segments,
            phases=self._phases,
            stage_phases=self._stage_phases,
            end_ps=end_ps,
            ledgers=ledgers,
            stages_busy=stages_busy,
            events=events,
            steps=steps,
            warnings=warnings,
            interrupted=interrupted,
            links=table,
            drafts=DraftTable(drafts, self._segment_store, self.meta.replicas),
            choices=Choices(self._choice_store),
            hand_overs=HandOverTable(self._hand_over_store),
            communication=lambda: CommunicationTable(communication(), self._segment_store, self._chunk_store, ledgers),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the compact columns."""
        stores = (
            self._segment_store, self._request_store, self._gap_store, self._chunk_store, self._choice_store,
            self._hand_over_store,
        )  # fmt: skip
        return sum(store.nbytes for store in stores)

    def _flush_requests(self) -> None:
        rows = _matrix(self._requests, len(REQUEST_FIELDS))
        self._requests.clear()
        # Stamps lie close to the arrival, so their distance from it takes fewer bytes.
        arrival = rows[:, _ARRIVAL]
        for place in _STAMPS:
            stamps = rows[:, place]
            rows[:, place] = np.where(stamps < 0, -1, stamps - arrival)
        self._request_store.append(rows)

    def _flush_chunks(self) -> None:
        self._chunk_store.append(_matrix(self._chunks, len(CHUNK_COLUMNS)))
        self._chunks.clear()

    def _flush_hand_overs(self) -> None:
        self._hand_over_store.append(_matrix(self._hand_overs, len(HAND_OVER_COLUMNS)))
        self._hand_overs.clear()

    def _flush_choices(self) -> None:
        self._choice_store.append(_matrix(self._choices, len(CHOICE_COLUMNS)))
        self._choices.clear()

    def _flush_gaps(self) -> None:
        self._gap_store.append(_matrix(self._gaps, 2))
        self._gaps.clear()


def _matrix(flat: list[int], columns: int) -> Ints:
    """A flat list of rows as a matrix."""
    # A third faster than numpy's own conversion, which looks at every number twice.
    packed = bytearray(8 * len(flat))
    pack_into(f"{len(flat)}q", packed, 0, *flat)
    return np.frombuffer(packed, np.int64).reshape(-1, columns)
