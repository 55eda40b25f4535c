"""``trace.json``: requests and steps in the Trace Event Format, to look at in ui.perfetto.dev or chrome://tracing.

Every replica is a process. Its thread ``steps`` has one complete event per step, with the phases of the step nested
in it, in order; a replica with a pipeline has a thread for each stage instead, where the steps in flight overlap.
Requests are asynchronous spans of the replica that served them, with ``queue``, ``prefill`` and
``decode`` nested in them; requests that reached no replica belong to the process ``gateway``. Where one replica
prefills a request and another decodes it, each has its part of that, and the process ``KV transfers`` has a span for
each transfer, named after both replicas. The busiest links of a network are counters of the process ``network``: what
collectives and transfers take of them [% of capacity]. Times are microseconds with six decimals, so that no picosecond
is lost.

The layers of a model take turns; a phase with ``pieces`` > 1 draws the pieces of all layers as one, at its full
length. A step that is longer than the first of its series (its context has grown) gives the difference to the last
phase on the resource that bounds it. Steps that verify drafts, and requests that had any, say how many tokens were
drafted and how many of these stood.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from servetwin.report.link_data import busiest
from servetwin.request import UNFINISHED
from servetwin.results import Result
from servetwin.results.columns import Chunk
from servetwin.results.exact import Bools
from servetwin.results.hand_over_parts import HandOverTimes
from servetwin.results.requests import LABELS_COLUMN
from servetwin.results.store import TRACE, replacing
from servetwin.units import PS_PER_S, PS_PER_US

_GATEWAY = 0
_STEPS = 1
_STEP_COLUMNS = (
    "replica", "start_ps", "count", "first_ps", "growth_ps", "compute_growth", "memory_growth", "tokens",
    "prefill_tokens", "decodes", "context", "drafted", "accepted",
)  # fmt: skip
_MOVES = ("source", "target", "queued_ps", "scheduled_ps", "freed_ps")
_BLOCK_ROWS = 1 << 13


def draw(result: Result, directory: Path) -> list[Path]:
    """Write ``trace.json`` into ``directory``; returns the files."""
    path = directory / TRACE
    write_trace(result, path)
    return [path]


def write_trace(result: Result, path: Path) -> None:
    """Write the timeline of a run, event by event."""
    summary = result.summary()
    other = {key: summary[key] for key in ("name", "model", "engine", "engine_version", "seed", "config_hash")}
    with replacing(path) as part, part.open("w", encoding="utf-8") as file:
        file.write(f'{{"displayTimeUnit": "ms",\n"otherData": {json.dumps(other)},\n"traceEvents": [\n')
        separator = ""
        for event in _events(result):
            file.write(separator + event)
            separator = ",\n"
        file.write("\n]}\n")


def _events(result: Result) -> Iterator[str]:
    yield from _names(result)
    phases = {(replica, start): parts for replica, start, parts in result.phases}
    staged = np.array([stages > 1 for stages in result.meta.stages_of()], bool)
    for chunk in result.segments.store:
        yield from _steps(chunk, phases, staged)
    yield from _stage_steps(result)
    yield from _requests(result)
    yield from _transfers(result)
    yield from _links(result)


def _event(fields: str, **args: Any) -> str:
    """``fields`` are written as they are; times must keep their decimals, which a float would round."""
    return f"{{{fields}}}" if not args else f'{{{fields}, "args": {json.dumps(args)}}}'


def _us(time_ps: int) -> str:
    whole, rest = divmod(time_ps, PS_PER_US)
    return f"{whole}.{rest:06d}"


def _names(result: Result) -> Iterator[str]:
    owners, pools = result.meta.pool_of(), result.meta.pools
    names = ["gateway", *(f"replica {index} ({pools[owner].name})" for index, owner in enumerate(owners))]
    for process, name in enumerate(names):
        yield _event(f'"name": "process_name", "ph": "M", "pid": {process}, "tid": 0', name=name)
        yield _event(f'"name": "process_sort_index", "ph": "M", "pid": {process}, "tid": 0', sort_index=process)
        stages = result.meta.stages_of()[process - 1] if process else 0
        for stage in range(stages):
            thread = f'"name": "thread_name", "ph": "M", "pid": {process}, "tid": {_STEPS + stage}'
            yield _event(thread, name=f"stage {stage + 1}" if stages > 1 else "steps")


def _steps(chunk: Chunk, phases: dict[tuple[int, int], list[Any]], staged: Bools) -> Iterator[str]:
    """The steps of replicas without a pipeline."""
    mine = ~staged[chunk["replica"]]
    columns = (chunk[name][mine].tolist() for name in _STEP_COLUMNS)
    for row in zip(*columns, strict=True):
        replica, start, count, first, growth, compute_growth, memory_growth, *rest = row
        tokens, prefill, decodes, context, *drafts = rest
        waiting_growth = growth - compute_growth - memory_growth
        parts = phases.get((replica, start), [])
        speculation = {"drafted": drafts[0], "accepted": drafts[1]} if drafts[0] else {}
        now = start
        for place in range(count):
            length = first + growth * place
            alone = "verify" if drafts[0] else "decode"
            kind = alone if not prefill else "mixed" if decodes else "prefill"
            yield _complete(
                kind, "step", replica, now, length,
                tokens=tokens, prefill_tokens=prefill, decodes=decodes, context=context + decodes * place,
                **speculation,
            )  # fmt: skip
            at = now
            grown = {"sm": place * compute_growth, "hbm": place * memory_growth, "host": place * waiting_growth}
            for part, extra in zip(parts, _extras(parts, grown), strict=True):
                if part.ps + extra:
                    yield _complete(
                        part.kind, "phase", replica, at, part.ps + extra, resource=part.resource, pieces=part.count
                    )
                at += part.ps + extra
            now += length


def _stage_steps(result: Result) -> Iterator[str]:
    """The steps on the stages of pipelines."""
    for replica, stage, start, tokens, prefill, decodes, context, parts in result.stage_phases:
        kind = "decode" if not prefill else "mixed" if decodes else "prefill"
        length = sum(part.ps for part in parts)
        yield _complete(
            kind, "step", replica, start, length, stage,
            tokens=tokens, prefill_tokens=prefill, decodes=decodes, context=context,
        )  # fmt: skip
        at = start
        for part in parts:
            yield _complete(part.kind, "phase", replica, at, part.ps, stage, resource=part.resource, pieces=part.count)
            at += part.ps


def _extras(parts: list[Any], grown: dict[str, int]) -> list[int]:
    """How much longer each phase is than in the first step of the series [ps].

    Args:
        parts: the phases of the first step.
        grown: by resource, how much longer it takes [ps].
    """
    extras = [0] * len(parts)
    for resource, more in grown.items():
        if more:
            bounded = [place for place, part in enumerate(parts) if part.resource == resource]
            if parts:
                extras[bounded[-1] if bounded else -1] += more
    return extras


def _complete(
    name: str, category: str, replica: int, start_ps: int, length_ps: int, stage: int = 0, **args: Any
) -> str:
    return _event(
        f'"name": {json.dumps(name)}, "cat": "{category}", "ph": "X", "ts": {_us(start_ps)}, "dur": {_us(length_ps)}, '
        f'"pid": {replica + 1}, "tid": {_STEPS + stage}',
        **args,
    )


def _requests(result: Result) -> Iterator[str]:
    outcomes, classes = result.table.names(1), result.table.names(0)
    names = (
        "id", "replica", LABELS_COLUMN, "arrival_ps", "queued_ps", "scheduled_ps", "prefill_done_ps", "first_token_ps",
        "last_token_ps", "prompt_tokens", "output_tokens", "hit_tokens", "preemptions", "drafted_tokens",
        "accepted_tokens",
    )  # fmt: skip
    for block in result.table.blocks(_BLOCK_ROWS):
        moves = result.hand_overs.of(block["id"])
        moved = [moves[name].tolist() for name in _MOVES] if moves.some else []
        for place, row in enumerate(zip(*(block[name].tolist() for name in names), strict=True)):
            identity, replica, label, arrival, queued, scheduled, prefilled, first, last, *counts = row
            prompt, output, hits, preempted, drafted, accepted = counts
            source, target, came, decodes, freed = (values[place] for values in moved) if moved else (-1,) * 5
            outcome = outcomes[label]
            details = {
                "class": classes[label], "outcome": outcome, "prompt_tokens": prompt, "output_tokens": output,
                "hit_tokens": hits, "preemptions": preempted,
            }  # fmt: skip
            if drafted:
                details |= {"drafted_tokens": drafted, "accepted_tokens": accepted}
            if source < 0:
                end = _end(result.end_ps, outcome, arrival, queued, scheduled, first, last)
                parts = (("queue", arrival), ("prefill", scheduled), ("decode", first))
                yield from _span("request", identity, replica, arrival, end, parts, details)
                continue
            end = _end(result.end_ps, outcome, arrival, queued, scheduled, prefilled)
            waits = ("queue", arrival), ("prefill", scheduled)
            yield from _span("request", identity, source, arrival, end, waits, details | {"decoded_by": target})
            if came >= 0:
                # It may end with its prefill, before the front end has let it through.
                end = max(came, _end(result.end_ps, outcome, came, prefilled, freed, decodes, last))
                waits = ("queue", came), ("decode", decodes)
                yield from _span("decode", identity, target, came, end, waits, details | {"prefilled_by": source})


def _span(
    category: str, identity: int, replica: int, begin: int, end: int, edges: Sequence[tuple[str, int]],
    details: Mapping[str, Any],
) -> Iterator[str]:  # fmt: skip
    """A request, or its part at one replica, with what happened to it there nested inside."""
    where = f'"cat": "{category}", "id": {identity}, "pid": {replica + 1 if replica >= 0 else _GATEWAY}, "tid": 0'
    yield _event(f'"name": "request", "ph": "b", "ts": {_us(begin)}, {where}', **details)
    for name, start, finish in _spans(edges, end):
        yield _event(f'"name": "{name}", "ph": "b", "ts": {_us(start)}, {where}')
        yield _event(f'"name": "{name}", "ph": "e", "ts": {_us(finish)}, {where}')
    yield _event(f'"name": "request", "ph": "e", "ts": {_us(end)}, {where}')


def _transfers(result: Result) -> Iterator[str]:
    """Each transfer from its beginning to its end, whether it arrived or was given up.

    What is pushed into the memory of a server goes on from there by another transfer.
    """
    table = result.hand_overs
    if not len(table):
        return
    process = result.meta.replicas + 2
    yield _event(f'"name": "process_name", "ph": "M", "pid": {process}, "tid": 0', name="KV transfers")
    yield _event(f'"name": "process_sort_index", "ph": "M", "pid": {process}, "tid": 0', sort_index=process)
    times = HandOverTimes(table, result.table, result.end_ps)
    columns = [table.column(name) for name in ("source", "target", "moved_bytes", "attempts")]
    rows = (table.ids, *columns, times.arrived, *times.cuts)
    for identity, source, target, moved, attempts, arrived, *cuts in zip(*(one.tolist() for one in rows), strict=True):
        _, pushed, taken, there, first, pushes = cuts
        if first < 0:
            continue
        whither = f"memory of replica {target}" if pushes else f"replica {target}"
        ways = [(f"replica {source} → {whither}", first, pushed if pushes else there)]
        if pushes and arrived:
            ways.append((f"memory → replica {target}", taken, there))
        details = {"request": identity, "bytes": moved, "attempts": attempts, "arrived": arrived}
        for name, begin, end in ways:
            track = f'"name": "{name}", "cat": "transfer", "id": {identity}, "pid": {process}, "tid": 0'
            yield _event(f'{track}, "ph": "b", "ts": {_us(begin)}', **details)
            yield _event(f'{track}, "ph": "e", "ts": {_us(end)}')


def _end(end_ps: int, outcome: str, *stamps: int) -> int:
    """When a request's span ends: at its last token, at the end of the run, or where its stamps end."""
    if stamps[-1] >= 0:
        return stamps[-1]
    return max(end_ps, *stamps) if outcome == UNFINISHED else max(stamps)


def _spans(edges: Sequence[tuple[str, int]], end: int) -> Iterator[tuple[str, int, int]]:
    """The parts of a request's life that took place, one after the other."""
    happened = [(name, begin) for name, begin in edges if begin >= 0]
    for place, (name, begin) in enumerate(happened):
        finish = happened[place + 1][1] if place + 1 < len(happened) else end
        yield name, begin, finish


def _links(result: Result) -> Iterator[str]:
    """The shares of the busiest links as counters, each of which holds until its next event."""
    process = result.meta.replicas + 1
    loads = busiest(result)
    if loads:
        yield _event(f'"name": "process_name", "ph": "M", "pid": {process}, "tid": 0', name="network")
        yield _event(f'"name": "process_sort_index", "ph": "M", "pid": {process}, "tid": 0', sort_index=process)
    for load in loads:
        track = f'"name": {json.dumps(load.name)}, "cat": "link", "ph": "C", "pid": {process}, "tid": 0'
        rows = zip(load.start_s.tolist(), load.collectives.tolist(), load.transfers.tolist(), strict=True)
        for start_s, collectives, transfers in (*rows, (float(load.end_s[-1]), 0.0, 0.0)):
            ts = _us(round(start_s * PS_PER_S))
            yield _event(f'{track}, "ts": {ts}', collectives=100 * collectives, transfers=100 * transfers)
