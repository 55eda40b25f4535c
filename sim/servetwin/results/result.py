"""The result of a run: views on its columns, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servetwin.errors import InvariantError
from servetwin.results.choices import Choices
from servetwin.results.communication import CommunicationTable
from servetwin.results.drafts import DraftTable
from servetwin.results.hand_overs import HandOverTable
from servetwin.results.ledger import Ledger
from servetwin.results.links import LinkTable
from servetwin.results.meta import RunMeta
from servetwin.results.requests import RequestTable
from servetwin.results.segments import RunSegments
from servetwin.results.store import (
    HAND_OVERS_PICTURE,
    LEDGER,
    LINKS,
    LINKS_PICTURE,
    PICTURES,
    REQUESTS,
    SPECULATION_PICTURE,
    SUMMARY,
    TIMESERIES,
    clear,
    write_json,
    write_parquet,
)
from servetwin.results.summary import HOST_KEYS, SummaryInputs, summarise
from servetwin.results.timeseries import TimeSeries

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Painter = Callable[["Result", Path], Sequence[Path]]
"""Draws something about a result into a directory; returns the files."""

FIGURES = "servetwin.report.figures:draw"
TIMELINE = "servetwin.report.perfetto:draw"
"""The usual painters, by name: the results know no report, whose imports cost more than a short run."""


class Result:
    """What a run came to. Nothing is computed before it is asked for.

    Attributes:
        meta: the run.
        table: its requests as columns.
        segments: its steps.
        phases: the phases of its steps as ``(replica, start_ps, phases)``, kept for a timeline only.
        stage_phases: the same of each stage of a pipeline, as ``(replica, stage, start_ps, tokens, prefill_tokens,
            decodes, context, phases)``.
        end_ps: when it ended [ps].
        link_table: what the links of the network carried; None without a topology.
        drafts: what became of its drafts.
        choices: how many tokens its controllers of speculation chose to draft.
        hand_overs: how requests got from replicas that prefill to replicas that decode.
    """

    def __init__(
        self,
        *,
        meta: RunMeta,
        requests: RequestTable,
        segments: RunSegments,
        phases: Sequence[tuple[int, int, list[Any]]],
        end_ps: int,
        ledgers: Sequence[Mapping[str, int]],
        stages_busy: Sequence[Sequence[int]],
        events: int,
        steps: int | None = None,
        warnings: Sequence[str] = (),
        interrupted: bool = False,
        links: LinkTable | None = None,
        communication: Callable[[], CommunicationTable],
        drafts: DraftTable,
        choices: Choices,
        hand_overs: HandOverTable,
        stage_phases: Sequence[tuple[int, int, int, int, int, int, int, list[Any]]] = (),
    ) -> None:
        if steps is not None and steps != segments.totals.steps:
            raise InvariantError(f"the engines count {steps} steps, the segments {segments.totals.steps}")
        self.meta = meta
        self.table = requests
        self.segments = segments
        self.phases = phases
        self.stage_phases = stage_phases
        self.end_ps = end_ps
        self._ledger = Ledger(meta, ledgers, end_ps, stages_busy)
        self._events = events
        self._warnings = list(warnings)
        self._interrupted = interrupted
        self.link_table = links
        self._communication = communication
        self.drafts = drafts
        self.choices = choices
        self.hand_overs = hand_overs
        self._host: dict[str, Any] = {}

    @cached_property
    def series(self) -> TimeSeries:
        """The load of each replica over time, as sums."""
        return TimeSeries(self.segments, self.table, self.end_ps, self.choices, self.hand_overs)

    @cached_property
    def _metrics(self) -> dict[str, Any]:
        inputs = SummaryInputs(
            self.meta, self.table, self.segments, self.series, self._ledger, self.end_ps, self._events,
            self.drafts, self.hand_overs, self._warnings, self._interrupted, self.link_table,
        )  # fmt: skip
        return summarise(inputs)

    @cached_property
    def _ledger_document(self) -> dict[str, Any]:
        return self._ledger.document(self.table, self._communication(), self.hand_overs)

    def set_host(self, **values: Any) -> None:
        """Set host-dependent keys of the summary: ``wall_s`` [s], ``cpu_s`` [s], ``started_at``, ``out``."""
        unknown = set(values) - set(HOST_KEYS)
        if unknown:
            raise TypeError(f"not a host-dependent key: {', '.join(sorted(unknown))}")
        self._host |= values

    def summary(self) -> dict[str, Any]:
        """Every metric by its key (see ``servetwin.results.summary``)."""
        return self._metrics | self._host

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting the results, in sentences."""
        return list(self._metrics["warnings"])

    def ledger(self) -> dict[str, Any]:
        """Where every GPU-second went (see ``servetwin.results.ledger``)."""
        return self._ledger_document

    def requests(self) -> pd.DataFrame:
        """A row per request (columns: ``servetwin.results.frames.REQUEST_SCHEMA``)."""
        from servetwin.results.frames import REQUEST_SCHEMA, request_batches

        return _frame(REQUEST_SCHEMA, list(request_batches(self.meta, self.table, self.hand_overs)))

    def timeseries(self) -> pd.DataFrame:
        """A row per replica and interval (columns: ``servetwin.results.frames.TIMESERIES_SCHEMA``)."""
        from servetwin.results.frames import TIMESERIES_SCHEMA, timeseries_batches

        return _frame(TIMESERIES_SCHEMA, list(timeseries_batches(self.meta, self.series)))

    def links(self) -> pd.DataFrame:
        """A row per link and interval (columns: ``servetwin.results.frames.LINKS_SCHEMA``); none without a topology."""
        from servetwin.results.frames import LINKS_SCHEMA, link_batches

        return _frame(LINKS_SCHEMA, [] if self.link_table is None else list(link_batches(self.link_table)))

    def to_parquet(self, directory: str | Path) -> list[Path]:
        """Write ``requests.parquet`` and ``timeseries.parquet``, block by block; returns the files.

        With a topology ``links.parquet`` too.
        """
        from servetwin.results import frames

        folder = Path(directory)
        requests, timeseries = folder / REQUESTS, folder / TIMESERIES
        rows = frames.request_batches(self.meta, self.table, self.hand_overs)
        write_parquet(requests, frames.REQUEST_SCHEMA, rows)
        write_parquet(timeseries, frames.TIMESERIES_SCHEMA, frames.timeseries_batches(self.meta, self.series))
        if self.link_table is None:
            return [requests, timeseries]
        links = folder / LINKS
        write_parquet(links, frames.LINKS_SCHEMA, frames.link_batches(self.link_table))
        return [requests, timeseries, links]

    def pictures(self) -> list[str]:
        """The names of the usual pictures of this run."""
        links = [] if self.link_table is None else [LINKS_PICTURE]
        speculation = [SPECULATION_PICTURE] if self.choices.any else []
        return [*PICTURES, *links, *speculation, *([HAND_OVERS_PICTURE] if len(self.hand_overs) else [])]

    def write(
        self, directory: str | Path, figures: bool | Painter = True, timeline: bool | Painter = False
    ) -> list[Path]:
        """Write all files of the run. Those of an earlier run in the same directory are removed first.

        Args:
            directory: made if it does not exist.
            figures: whether to draw the pictures, or what draws them.
            timeline: whether to write ``trace.json``, or what writes it; the phases of the steps are in it only if
                the recorder was made with ``timeline=True``.

        Returns:
            The files.
        """
        return [*self.write_tables(directory), *self.write_pictures(directory, figures, timeline)]

    def write_tables(self, directory: str | Path) -> list[Path]:
        """Write what other programs read, and remove what an earlier run has left there; returns the files."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        clear(folder)
        self._host["out"] = str(directory)
        write_json(folder / SUMMARY, self.summary())
        write_json(folder / LEDGER, self.ledger())
        return [folder / SUMMARY, folder / LEDGER, *self.to_parquet(folder)]

    def write_pictures(
        self, directory: str | Path, figures: bool | Painter = True, timeline: bool | Painter = False
    ) -> list[Path]:
        """Write what people look at; see ``write``."""
        folder = Path(directory)
        written: list[Path] = []
        for wanted, usual in ((figures, FIGURES), (timeline, TIMELINE)):
            if wanted:
                painter = _painter(usual) if wanted is True else wanted
                written += painter(self, folder)
        return written


def _painter(address: str) -> Painter:
    module, _, name = address.partition(":")
    painter: Painter = getattr(import_module(module), name)
    return painter


def _frame(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pd.DataFrame:
    import pyarrow as pa

    frame: pd.DataFrame = pa.Table.from_batches(batches, schema=schema).to_pandas()
    return frame
