"""Reading a trace file into memory, and what an endless cache would find in it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from servetwin.errors import TraceError
from servetwin.units import MAX_DAYS, MAX_PS, PS_PER_S, seconds_to_ps
from servetwin.workload.traces.format import Row, RowError, RowParser
from servetwin.workload.traces.lines import check_text, line_blocks, resolve
from servetwin.workload.traces.registry import AUTO, detect, find
from servetwin.workload.traces.spec import TraceSpec


@dataclass(slots=True)
class TraceCounts:
    """What became of the rows of a trace: ``read = requests + skipped + outside``.

    Attributes:
        read: rows read (the header and blank lines are none).
        skipped: bad rows, skipped on request.
        outside: good rows outside the window.
        first_skipped: the first bad row and what is wrong with it, for a warning; empty if there was none.
    """

    read: int = 0
    skipped: int = 0
    outside: int = 0
    first_skipped: str = ""

    @property
    def requests(self) -> int:
        """Rows that are replayed."""
        return self.read - self.skipped - self.outside


@dataclass(slots=True)
class Trace:
    """A trace as it will be replayed, in columns.

    Attributes:
        block_tokens: tokens of a block; 0 = the trace knows no blocks.
        times_ps: arrivals [ps] from the start of the replay, ascending.
        prompts: prompt tokens.
        outputs: output tokens.
        blocks: the block ids of each prompt; empty where the trace knows no blocks.
        counts: what became of the file's rows.
    """

    block_tokens: int
    times_ps: list[int] = field(default_factory=list)
    prompts: array[int] = field(default_factory=lambda: array("i"))
    outputs: array[int] = field(default_factory=lambda: array("i"))
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    counts: TraceCounts = field(default_factory=TraceCounts)


def read_trace(spec: TraceSpec, base: Path) -> Trace:
    """Read the whole trace, so that a bad row shows before anything is simulated.

    Args:
        spec: which file, and how to treat it.
        base: the folder that a relative path is meant from.

    Raises:
        TraceError: the file or one of its rows is wrong, or nothing is left to replay.
    """
    blocks = line_blocks(resolve(spec.path, base), spec.path, lenient=spec.skip_bad_rows)
    number, lines, first = _first_line(blocks, spec.path)
    try:
        check_text(first)
        trace_format = detect(first, spec.path) if spec.format == AUTO else find(spec.format)
        parse, header = trace_format.parser(first)
    except RowError as error:
        raise _row_error(error, spec.path, number) from None
    trace = Trace(trace_format.block_tokens)
    skip = 1 if header else 0
    rows = _rows(_lines(number + skip, lines[skip:], blocks), parse, spec, trace.counts)
    _collect(trace, sorted(rows, key=lambda row: row[1].time_ps) if spec.sort else rows, spec)
    _check_not_empty(trace, spec)
    _retime(trace, spec)
    return trace


def infinite_hit_rate(trace: Trace) -> float | None:
    """The share of the trace's prompt blocks that a cache without limit would hold when their request comes.

    A block is found if a prompt before it had the same ids from the first block up to this one: chains
    decide, not ids alone. None if the trace has no block ids.
    """
    chains: dict[tuple[int, int], int] = {}  # (number of the chain before, id) → number of the chain
    total = found = 0
    for ids in trace.blocks:
        total += len(ids)
        chain = 0
        for block in ids:
            link = (chain, block)
            known = chains.get(link)
            if known is None:
                known = chains[link] = len(chains) + 1
            else:
                found += 1
            chain = known
    return found / total if total else None


def _first_line(blocks: Iterator[tuple[int, list[str]]], shown: str) -> tuple[int, list[str], str]:
    """Number of the first line that is not blank, the lines of its block from there on, and the line."""
    for number, lines in blocks:
        for offset, line in enumerate(lines):
            if line.strip():
                return number + offset, lines[offset:], line.strip()
    raise TraceError("the trace is empty", file=shown)


def _lines(number: int, lines: list[str], blocks: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, str]]:
    yield from enumerate(lines, number)
    for start, more in blocks:
        yield from enumerate(more, start)


def _rows(
    lines: Iterator[tuple[int, str]], parse: RowParser, spec: TraceSpec, counts: TraceCounts
) -> Iterator[tuple[int, Row]]:
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        counts.read += 1
        try:
            if spec.skip_bad_rows:
                check_text(text)
            row = parse(text)
        except RowError as error:
            if not spec.skip_bad_rows:
                raise _row_error(error, spec.path, number) from None
            counts.skipped += 1
            counts.first_skipped = counts.first_skipped or f"line {number}: {error.message}"
            continue
        yield number, row


def _collect(trace: Trace, rows: Iterator[tuple[int, Row]] | list[tuple[int, Row]], spec: TraceSpec) -> None:
    """Take the rows of the window, in order, up to the limit."""
    start, end = spec.window_s or (0.0, None)
    start_ps, end_ps = seconds_to_ps(start), None if end is None else seconds_to_ps(end)
    origin = previous = None
    for number, row in rows:
        time = row.time_ps
        if origin is None or previous is None:
            origin = previous = time
        if time < previous:
            raise TraceError(
                "the rows are not in order of time",
                file=spec.path,
                path=f"line {number}",
                found=f"{(previous - time) / PS_PER_S:g} s before the row above",
                allowed="times that never run back",
                hint="set workload.trace.sort to true to sort the rows",
            )
        previous = time
        if time - origin < start_ps:
            trace.counts.outside += 1
        elif end_ps is not None and time - origin >= end_ps:
            trace.counts.outside += 1
            break
        else:
            _check_in_time(time - origin - start_ps, number, spec)
            trace.times_ps.append(time - origin - start_ps)
            trace.prompts.append(row.prompt_tokens)
            trace.outputs.append(row.output_tokens)
            if trace.block_tokens:
                trace.blocks.append(row.blocks)
            if len(trace.times_ps) == spec.limit:
                break
    if spec.sort:  # every row was read before the first was taken: count those that were not reached
        trace.counts.outside = trace.counts.read - trace.counts.skipped - len(trace.times_ps)


def _check_in_time(time_ps: int, number: int, spec: TraceSpec) -> None:
    if time_ps > MAX_PS * spec.rate_scale:
        raise TraceError(
            f"the row comes too late: a run spans at most {MAX_DAYS} simulated days",
            file=spec.path,
            path=f"line {number}",
            found=f"{time_ps / PS_PER_S / 86_400:,.4g} days after the first row",
            allowed=f"at most {MAX_DAYS * spec.rate_scale:,.6g} days",
            hint="cut the trace with workload.trace.window_s or limit, or speed it up with rate_scale",
        )


def _check_not_empty(trace: Trace, spec: TraceSpec) -> None:
    counts = trace.counts
    if trace.times_ps:
        return
    if counts.read == 0:
        raise TraceError("the trace has a header but no rows", file=spec.path)
    if counts.skipped == counts.read:
        raise TraceError(
            f"none of the {counts.read:,} rows of the trace can be used",
            file=spec.path,
            found=counts.first_skipped,
        )
    raise TraceError(
        "no row of the trace lies in the window",
        file=spec.path,
        path="workload.trace.window_s",
        found=spec.window_s,
        hint="the window counts seconds from the first row",
    )


def _retime(trace: Trace, spec: TraceSpec) -> None:
    times = trace.times_ps
    if spec.rate_scale != 1:
        times[:] = [round(time / spec.rate_scale) for time in times]
    if spec.spread_ties:
        times[:] = _spread(times)


def _spread(times: Sequence[int]) -> Iterator[int]:
    """Give n equal times t, followed by u, the times t, t + (u − t)/n, …; the last ones stay."""
    start = 0
    for end in range(1, len(times) + 1):
        if end == len(times):
            yield from times[start:]
        elif times[end] != times[start]:
            step, number = times[end] - times[start], end - start
            yield from (times[start] + step * place // number for place in range(number))
            start = end


def _row_error(error: RowError, shown: str, number: int) -> TraceError:
    return TraceError(error.message, file=shown, path=f"line {number}", found=error.found, allowed=error.allowed)
