"""Damaged traces of every format: an error that says where, or a trace that adds up and runs; never anything else."""

from __future__ import annotations

import gzip
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.unit.workload.trace_samples import FILES, VIDUR, own_table

from servetwin.errors import InputError
from servetwin.scenario.load import load_scenario
from servetwin.scenario.run import run
from servetwin.streams import Streams
from servetwin.workload.build import build_stream
from servetwin.workload.spec import WorkloadSpec
from servetwin.workload.traces.reading import read_trace
from servetwin.workload.traces.spec import TraceSpec

EXAMPLES = 500
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: the changes are few and short as they are."""

MOST_CPU_S = 5.0
"""Far more than any of these files takes: what takes longer hangs."""

MAP = "arrival_s=arrived_at,prompt_tokens=num_prefill_tokens,output_tokens=num_decode_tokens"
JSON_MAP = "arrival_ms=timestamp,prompt_tokens=input_length,output_tokens=output_length,session_id=hash_ids"
CASES: dict[str, tuple[bytes | dict[str, bytes], dict[str, Any]]] = {
    **{name: (content, {}) for name, content in FILES.items()},
    "columns of CSV": (VIDUR.encode(), {"columns": MAP}),
    "columns of JSON": (FILES["mooncake"], {"columns": JSON_MAP}),
}

NASTY = [
    "", " ", "0", "-0", "-1", "1", "9999999999", "1e999", "1e308", "-1e308", "nan", "NaN", "Infinity", "null", "true",
    "1_0", "٣", "0x10", "1.5", "1e-320", "99999999999999999999999999", "9" * 5000, '"', "'", "{", "}", "[]", "[" * 3000,
    '"a"', "{}", ":", ",", ",,,,", ";", "\n", "\r", "\t", "\x00", "\x1b[31m", "\ufeff", "\u2028", "é", "2023-02-30",
    "2024-05-10 00:00:00", "9999-12-31 23:59:59+23:59", "Gamma", "chunk-0", "-1e0",
]  # fmt: skip


class Mutation(NamedTuple):
    """One change of a file.

    Attributes:
        kind: of ``KINDS``.
        place, other: where, modulo what there is.
        value: what comes there.
    """

    kind: str
    place: int
    other: int
    value: str


KINDS = ("set byte", "insert", "cut", "truncate", "drop row", "double row", "swap rows", "field", "value", "append")
PLACES = st.integers(0, 1 << 20)
MUTATIONS = st.lists(
    st.builds(Mutation, st.sampled_from(KINDS), PLACES, PLACES, st.sampled_from(NASTY)), min_size=1, max_size=4
)
OPTIONS = st.fixed_dictionaries(
    {"skip_bad_rows": st.booleans(), "sort": st.booleans()},
    optional={
        "limit": st.integers(1, 5),
        "window_s": st.sampled_from(["0:10", "5:", ":1"]),
        "rate_scale": st.sampled_from([0.1, 3.0, 1e6]),
        "spread_ties": st.booleans(),
    },
)
_FIELD = re.compile(rb"[^,:\[\]{}\n;]+")
_VALUE = re.compile(rb'-?\d+(?:\.\d+)?|"[^"\n]*"')


def mutated(data: bytes, change: Mutation) -> bytes:
    """A file after one change."""
    value = change.value.encode("utf-8", "surrogatepass")
    at, other = change.place % (len(data) + 1), change.other % (len(data) + 1)
    if change.kind == "set byte":
        return data[:at] + bytes([change.other % 256]) + data[at + 1 :]
    if change.kind == "insert":
        return data[:at] + value + data[at:]
    if change.kind == "cut":
        return data[: min(at, other)] + data[max(at, other) :]
    if change.kind == "truncate":
        return data[:at]
    if change.kind == "append":
        return data + value
    if change.kind in ("field", "value"):
        found = list((_FIELD if change.kind == "field" else _VALUE).finditer(data))
        if not found:
            return value
        match = found[change.place % len(found)]
        return data[: match.start()] + value + data[match.end() :]
    lines = data.split(b"\n")
    at, other = change.place % len(lines), change.other % len(lines)
    if change.kind == "drop row":
        del lines[at]
    elif change.kind == "double row":
        lines.insert(other, lines[at])
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def damaged(content: bytes | dict[str, bytes], changes: list[Mutation]) -> bytes | dict[str, bytes]:
    """A file, or one file of a folder for each change, after all of them."""
    if isinstance(content, bytes):
        for change in changes:
            content = mutated(content, change)
        return content
    files = dict(content)
    for change in changes:
        name = sorted(files)[change.other % len(files)]
        files[name] = mutated(files[name], change)
    return files


def attempt(content: bytes | dict[str, bytes], use: Callable[[Path], None]) -> None:
    """Write a trace and use it: it works, or the error is the user's, and neither takes long."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.mkdir()
            for name, data in content.items():
                (path / name).write_bytes(data)
        start = time.process_time()
        try:
            use(path)
        except InputError as error:
            assert error.file
            assert len(str(error)) < 4_000
        assert time.process_time() - start < MOST_CPU_S


def check(path: Path, options: dict[str, Any]) -> None:
    """Read a trace and let its requests come."""
    spec = TraceSpec(path=str(path), **options)
    trace = read_trace(spec, Path(), Streams(1))
    counts = trace.counts
    assert counts.read == len(trace) + counts.skipped + counts.failed + counts.outside
    stream = build_stream(WorkloadSpec(trace=spec), Streams(1), requests=None, duration_ps=None, base=Path())
    requests = list(stream)
    assert len(requests) == len(trace) > 0
    assert [r.arrival_ps for r in requests] == sorted(r.arrival_ps for r in requests)
    assert requests[0].arrival_ps >= 0
    for request in requests:
        assert request.prompt_tokens >= 1
        assert request.output_tokens >= 1
        if request.segments:
            assert sum(tokens for _, tokens in request.segments) == request.prompt_tokens


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=EXAMPLES, deadline=None, phases=PHASES)
@given(changes=MUTATIONS, options=OPTIONS, packed=st.booleans())
def test_damaged_traces(name: str, changes: list[Mutation], options: dict[str, Any], packed: bool) -> None:
    content, given_options = CASES[name]
    data = damaged(content, changes)
    if packed and isinstance(data, bytes):
        data = gzip.compress(data, compresslevel=1)
    attempt(data, lambda path: check(path, {**given_options, **options}))


COLUMN = st.one_of(
    st.lists(st.floats(), min_size=3, max_size=3).map(lambda values: pa.array(values, pa.float64())),
    st.lists(st.none() | st.integers(-2, 9), min_size=3, max_size=3).map(lambda values: pa.array(values, pa.int64())),
    st.lists(st.none() | st.text(max_size=3), min_size=3, max_size=3).map(lambda values: pa.array(values, pa.string())),
    st.sampled_from(
        [pa.array([[1], [2], []]), pa.nulls(3), pa.array([True, False, None]), pa.array([b"x", b"", None])]
    ),
    st.none(),
)
COLUMNS = st.dictionaries(
    st.sampled_from(["session_id", "class", "arrival_s", "prompt_tokens", "output_tokens"]), COLUMN, min_size=1
)


@settings(max_examples=EXAMPLES, deadline=None, phases=PHASES)
@given(columns=COLUMNS, options=OPTIONS)
def test_tables_with_other_columns(columns: dict[str, Any], options: dict[str, Any]) -> None:
    attempt(own_table(**columns), lambda path: check(path, options))


@settings(max_examples=100, deadline=None, phases=PHASES)
@given(changes=MUTATIONS)
def test_damaged_archives(changes: list[Mutation]) -> None:
    for pack in (gzip.compress, lambda data: pa.compress(data, "zstd", asbytes=True)):
        data = damaged(pack(VIDUR.encode() * 3), changes)
        attempt(data, lambda path: check(path, {"skip_bad_rows": True, "sort": True}))


SCENARIO = load_scenario("quickstart", ["run.requests=8"])


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=25, deadline=None, phases=PHASES)
@given(changes=MUTATIONS)
def test_damaged_traces_run_to_their_end(name: str, changes: list[Mutation]) -> None:
    content, options = CASES[name]

    def simulate(path: Path) -> None:
        workload = WorkloadSpec(trace=TraceSpec(path=str(path), **options, skip_bad_rows=True, sort=True))
        result = run(SCENARIO.model_copy(update={"workload": workload}))
        summary = result.summary()
        ends = ("completed", "rejected", "failed", "cancelled", "unfinished")
        assert 0 < sum(summary[end] for end in ends) <= 8

    attempt(damaged(content, changes), simulate)
