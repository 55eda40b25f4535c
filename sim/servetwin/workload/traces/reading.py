"""Reading a trace file: which rows are replayed, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, repeat
from pathlib import Path

from servetwin.errors import TraceError
from servetwin.streams import Streams
from servetwin.units import MAX_DAYS, MAX_PS, PS_PER_S, seconds_to_ps
from servetwin.workload.traces.format import FailedRow, Row, RowError
from servetwin.workload.traces.opening import Item, Place, open_trace
from servetwin.workload.traces.sorting import by_time
from servetwin.workload.traces.spec import TraceSpec
from servetwin.workload.traces.spool import Column
from servetwin.workload.traces.trace import Trace, TraceCounts


def read_trace(spec: TraceSpec, base: Path, streams: Streams | None = None) -> Trace:
    """Read the whole trace, so that a bad row shows before anything is simulated.

    Args:
        spec: which file, and how to treat it.
        base: the folder that a relative path is meant from.
        streams: random streams, for formats that describe traffic instead of listing it; those of seed 0 by default.

    Raises:
        TraceError: the file or one of its rows is wrong, or nothing is left to replay.
    """
    opened = open_trace(spec, base, streams or Streams(0))
    trace = Trace(opened.block_tokens)
    rows = _good_rows(opened.items, spec, trace.counts)
    sort = spec.sort and opened.origin_ps is None  # the others come in order
    _collect(trace, by_time(rows) if sort else rows, opened.origin_ps, spec)
    if sort:  # every row was read before the first was taken: count those that were not reached
        counts = trace.counts
        counts.outside = counts.read - counts.skipped - counts.failed - len(trace)
    _check_not_empty(trace, spec)
    trace.name_sessions()
    if spec.spread_ties:
        spread: Column[int] = Column("q", trace.spool)
        for time_ps in _spread(trace.times_ps):
            spread.append(time_ps)
        trace.times_ps = spread
    return trace


def _good_rows(items: Iterator[Item], spec: TraceSpec, counts: TraceCounts) -> Iterator[tuple[Place, Row]]:
    for place, row in items:
        counts.read += 1
        if not isinstance(row, RowError):
            yield place, row
        elif isinstance(row, FailedRow):
            counts.failed += 1
            counts.first_failed = counts.first_failed or f"{_shown(place)}: {row.message}"
        elif spec.skip_bad_rows:
            counts.skipped += 1
            counts.first_skipped = counts.first_skipped or f"{_shown(place)}: {row.message}"
        else:
            raise TraceError(
                row.message,
                file=spec.path,
                path=_shown(place),
                found=row.found,
                allowed=row.allowed,
                hint="set workload.trace.skip_bad_rows to true to count such rows and leave them out",
            )


def _shown(place: Place) -> str:
    return place if isinstance(place, str) else f"line {place}"


def _collect(trace: Trace, rows: Iterable[tuple[Place, Row]], origin: int | None, spec: TraceSpec) -> None:
    """Take the rows of the window, in order, up to the limit."""
    start, end = spec.window_s or (0.0, None)
    start_ps, end_ps = seconds_to_ps(start), None if end is None else seconds_to_ps(end)
    scale, times, counts = spec.rate_scale, trace.times_ps, trace.counts
    previous = origin
    for place, row in rows:
        time = row.time_ps
        if origin is None or previous is None:
            origin = previous = time
        if time < previous:
            raise _out_of_order(previous - time, place, spec)
        previous = time
        since_ps = time - origin - start_ps
        if since_ps < 0:
            counts.outside += 1
        elif end_ps is not None and since_ps + start_ps >= end_ps:
            counts.outside += 1
            break
        else:
            _check_in_time(since_ps, place, spec)
            times.append(since_ps if scale == 1 else round(since_ps / scale))
            trace.add(row)
            if len(times) == spec.limit:
                break


def _out_of_order(by_ps: int, place: Place, spec: TraceSpec) -> TraceError:
    return TraceError(
        "the rows are not in order of time",
        file=spec.path,
        path=_shown(place),
        found=f"{by_ps / PS_PER_S:g} s before the row above",
        allowed="times that never run back",
        hint="set workload.trace.sort to true to sort the rows",
    )


def _check_in_time(time_ps: int, place: Place, spec: TraceSpec) -> None:
    if time_ps > MAX_PS * spec.rate_scale:
        raise TraceError(
            f"the row comes too late: a run spans at most {MAX_DAYS} simulated days",
            file=spec.path,
            path=_shown(place),
            found=f"{time_ps / PS_PER_S / 86_400:,.4g} days after the first row",
            allowed=f"at most {MAX_DAYS * spec.rate_scale:,.6g} days",
            hint="cut the trace with workload.trace.window_s or workload.trace.limit, or speed it up with "
            "workload.trace.rate_scale",
        )


def _check_not_empty(trace: Trace, spec: TraceSpec) -> None:
    counts = trace.counts
    if trace.times_ps:
        return
    if counts.read == 0:
        raise TraceError("the trace has no rows", file=spec.path)
    if counts.skipped + counts.failed == counts.read:
        raise TraceError(
            f"none of the {counts.read:,} rows of the trace can be used",
            file=spec.path,
            found=counts.first_skipped or counts.first_failed,
        )
    raise TraceError(
        "no row of the trace lies in the window",
        file=spec.path,
        path="workload.trace.window_s",
        found=spec.window_s,
        hint="the window counts seconds from the first row",
    )


def _spread(times: Iterable[int]) -> Iterator[int]:
    """Give n equal times t, followed by u, the times t, t + (u − t)/n, …; the last ones stay."""
    start, number = 0, 0
    for time, equal in groupby(times):
        yield from (start + (time - start) * place // number for place in range(number))
        start, number = time, sum(1 for _ in equal)
    yield from repeat(start, number)
